"""Each rule between keys, of all frameworks: what it takes, and what it refuses with which words."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.prime_rl.runs import of

from rltui.base.toml.values import split_key
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, SPLIT

DATA = Path(__file__).parents[1] / "data"


def real(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / f"{name}.toml").read_text())


GROUPED = {"rollouts_per_example": 16}
"""So that batches are whole."""
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "c/rl": (CURRENT, {"rl": real("prime_rl/era_c/rl")}),
    "c/sft": (CURRENT, {"sft": real("prime_rl/era_c/sft")}),
    "d/rl": (CURRENT, {"rl": real("prime_rl/era_d/rl")}),
    "merged/rl": (MERGED, {"rl": {"orchestrator": GROUPED, "trainer": {"optim": {"lr": 1e-6}}}}),
    "merged/sft": (MERGED, {"sft": {}}),
    "split": (SPLIT, {"trainer": {}, "orchestrator": GROUPED, "inference": {}}),
    "split/orchestrator": (SPLIT, {"orchestrator": GROUPED}),
    **{f"split/{role}": (SPLIT, {role: {}}) for role in ("trainer", "inference", "sft")},
    "tinyrl/rl": ("tinyrl", {"rl": {"model": {"name": "m"}}}),
    "tinyrl/sft": ("tinyrl", {"rl": {"orchestrator": GROUPED}, "sft": {}}),
    "vf-rl": ("verifiers", {"rl": real("verifiers/reverse-text")}),
}
"""Framework and sound files, by role. Edits are of the last one; those of `split` begin with the role."""


def cases() -> Iterator[Any]:
    """Base, edits `KEY = VALUE; …` (`GONE` takes a key out), and one verdict on the files that they make: a
    problem, the only error, the value of a knob, `sound` or `no error`.
    """
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
        table: Any = roles if base == "split" else [*roles.values()][-1]
        for name in above:
            table = table[int(name)] if isinstance(table, list) else table.setdefault(name, {})
        if value == "GONE":
            del table[leaf]
        else:
            table[leaf] = tomllib.loads(f"value = {value}")["value"]
    return of(**roles)


@pytest.mark.parametrize(("base", "edits", "verdict"), cases())
def test_what_is_said_of_a_file(base: str, edits: str, verdict: str) -> None:
    configs, framework = edited(base, edits), registry.get(BASES[base][0])
    problems = framework.config.check(configs)
    errors = [problem.message for problem in problems if problem.severity == "error"]
    kind, colon, words = verdict.partition(": ")
    name, is_value, value = verdict.partition(" is ")
    if kind == "only":
        assert errors == [words]
    elif colon:
        severity, _, key = kind.partition(" ")
        assert any(
            problem.severity == severity and words in problem.message and key in ("", problem.key)
            for problem in problems
        ), problems
        assert severity == "error" or not errors
    elif is_value:
        values = framework.config.values_of(framework.config.knobs(configs), configs)
        nothing = {framework.config.none_text(file) for file in configs.values()}
        assert (None if values[name] in nothing else values[name]) == json.loads(value)
    else:
        others = [problem.text for problem in problems if problem.severity != "hint"]
        assert {"sound": others, "no error": errors}[verdict] == []
