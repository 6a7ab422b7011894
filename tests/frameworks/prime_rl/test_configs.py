"""What no schema says: every concept is a key of some release, and each generation has its main knobs."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frameworks.prime_rl.runs import DATA, of

from rltui.core.config.knobs import Knob
from rltui.frameworks import registry
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, OVERLAY, PARTS, SPLIT, snapshots

ROLES = {SPLIT: (*PARTS, "sft"), MERGED: ("rl", "sft"), CURRENT: ("rl", "sft")}
ERAS = pytest.mark.parametrize(
    ("generation", "era"), [(SPLIT, "era_a"), (MERGED, "era_b"), (CURRENT, "era_c"), (CURRENT, "era_d")]
)


def real(era: str) -> dict[str, Any]:
    """The example files of a generation, by role."""
    roles = {"train": "trainer", "orch": "orchestrator", "infer": "inference"}
    paths = (DATA / era).glob("*.toml")
    return {roles.get(path.stem, path.stem): tomllib.loads(path.read_text()) for path in paths}


def test_every_concept_and_what_a_shared_key_fills_is_a_key_of_some_release() -> None:
    known = {
        ("" if role == "rl" else f"{role}.") + key
        for generation, roles in ROLES.items()
        for role in roles
        for schema in snapshots(generation, role)
        for key in schema.keys
    }
    lost = [name for name, concept in OVERLAY.concepts.items() if known.isdisjoint(concept.keys)]
    assert lost == ["inference.vllm.max_num_seqs"]  # vLLM's own, which no schema of prime-rl names
    assert [name for names in OVERLAY.shared.values() for name in names if name not in known] == []


@ERAS
def test_each_generation_has_a_screenful_of_main_knobs(generation: str, era: str) -> None:
    files = of(**{role: data for role, data in real(era).items() if role != "sft"})
    main = [knob for knob in registry.get(generation).config.knobs(files) if knob.main]
    assert 15 < len(main) < 50
    assert all(knob.help.endswith(".") and knob.readers for knob in main)


@ERAS
def test_real_files_are_sound(generation: str, era: str) -> None:
    problems = registry.get(generation).config.check(of(**real(era)))
    faults = [problem for problem in problems if problem.severity != "hint"]
    assert [problem.text for problem in faults if "renderer" not in (problem.key or "")] == []


VALUES = [
    0, 1, 2, 7, 128, -1, 0.0, 0.5, 1.5, 10**30, float("inf"), float("nan"), True, False, "None", "nccl", "x",
    "", "64", [], [0], [[0]], ["a"], [{}], [{"a": 1}], {}, {"a": 1}, ["http://localhost:8001/v1"],
    ["http://[::1"],
]  # fmt: skip


def edited(edits: dict[Knob, Any], roles: set[str]) -> ConfigFiles:
    by_file: dict[str, dict[str, Any]] = {role: {} for role in roles}
    for knob, value in edits.items():
        *tables, key = knob.key.split(".")
        table: Any = by_file.setdefault(knob.file, {})
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                break
        else:
            table[key] = value
    return of(**by_file)


@cache
def knobs_of(generation: str) -> tuple[Knob, ...]:
    return registry.get(generation).config.knobs(of(**{role: {} for role in ROLES[generation]}))


@pytest.mark.parametrize("generation", ROLES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_nothing_breaks(generation: str, data: st.DataObject) -> None:
    edits = data.draw(
        st.dictionaries(st.sampled_from(knobs_of(generation)), st.sampled_from(VALUES), max_size=12)
    )
    config = edited(edits, data.draw(st.sets(st.sampled_from(ROLES[generation]))))
    assert all(problem.message for problem in registry.get(generation).config.check(config))
    registry.get(generation).config.derive(config)


def _holding(place: str, value: object) -> dict[str, Any]:
    """A config with that value there, in the first entry of each array on the way."""
    name, _, below = place.partition(".")
    inner = _holding(below, value) if below else value
    return {name.removesuffix("[]"): [inner] if name.endswith("[]") else inner}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("generation", "role"),
    [(CURRENT, "rl"), (CURRENT, "sft"), (MERGED, "rl"), *((SPLIT, part) for part in PARTS)],
)
def test_nothing_that_a_file_may_hold_breaks_the_check(generation: str, role: str) -> None:
    """Nor the defaults and figures."""
    schema = snapshots(generation, role)[-1]
    known = registry.get(generation).with_schemas({role: schema})
    for number, place in enumerate(sorted(schema.keys)):
        config = of(**{role: _holding(place, VALUES[number % len(VALUES)])})
        assert all(problem.message for problem in known.config.check(config))
        known.config.derive(config)


def test_no_room_for_new_tokens_breaks_nothing() -> None:
    assert registry.get(MERGED).config.derive(
        of(rl={"orchestrator": {"sampling": {"max_tokens": 0}}, "trainer": {}})
    )


def test_rules_follow_the_name_that_the_file_uses() -> None:
    """One release takes both names of the group size."""
    schema = next(one for one in snapshots(MERGED, "rl") if one.has("orchestrator.group_size")
                  and one.has("orchestrator.rollouts_per_example"))  # fmt: skip
    for name in ("group_size", "rollouts_per_example"):
        config = of(rl={"trainer": {}, "orchestrator": {name: 7}})
        problems = registry.get(MERGED).with_schemas({"rl": schema}).config.check(config)
        (problem,) = [one for one in problems if one.severity == "error"]
        assert f"must be divisible by orchestrator.{name} (7)" in problem.message
        assert problem.instead == {f"orchestrator.{name}": "4 or 8"}
