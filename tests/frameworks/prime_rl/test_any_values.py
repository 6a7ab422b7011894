"""Whatever a file holds, checks and figures say something and do not break."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltui.core.knobs import Knob
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.prime_rl.configs import CURRENT, MERGED, PARTS, SPLIT
from rltui.frameworks.registry import get

VALUES = st.sampled_from(
    [0, 1, 2, 7, 128, -1, 0.0, 0.5, 1.5, float("inf"), float("nan"), True, False, "None", "nccl", "x", "",
     "128", [], [0], [[0]], [{}], {}, {"a": 1}, ["http://localhost:8001/v1"], ["http://[::1"]]
)  # fmt: skip


def files(edits: dict[Knob, Any], roles: set[str]) -> ConfigFiles:
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


@pytest.mark.parametrize("name", ROLES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_nothing_breaks(name: str, data: st.DataObject) -> None:
    knobs = get(name).knobs({role: ConfigFile(role, f"/{role}.toml", {}) for role in ROLES[name]})
    edits = data.draw(st.dictionaries(st.sampled_from(knobs), VALUES, max_size=12))
    config = files(edits, data.draw(st.sets(st.sampled_from(ROLES[name]))))
    assert all(problem.message for problem in get(name).check(config))
    get(name).derive(config)


def test_no_room_for_new_tokens_breaks_nothing() -> None:
    data = {"orchestrator": {"sampling": {"max_tokens": 0}}, "trainer": {}}
    assert get(MERGED).derive({"rl": ConfigFile("rl", "/rl.toml", data)})
