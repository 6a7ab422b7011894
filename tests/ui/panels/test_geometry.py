"""Rectangles for any screen: nothing overlaps, nothing is outside, what has the keys can be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.experiment.description import ScreenLayout
from rltui.ui.panels.arrangement import Arrangement
from rltui.ui.panels.geometry import Attention, Geometry, PanelState, fit

NAMES = ("inference", "orchestrator", "trainer")
READER = PanelState()
IDLE = PanelState(is_idle=True)


def side(rows: int) -> PanelState:
    return PanelState(rows=lambda _: rows, is_side=True)


STATES = {**dict.fromkeys(NAMES, READER), "gpus": side(8), "knobs": side(30)}
USUAL = Arrangement.of_layout(ScreenLayout(), NAMES)


def rows_of(geometry: Geometry) -> dict[str, int]:
    return {name: each.height for name, each in geometry.rectangles.items()}


def test_wide_screens_have_columns() -> None:
    found = fit(USUAL, (150, 40), STATES)
    assert rows_of(found) == {"inference": 14, "orchestrator": 13, "trainer": 13, "gpus": 8, "knobs": 32}
    assert {each.width for each in found.rectangles.values()} == {100, 50}
    assert not found.is_flat


def test_narrow_screens_have_one_column() -> None:
    high = fit(USUAL, (80, 50), STATES)
    assert rows_of(high) == {"inference": 11, "orchestrator": 11, "trainer": 10, "gpus": 8, "knobs": 10}
    small = fit(USUAL, (80, 22), STATES)
    assert rows_of(small) == {"inference": 7, "orchestrator": 7, "trainer": 6, "gpus": 1, "knobs": 1}
    assert small.is_flat
    focused = fit(USUAL, (80, 22), STATES, Attention("knobs", "trainer"))
    assert rows_of(focused) == {"inference": 4, "orchestrator": 3, "trainer": 3, "gpus": 1, "knobs": 11}


def test_low_screens_open_one_pane() -> None:
    found = fit(USUAL, (60, 12), STATES, Attention("trainer", "trainer"))
    assert rows_of(found) == {"inference": 1, "orchestrator": 1, "trainer": 8, "gpus": 1, "knobs": 1}


def test_idle_ones_fold_unless_they_are_looked_at() -> None:
    states = {**STATES, "trainer": IDLE}
    assert rows_of(fit(USUAL, (150, 40), states))["trainer"] == 1
    assert rows_of(fit(USUAL, (150, 40), states, Attention(selected="trainer")))["trainer"] == 13


def test_a_column_of_idle_ones_opens_the_first() -> None:
    found = fit(USUAL, (150, 40), {"trainer": IDLE, "orchestrator": IDLE})
    assert rows_of(found) == {"orchestrator": 39, "trainer": 1}


def test_a_side_panel_takes_what_it_needs_up_to_its_share() -> None:
    states = {**STATES, "gpus": side(40), "knobs": side(10)}
    assert rows_of(fit(USUAL, (150, 40), states))["gpus"] == 30
    states["knobs"] = side(100)
    assert rows_of(fit(USUAL, (150, 40), states))["gpus"] == 20
    shares = USUAL.with_rows({"gpus": 10, "knobs": 30})
    assert rows_of(fit(shares, (150, 40), states))["gpus"] == 10


def test_what_is_dragged_stays_where_it_was_dragged() -> None:
    found = rows_of(
        fit(USUAL.with_rows({"inference": 25, "orchestrator": 9, "trainer": 6}), (150, 40), STATES)
    )
    assert [found[name] for name in NAMES] == [25, 9, 6]
    cells = fit(USUAL.with_cells({0: 43, 1: 107}), (150, 40), STATES)
    assert cells.rectangles["gpus"].x == 43


def test_hidden_ones_leave_their_room() -> None:
    found = fit(USUAL.hide("gpus").hide("knobs"), (150, 40), STATES)
    assert {each.width for each in found.rectangles.values()} == {150}
    nothing = Arrangement((NAMES,), (1.0,), hidden=frozenset(NAMES))
    assert ":all panels" in fit(nothing, (150, 40), STATES).captions[0].text


def test_zoom_shows_one() -> None:
    assert rows_of(fit(USUAL, (80, 22), STATES, zoomed="gpus")) == {"gpus": 22}


def test_of_a_hundred_those_around_the_selected_one_are_seen() -> None:
    names = [f"worker-{number}" for number in range(100)]
    arrangement, states = Arrangement((tuple(names),), (1.0,)), dict.fromkeys(names, READER)
    found = fit(arrangement, (120, 40), states, Attention(selected="worker-50"))
    assert found.rectangles["worker-50"].height == 20
    assert [note.text for note in found.captions] == [" ↑ 41 more", " ↓ 40 more"]
    first = fit(arrangement, (120, 40), states, Attention(selected="worker-0"))
    assert [note.text for note in first.captions] == [" ↓ 80 more"]
    assert first.rectangles["worker-0"].y == 0


@st.composite
def cases(draw: st.DrawFn) -> tuple[Arrangement, dict[str, PanelState], str, str]:
    count = draw(st.one_of(st.integers(1, 8), st.just(100)))
    names = [f"c{number}" for number in range(count)]
    states = {
        name: draw(st.sampled_from((READER, READER, IDLE, PanelState(rows=lambda _: 3)))) for name in names
    }
    states |= {name: side(draw(st.integers(1, 60))) for name in ("gpus", "knobs", "charts")}
    every = draw(st.permutations(list(states)))
    cuts = sorted(draw(st.sets(st.integers(1, len(every) - 1), max_size=3)))
    columns = tuple(tuple(every[a:b]) for a, b in zip([0, *cuts], [*cuts, len(every)], strict=True))
    share = st.floats(0.01, 100)
    widths = tuple(draw(share) for _ in columns)
    heights = draw(st.dictionaries(st.sampled_from(every), share, max_size=5))
    hidden = frozenset(draw(st.sets(st.sampled_from(every), max_size=3)))
    shown = [name for name in every if name not in hidden] or every
    return (
        Arrangement(columns, widths, heights, hidden - {shown[0]}),
        states,
        draw(st.sampled_from(shown)),
        draw(st.sampled_from(shown)),
    )


@pytest.mark.slow
@given(
    cases(),
    st.tuples(st.integers(0, 250), st.integers(0, 70))
    | st.sampled_from([(80, 22), (100, 28), (130, 38), (200, 45), (60, 13), (1, 1)]),
)
def test_any_arrangement_fits_any_screen(
    case: tuple[Arrangement, dict[str, PanelState], str, str], size: tuple[int, int]
) -> None:
    arrangement, states, focused, selected = case
    width, height = size
    found = fit(arrangement, size, states, Attention(focused, selected))
    if not (width and height):
        assert not found.rectangles
        return
    taken: set[tuple[int, int]] = set()
    for name, each in found.rectangles.items():
        assert name in states
        assert each.height >= 1
        assert each.x >= 0
        assert each.right <= width, "inside"
        assert each.y >= 0
        assert each.bottom <= height
        cells = {(x, y) for x in range(each.x, each.right) for y in range(each.y, each.bottom)}
        assert not cells & taken, "nothing lies on another"
        taken |= cells
    noted = {(x, note.y) for note in found.captions for x in range(note.x, note.x + note.width)}
    assert not noted & taken
    assert taken | noted == {(x, y) for x in range(width) for y in range(height)}, "no room is lost"
    if width >= 4:
        needed = states[focused].rows
        assert found.rectangles[focused].height >= min(3, height, 3 if needed is None else needed(width) - 1)


@pytest.mark.parametrize("size", [(80, 22), (100, 28), (130, 38), (200, 45), (60, 13)], ids=str)
def test_usual_screens_show_everything(size: tuple[int, int]) -> None:
    for focused in STATES:
        found = fit(USUAL, size, STATES, Attention(focused, "inference"))
        assert set(found.rectangles) == set(STATES)
        assert found.rectangles[focused].height >= 5
