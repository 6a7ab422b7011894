"""What a log pane shows: its lines as strips, and which rows are in view."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from rltui.core.lines import Level
from rltui.core.log_query import Query
from rltui.ui.widgets.log_view import LogStrips, LogViewport, ViewRow, wrap_cuts


def painted(raw: str, wrap: int | None = None) -> list[str]:
    strips = LogStrips(lambda number: raw)
    strips.set_wrap(wrap)
    return [strip.text for strip in strips.rows(0)]


@pytest.mark.parametrize(
    ("raw", "cells", "rows"),
    [
        ("", 4, [""]),
        ("abcd", 4, ["abcd"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("a日本語b", 4, ["a日", "本語", "b"]),
        ("日", 1, ["日"]),
        ("ab\x1b[31mcde\x1b[0mf", 4, ["abcd", "ef"]),
    ],
)
def test_wrapping_keeps_all_text(raw: str, cells: int, rows: list[str]) -> None:
    assert painted(raw, cells) == rows


def test_wrap_cuts_fit() -> None:
    text = "x日" * 50
    cuts = [0, *wrap_cuts(text, 10), cell_len(text)]
    assert all(stop - start <= 10 for start, stop in pairwise(cuts))


def test_markup_is_literal() -> None:
    assert painted("[red]x[/] [link=a]b") == ["[red]x[/] [link=a]b"]


def test_colours_become_styles_over_the_base() -> None:
    strips = LogStrips(lambda number: "\x1b[1;31mred\x1b[0m rest")
    strips.set_styles(Style(bgcolor="blue"), {})
    red, rest = strips.rows(0)[0]
    assert (red.text, red.style) == ("red", Style(color="color(1)", bold=True, bgcolor="blue"))
    assert (rest.text, rest.style) == (" rest", Style(bgcolor="blue"))


def test_level_colours_only_lines_without_colours_of_their_own() -> None:
    raw = {0: "ERROR: plain", 1: "\x1b[2mERROR: own\x1b[0m"}
    strips = LogStrips(raw.__getitem__)
    strips.set_styles(Style(), {Level.ERROR: Style(color="red")})
    assert [strips.rows(number)[0]._segments[0].style for number in raw] == [
        Style(color="red"),
        Style(dim=True),
    ]


VLLM = (
    "(APIServer pid=25549) INFO 11-20 23:33:42 [loggers.py:257] Engine 000: Avg prompt throughput: 16.8 "
    "tokens/s, Avg generation throughput: 34.4 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache "
    "usage: 0.0%, Prefix cache hit rate: 0.0%"
)


def looked(*lines: str, whole: bool = False, raw: bool = False, query: str | None = None) -> list[str]:
    strips = LogStrips(lambda number: lines[number])
    strips.set_range(0, len(lines))
    found = Query.typed(query) if query is not None else None
    strips.set_look(whole=whole, raw=raw, query=found, cells=78)
    return [strip.text for number in range(len(lines)) for strip in strips.rows(number)]


def test_all_figures_of_vllm_fit_into_80_columns() -> None:
    (row,) = looked(VLLM)
    assert row == "23:33:42 I Eng 000: pro 16.8 gen 34.4 Run 0 Wai 0 GPU 0.0% Pre 0.0%"
    assert looked(VLLM, whole=True) == [VLLM]
    assert looked(VLLM, raw=True) == [VLLM]


def test_what_is_found_is_shown_whatever_is_folded() -> None:
    assert looked(VLLM, query="APIServer")[0].startswith("(APIServer pid=25549) INFO 11-20 23:33:42 ")
    assert looked(VLLM, query="reqs")[0].endswith(", Prefix cache hit rate: 0.0%")
    assert looked(VLLM, query="throughput")[0].startswith(
        "23:33:42 I Engine 000: Avg prompt throughput: 16.8"
    )
    assert looked(VLLM, query="34.4") == looked(VLLM)
    said = ["12:00:00    INFO say 1", "12:00:00    INFO a.5", "12:00:01    INFO say 2"]
    assert looked(*said) == ["12:00:00 I a.5", "12:00:01 I ×2 say 2"]
    assert looked(*said, query="say") == ["12:00:00 I say 1", "12:00:00 I a.5", "12:00:01 I ×2 say 2"]


def test_shortened_lines_keep_their_colours() -> None:
    strips = LogStrips(lambda number: f"12:00:00    INFO \x1b[31m{VLLM.partition('] ')[2]}\x1b[0m")
    strips.set_range(0, 1)
    strips.set_look(whole=False, raw=False, query=None, cells=78)
    (row,) = strips.rows(0)
    red = [piece.text for piece in row if piece.style is not None and piece.style.color is not None]
    assert red[:4] == ["Eng", "000:", "pro", "16.8"]


def test_strips_are_read_once_until_forgotten() -> None:
    reads: list[int] = []

    def read(number: int) -> str:
        reads.append(number)
        return "x"

    strips = LogStrips(read)
    assert strips.rows(3) is strips.rows(3)
    strips.forget(3)
    strips.rows(3)
    assert reads == [3, 3]


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


def test_short_log_starts_at_the_top() -> None:
    view = viewport([1, 1], 5)
    view.move_to_end()
    assert list(view.rows()) == [ViewRow(0, 0), ViewRow(1, 0)]
    view.move(3)
    assert view.top == ViewRow(0, 0)


def test_empty_log_has_no_rows() -> None:
    view = viewport([], 5)
    view.move_to_end()
    view.move(-1)
    assert list(view.rows()) == []
    assert view.at_end


def test_line_taller_than_the_window_can_be_read_row_by_row() -> None:
    view = viewport([1, 9, 1], 3)
    tops = []
    for _ in range(9):
        tops.append(view.top)
        view.move(1)
    assert tops == [ViewRow(0, 0), *(ViewRow(1, row) for row in range(7)), ViewRow(1, 7)]


def test_position_survives_lines_that_vanish() -> None:
    view = viewport([1] * 100, 10)
    view.move(80)
    view.stop = 20
    view.clamp()
    assert view.top == ViewRow(10, 0)


@pytest.mark.parametrize("start", [-7, 0, 12])
@given(
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
