"""Which border is where, and where it goes when it is dragged."""

from __future__ import annotations

import pytest

from rltui.core.experiment.description import ScreenLayout
from rltui.ui.panels.arrangement import Arrangement
from rltui.ui.panels.geometry import Border, PanelState, fit

NAMES = ("inference", "orchestrator", "trainer")
STATES = dict.fromkeys((*NAMES, "gpus", "knobs"), PanelState())
USUAL = Arrangement.of_layout(ScreenLayout(), NAMES)
SIZE = (150, 42)
PLACED = fit(USUAL, SIZE, STATES)


@pytest.mark.parametrize(
    ("x", "y", "border"),
    [
        (50, 13, Border("inference", "orchestrator", between_columns=False)),
        (50, 14, Border("inference", "orchestrator", between_columns=False)),
        (99, 30, Border("trainer", "gpus", between_columns=True)),
        (100, 30, Border("inference", "knobs", between_columns=True)),
        (120, 21, Border("gpus", "knobs", between_columns=False)),
        (50, 0, None),
        (50, 5, None),
        (50, 41, None),
        (0, 5, None),
        (500, 500, None),
    ],
    ids=str,
)
def test_borders_are_the_frames_of_both(x: int, y: int, border: Border | None) -> None:
    assert PLACED.border_at(x, y) == border


def test_a_folded_panel_is_dragged_with_the_border() -> None:
    found = fit(USUAL, SIZE, {**STATES, "orchestrator": PanelState(is_idle=True)})
    top = found.rectangles["orchestrator"].y
    between = Border("inference", "trainer", between_columns=False)
    assert [found.border_at(50, y) for y in (top - 1, top, top + 1)] == [between] * 3


def test_a_border_goes_where_it_is_dragged() -> None:
    between = Border("inference", "orchestrator", between_columns=False)
    for by, rows in ((5, (19, 9)), (-5, (9, 19)), (100, (24, 4)), (-100, (4, 24))):
        after = fit(PLACED.drag(USUAL, between, by), SIZE, STATES).rectangles
        assert (after["inference"].height, after["orchestrator"].height) == rows
        assert after["trainer"].height == 14
    columns = Border("trainer", "gpus", between_columns=True)
    for by, x in ((10, 110), (-60, 40), (-100, 24), (100, 126)):
        assert fit(PLACED.drag(USUAL, columns, by), SIZE, STATES).rectangles["gpus"].x == x


def test_a_key_moves_the_border_that_there_is() -> None:
    assert PLACED.border_of("inference", between_columns=False) == (
        Border("inference", "orchestrator", between_columns=False),
        1,
    )
    assert PLACED.border_of("knobs", between_columns=False) == (
        Border("gpus", "knobs", between_columns=False),
        -1,
    )
    assert PLACED.border_of("knobs", between_columns=True) == (
        Border("inference", "knobs", between_columns=True),
        -1,
    )
    alone = fit(USUAL, SIZE, {"trainer": PanelState()})
    assert alone.border_of("trainer", between_columns=False) is None
    assert alone.border_of("trainer", between_columns=True) is None
    assert alone.border_of("gpus", between_columns=True) is None
