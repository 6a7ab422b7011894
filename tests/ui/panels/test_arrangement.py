"""What is where: operations on values, and that what was kept comes back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.experiment.description import ScreenLayout
from rltui.ui.panels.arrangement import Arrangement, Direction

NAMES = ("inference", "orchestrator", "trainer")
USUAL = Arrangement.of_layout(ScreenLayout(), NAMES)
ALL = {*NAMES, "gpus", "knobs"}


def test_a_layout_without_columns_has_components_left_and_panels_right() -> None:
    assert USUAL.columns == (NAMES, ("gpus", "knobs", "charts"))
    assert USUAL.widths == (2.0, 1.0)
    assert USUAL.hidden == {"charts"}


def test_what_a_layout_does_not_name_is_hidden() -> None:
    found = Arrangement.of_layout(
        ScreenLayout(columns=(("knobs",), ("trainer",)), widths=("1fr", "3fr")), NAMES
    )
    assert found.columns == (("knobs", "inference", "orchestrator"), ("trainer", "gpus", "charts"))
    assert found.widths == (1.0, 3.0)
    assert found.hidden == {"inference", "orchestrator", "gpus", "charts"}
    one = Arrangement.of_layout(ScreenLayout(columns=(("trainer",),)), NAMES)
    assert one.columns == (("trainer", "inference", "orchestrator", "gpus", "knobs", "charts"),)


def test_panels_move_among_those_that_are_seen() -> None:
    hidden = USUAL.hide("orchestrator")
    assert hidden.move("trainer", "up", ALL - {"orchestrator"}).columns[0] == (
        "trainer",
        "orchestrator",
        "inference",
    )
    assert USUAL.move("inference", "up", ALL) == USUAL
    right = USUAL.move("trainer", "right", ALL)
    assert right.columns == (("inference", "orchestrator"), ("gpus", "knobs", "charts", "trainer"))
    new = right.move("trainer", "right", ALL)
    assert new.columns[2] == ("trainer",)
    assert len(new.widths) == 3
    assert new.move("trainer", "right", ALL) == new, "it is alone there already"
    assert new.move("trainer", "left", ALL).columns == right.columns


def test_hidden_ones_keep_their_place() -> None:
    assert USUAL.hide("gpus").show("gpus") == USUAL


def test_shares_of_two_keep_their_sum() -> None:
    """So the others keep theirs."""
    assert USUAL.with_rows({"inference": 30, "trainer": 10}).heights == {"inference": 1.5, "trainer": 0.5}
    assert USUAL.with_cells({0: 30, 1: 90}).widths == (0.75, 2.25)


@given(
    st.lists(
        st.tuples(
            st.sampled_from((*sorted(ALL), "charts")),
            st.sampled_from(("left", "right", "up", "down", "hide", "show")),
        )
    )
)
def test_whatever_is_done_nothing_is_lost(steps: list[tuple[str, str]]) -> None:
    found = USUAL
    for name, step in steps:
        match step:
            case "hide":
                found = found.hide(name)
            case "show":
                found = found.show(name)
            case _:
                direction: Direction = step  # type: ignore[assignment]
                seen = {*ALL, "charts"} - found.hidden
                found = found.move(name, direction, seen)
        assert sorted(name for column in found.columns for name in column) == sorted((*ALL, "charts"))
        assert len(found.columns) == len(found.widths)
        assert all(found.columns)
    assert Arrangement.from_json(json.loads(json.dumps(found.to_json())), USUAL) == found


def test_what_is_new_since_joins_where_the_layout_has_it() -> None:
    before = Arrangement.of_layout(ScreenLayout(), NAMES[:2]).move("gpus", "left", ALL)
    found = Arrangement.from_json(json.loads(json.dumps(before.to_json())), USUAL)
    assert found.columns == (("inference", "orchestrator", "gpus", "trainer"), ("knobs", "charts"))
    assert found.hidden == {"charts"}


@pytest.mark.parametrize(
    "kept",
    [
        None,
        [],
        {},
        {"columns": [["a"]], "widths": [], "heights": {}, "hidden": []},
        {"columns": [["a", "a"]], "widths": [1], "heights": {}, "hidden": []},
        {"columns": [[1]], "widths": [1], "heights": {}, "hidden": []},
        {"columns": [["a"]], "widths": [-1], "heights": {}, "hidden": []},
        {"columns": [["a"]], "widths": ["1fr"], "heights": {}, "hidden": []},
        {"columns": ["ab"], "widths": [1], "heights": {}, "hidden": []},
        {"columns": [["a"]], "widths": [1], "heights": {"a": None}, "hidden": []},
        {"columns": [["a"]], "widths": [1], "heights": {}, "hidden": [[]]},
    ],
    ids=str,
)
def test_what_cannot_be_understood_is_as_usual(kept: object) -> None:
    assert Arrangement.from_json(kept, USUAL) == USUAL
