"""Whatever a file holds, checks and figures say something and do not break."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltui.core.knobs import Knob
from rltui.frameworks.base import ConfigFile, ConfigFiles, Framework
from rltui.frameworks.prime_rl.merged import PRIME_RL_MERGED
from rltui.frameworks.prime_rl.split import PRIME_RL_SPLIT

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


@pytest.mark.parametrize("framework", [PRIME_RL_SPLIT, PRIME_RL_MERGED], ids=lambda framework: framework.id)
@settings(max_examples=60)
@given(data=st.data())
def test_nothing_breaks(framework: Framework, data: st.DataObject) -> None:
    roles = {knob.file for knob in framework.knobs}
    edits = data.draw(st.dictionaries(st.sampled_from(framework.knobs), VALUES, max_size=12))
    config = files(edits, data.draw(st.sets(st.sampled_from(sorted(roles)))))
    assert all(problem.message for problem in framework.check(config))
    framework.derive(config)


def test_no_room_for_new_tokens_breaks_nothing() -> None:
    data = {"orchestrator": {"sampling": {"max_tokens": 0}}, "trainer": {}}
    assert PRIME_RL_MERGED.derive({"rl": ConfigFile("rl", "/rl.toml", data)})
