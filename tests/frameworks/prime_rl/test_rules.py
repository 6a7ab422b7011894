"""Each rule between keys, of all generations: what it takes, and what it refuses with which words."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.frameworks.prime_rl.runs import DATA, framework, of

from rltui.core.toml.values import split_key
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, SPLIT, snapshots


def real(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / f"{name}.toml").read_text())


GROUPED = {"rollouts_per_example": 16}
"""So that batches are whole."""
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "c/rl": (CURRENT, {"rl": real("era_c/rl")}),
    "c/sft": (CURRENT, {"sft": real("era_c/sft")}),
    "d/rl": (CURRENT, {"rl": real("era_d/rl")}),
    "merged/rl": (MERGED, {"rl": {"orchestrator": GROUPED, "trainer": {"optim": {"lr": 1e-6}}}}),
    "merged/sft": (MERGED, {"sft": {}}),
    "split": (SPLIT, {"trainer": {}, "orchestrator": GROUPED, "inference": {}}),
    "split/orchestrator": (SPLIT, {"orchestrator": GROUPED}),
    **{f"split/{role}": (SPLIT, {role: {}}) for role in ("trainer", "inference", "sft")},
}
"""Sound files of each generation, by role. The edits of `split` begin with the role."""


def cases() -> Iterator[Any]:
    """Base, edits `KEY = VALUE; …` (`GONE` takes a key out), and one verdict on the file that they make."""
    base = edits = ""
    for line in (DATA / "rules.txt").read_text().splitlines():
        if line.startswith("== "):
            base = line[3:]
        elif not line.startswith(" "):
            edits = line
        else:
            yield pytest.param(base, edits, line.strip(), id=f"{base} {edits}")


def edited(base: str, edits: str) -> ConfigFiles:
    roles = copy.deepcopy(BASES[base][1])
    for edit in [] if edits == "(as it is)" else edits.split("; "):
        key, _, value = edit.partition(" = ")
        *above, leaf = split_key(key)
        table: Any = roles if base == "split" else next(iter(roles.values()))
        for name in above:
            table = table[int(name)] if isinstance(table, list) else table.setdefault(name, {})
        if value == "GONE":
            del table[leaf]
        else:
            table[leaf] = tomllib.loads(f"value = {value}")["value"]
    return of(**roles)


@pytest.mark.parametrize(("base", "edits", "verdict"), cases())
def test_what_is_said_of_a_file(base: str, edits: str, verdict: str) -> None:
    configs, generation = edited(base, edits), framework(BASES[base][0])
    problems = generation.check(configs)
    errors = [problem.text for problem in problems if problem.severity == "error"]
    kind, colon, words = verdict.partition(": ")
    name, is_value, value = verdict.partition(" is ")
    if colon:
        severity, _, key = kind.partition(" ")
        assert any(
            problem.severity == severity and words in problem.message and key in ("", problem.key)
            for problem in problems
        ), problems
        assert severity == "error" or not errors
    elif is_value:
        assert generation.values(configs)[name] == json.loads(value)
    else:
        assert {"sound": [each.text for each in problems if each.severity != "hint"], "no error": errors}[
            verdict
        ] == []


@pytest.mark.parametrize(
    ("generation", "era"), [(SPLIT, "era_a"), (MERGED, "era_b"), (CURRENT, "era_c"), (CURRENT, "era_d")]
)
def test_real_files_are_sound(generation: str, era: str) -> None:
    names = {"train": "trainer", "orch": "orchestrator", "infer": "inference"}
    files = {
        names.get(path.stem, path.stem): tomllib.loads(path.read_text())
        for path in (DATA / era).glob("*.toml")
    }
    problems = framework(generation).check(of(**files))
    told = [problem for problem in problems if problem.severity != "hint"]
    assert [problem.text for problem in told if "renderer" not in (problem.key or "")] == []


ODD: tuple[Any, ...] = (
    0, -1, 7, 0.5, "64", "None", "", True, [], ["a"], {}, {"a": 1}, [{"a": 1}], [3], float("nan"), 10**30,
)  # fmt: skip


def _holding(place: str, value: object) -> dict[str, Any]:
    """A config with that value there, in the first entry of each array on the way."""
    name, _, below = place.partition(".")
    held = _holding(below, value) if below else value
    return {name.removesuffix("[]"): [held] if name.endswith("[]") else held}


@pytest.mark.parametrize(
    ("generation", "role"),
    [
        (CURRENT, "rl"),
        (CURRENT, "sft"),
        (MERGED, "rl"),
        (SPLIT, "trainer"),
        (SPLIT, "orchestrator"),
        (SPLIT, "inference"),
    ],
)
def test_nothing_that_a_file_may_hold_breaks_the_check(generation: str, role: str) -> None:
    """Nor the defaults and figures."""
    schema = snapshots(generation, role)[-1]
    known = framework(generation).with_schemas({role: schema})
    for at, place in enumerate(sorted(schema.keys)):
        if at % 7 == 0:
            data = _holding(place, ODD[at // 7 % len(ODD)])
            files = {role: ConfigFile(role, "/x.toml", data)}
            assert all(problem.message for problem in known.check(files))
            known.derive(files)


def test_rules_follow_the_name_that_the_file_uses() -> None:
    """One release takes both names of the group size."""
    schema = next(each for each in snapshots(MERGED, "rl") if each.has("orchestrator.group_size")
                  and each.has("orchestrator.rollouts_per_example"))  # fmt: skip
    for name in ("group_size", "rollouts_per_example"):
        data = {"trainer": {}, "orchestrator": {name: 7}}
        found = (
            framework(MERGED).with_schemas({"rl": schema}).check({"rl": ConfigFile("rl", "/rl.toml", data)})
        )
        (problem,) = [each for each in found if each.severity == "error"]
        assert f"must be divisible by orchestrator.{name} (7)" in problem.message
        assert problem.instead == {f"orchestrator.{name}": "4 or 8"}
