"""Which rows of a log are in view."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rltui.ui.logs.viewport import LogViewport, ViewRow


def viewport(heights: list[int], height: int, start: int = 0) -> LogViewport:
    view = LogViewport(lambda line: heights[line - start])
    view.start, view.stop, view.height = start, start + len(heights), height
    view.top = ViewRow(start, 0)
    return view


def test_end_shows_the_last_rows() -> None:
    view = viewport([1, 3, 2], 4, start=-5)
    view.move_to_end()
    assert list(view.rows()) == [ViewRow(-4, 1), ViewRow(-4, 2), ViewRow(-3, 0), ViewRow(-3, 1)]
    assert view.at_end


def test_position_survives_lines_that_vanish() -> None:
    view = viewport([1] * 100, 10)
    view.move(80)
    view.stop = 20
    view.clamp()
    assert view.top == ViewRow(10, 0)


@given(
    start=st.sampled_from([-7, 0, 12]),
    heights=st.lists(st.integers(1, 5), max_size=20),
    height=st.integers(1, 12),
    moves=st.lists(st.integers(-15, 15), max_size=8),
)
def test_view_equals_a_window_over_all_rows(
    start: int, heights: list[int], height: int, moves: list[int]
) -> None:
    view = viewport(heights, height, start)
    rows = [ViewRow(start + line, row) for line, count in enumerate(heights) for row in range(count)]
    position = 0
    for move in moves:
        view.move(move)
        position = max(0, min(position + move, len(rows) - height))
        assert list(view.rows()) == rows[position : position + height]
        assert view.at_end == (position >= len(rows) - height)
