"""What no schema says: every concept is a key of some release, and each generation has its main knobs."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frameworks.prime_rl.runs import framework

from rltui.core.knobs import Knob
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, OVERLAY, PARTS, SPLIT, snapshots
from rltui.frameworks.registry import get

FIXTURES = Path(__file__).parents[2] / "data" / "prime_rl"
FILES = {"train": "trainer", "orch": "orchestrator", "infer": "inference"}


def known_keys() -> set[str]:
    found = set()
    for generation, roles in ((SPLIT, (*PARTS, "sft")), (MERGED, ("rl", "sft")), (CURRENT, ("rl", "sft"))):
        for role in roles:
            start = "" if role == "rl" else f"{role}."
            found |= {start + key for schema in snapshots(generation, role) for key in schema.keys}
    return found


def test_every_concept_is_a_key_of_some_release() -> None:
    known = known_keys()
    lost = [name for name, each in OVERLAY.concepts.items() if known.isdisjoint(each.keys)]
    assert lost == ["inference.vllm.max_num_seqs"]  # vLLM's own, which no schema of prime-rl names


def test_what_a_shared_key_fills_is_there_in_some_release() -> None:
    known = known_keys()
    assert [name for names in OVERLAY.shared.values() for name in names if name not in known] == []


@pytest.mark.parametrize(
    ("generation", "era"), [(SPLIT, "era_a"), (MERGED, "era_b"), (CURRENT, "era_c"), (CURRENT, "era_d")]
)
def test_each_generation_has_a_screenful_of_main_knobs(generation: str, era: str) -> None:
    files = {}
    for path in (FIXTURES / era).glob("*.toml"):
        role = FILES.get(path.stem, path.stem)
        if role != "sft":
            files[role] = ConfigFile(role, str(path), tomllib.loads(path.read_text()))
    main = [knob for knob in framework(generation).knobs(files) if knob.main]
    assert 15 < len(main) < 50
    assert all(knob.help.endswith(".") and knob.readers for knob in main)


VALUES = st.sampled_from(
    [0, 1, 2, 7, 128, -1, 0.0, 0.5, 1.5, float("inf"), float("nan"), True, False, "None", "nccl", "x", "",
     "128", [], [0], [[0]], [{}], {}, {"a": 1}, ["http://localhost:8001/v1"], ["http://[::1"]]
)  # fmt: skip


def edited(edits: dict[Knob, Any], roles: set[str]) -> ConfigFiles:
    found = {role: ConfigFile(role, f"/{role}.toml", {}) for role in roles}
    for knob, value in edits.items():
        *tables, key = knob.key.split(".")
        table: Any = found.setdefault(knob.file, ConfigFile(knob.file, "/x.toml", {})).data
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                break
        else:
            table[key] = value
    return found


ROLES = {SPLIT: (*PARTS, "sft"), MERGED: ("rl", "sft"), CURRENT: ("rl", "sft")}


@cache
def knobs_of(name: str) -> tuple[Knob, ...]:
    return get(name).knobs({role: ConfigFile(role, f"/{role}.toml", {}) for role in ROLES[name]})


@pytest.mark.parametrize("name", ROLES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_nothing_breaks(name: str, data: st.DataObject) -> None:
    edits = data.draw(st.dictionaries(st.sampled_from(knobs_of(name)), VALUES, max_size=12))
    config = edited(edits, data.draw(st.sets(st.sampled_from(ROLES[name]))))
    assert all(problem.message for problem in get(name).check(config))
    get(name).derive(config)


def test_no_room_for_new_tokens_breaks_nothing() -> None:
    data = {"orchestrator": {"sampling": {"max_tokens": 0}}, "trainer": {}}
    assert get(MERGED).derive({"rl": ConfigFile("rl", "/rl.toml", data)})
