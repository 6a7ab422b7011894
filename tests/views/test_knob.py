"""How knobs are told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.experiment import knob, knob_table

from rltui.core.config.report import KnobInfo
from rltui.views.knob import VIEW, change_text, knob_groups, readers_text
from rltui.views.table import Cell


def row(**fields: Any) -> dict[str, Any]:
    return KnobInfo(**{"key": "seed", "file": "rl.toml", "is_set": True, **fields}).to_plain()


@pytest.mark.parametrize(
    ("fields", "cell"),
    [
        ({"value": 2}, Cell("2")),
        ({"value": 2, "is_set": False}, Cell("2 (default)", "faint")),
        ({"is_set": False}, Cell("not set", "faint")),
        ({"value": 2, "running": 1, "is_running": True}, Cell("1 → 2", "busy")),
        ({"value": 2, "running": 3, "is_running": True, "overridden": True}, Cell("2 (runs with 3)")),
    ],
    ids=str,
)
def test_a_value_is_told_beside_what_runs(fields: dict[str, Any], cell: Cell) -> None:
    (value,) = VIEW.named(["value"])
    assert value.cell(row(**fields), 0.0) == cell


def test_of_many_choices_the_first_are_named_unless_all_are_wanted() -> None:
    knob = row(choices=("a", "b", "c", "d", "e"))
    few, every = (
        VIEW.named(["allowed"], is_brief=is_brief)[0].cell(knob, 0.0).text for is_brief in (True, False)
    )
    assert (few, every) == ("a|b|c|… 2 more: -v", "a|b|c|d|e")


def test_a_collected_value_and_one_that_waits_for_a_restart() -> None:
    knob = KnobInfo(key="seed", file="rl.toml", value=64, running=128, is_running=True, is_set=True)
    assert change_text(knob) == "128 → 64"
    assert change_text(knob, {"seed": 32}) == "64 ⇒ 32"
    assert change_text(knob, {"seed": None}) == "64 ⇒ default"


@pytest.mark.parametrize(
    ("width", "text"), [(20, "orch train infer"), (10, "3 readers"), (5, "o t i"), (3, "oti"), (2, "")]
)
def test_readers_are_named_as_far_as_there_is_room(width: int, text: str) -> None:
    assert readers_text(("orchestrator", "trainer", "inference"), width) == text


def test_knobs_that_people_turn_stand_before_the_rest() -> None:
    knobs = [knob(f"a.k{number:02}", number, main=number < 20) for number in range(30)]
    knobs[25] = knob("a.k25", 5, running=4, main=False)
    knobs[26] = knob("a.k26", 5, main=False, is_set=False)
    table = knob_table(knobs=tuple(knobs), others=(knob("x.other", 1, known=False),))
    groups = knob_groups(table, {"a.k24"}, pins=("a.k26", "x.other", "gone", "a.k03"), edited={"a.k05"})
    assert [knob.key for knob in groups.pinned] == ["a.k26", "x.other", "a.k03"]
    assert [knob.key for knob in groups.changed] == ["a.k05", "a.k24", "a.k25"]
    assert [knob.key for knob in groups.few] == [
        f"a.k{number:02}" for number in range(14) if number not in (3, 5)
    ]
    assert len(groups.rest) == 30 - 2 - 3 - 12
    few = knob_groups(knob_table(knobs=tuple(knobs[:15])), ())
    assert len(few.few) == 15, "three more are as well shown"
    assert not few.rest
