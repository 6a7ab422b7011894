"""Lines of a log as rows of styled text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from rich.cells import cell_len

from rltui.core.logs.lines import Level, SgrStyle
from rltui.core.logs.query import Query
from rltui.ui.logs.rows import Display, LogRows, Piece, TextStyle, cut_cells, wrap_cuts


def texts(raw: str, wrap: int | None = None) -> list[str]:
    rows = LogRows(lambda number: raw)
    rows.set_display(Display(wrap_cells=wrap))
    return [row.text for row in rows.rows(0)]


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
    assert texts(raw, cells) == rows


def test_wrap_cuts_fit() -> None:
    text = "x日" * 50
    cuts = [0, *wrap_cuts(text, 10), len(text)]
    assert all(cell_len(text[first:last]) <= 10 for first, last in pairwise(cuts))


def test_markup_is_literal() -> None:
    assert texts("[red]x[/] [link=a]b") == ["[red]x[/] [link=a]b"]


def styles(*lines: str) -> list[list[Piece]]:
    rows = LogRows(lines.__getitem__)
    return [list(rows.rows(number)[0].pieces) for number in range(len(lines))]


def test_colours_of_the_program_are_kept() -> None:
    assert styles("\x1b[1;31mred\x1b[0m rest") == [
        [Piece("red", TextStyle(sgr=SgrStyle(fg=1, bold=True))), Piece(" rest", TextStyle())]
    ]


def test_only_lines_without_colours_of_their_own_look_as_their_level() -> None:
    assert styles("ERROR: plain", "\x1b[2mERROR: own\x1b[0m") == [
        [Piece("ERROR: plain", TextStyle(level=Level.ERROR))],
        [Piece("ERROR: own", TextStyle(sgr=SgrStyle(dim=True)))],
    ]


def test_matches_alone_are_set_off_whatever_their_colour() -> None:
    rows = LogRows(lambda _: "a\x1b[31mbcd\x1b[0mcde")
    rows.set_display(Display(Query.from_text("c|d")))
    pieces = [
        (text, style.is_match, style.sgr is not None and style.sgr.fg)
        for text, style in rows.rows(0)[0].pieces
    ]
    assert pieces == [
        ("a", False, False), ("b", False, 1), ("c", True, 1), ("d", True, 1), ("c", True, False),
        ("d", True, False), ("e", False, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [(0, 3, "a日"), (1, 2, " "), (2, 4, " b"), (3, 9, "b"), (5, 9, "")],
)
def test_half_of_a_wide_character_is_a_blank(first: int, last: int, text: str) -> None:
    assert cut_cells("a日b", first, last) == text


VLLM = (
    "(APIServer pid=25549) INFO 11-20 23:33:42 [loggers.py:257] Engine 000: Avg prompt throughput: 16.8 "
    "tokens/s, Avg generation throughput: 34.4 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache "
    "usage: 0.0%, Prefix cache hit rate: 0.0%"
)


FORM = "Run   0 Wait   0 KV   0.0% prompt    16.8 gen    34.4 hit   0.0%"


def shown(*lines: str, whole: bool = False, raw: bool = False, query: str | None = None) -> list[str]:
    rows = LogRows(lines.__getitem__)
    rows.set_range(0, len(lines))
    pattern = Query.from_text(query) if query is not None else None
    rows.set_display(Display(pattern, whole, raw, figure_cells=78))
    return [row.text for number in range(len(lines)) for row in rows.rows(number)]


def test_all_figures_of_vllm_fit_into_80_columns() -> None:
    (row,) = shown(VLLM)
    assert row == f"23:33:42 I {FORM}"
    assert shown(VLLM, whole=True) == [VLLM]
    assert shown(VLLM, raw=True) == [VLLM]


def found(line: str, query: str) -> list[str]:
    """The texts that are set off."""
    rows = LogRows([line].__getitem__)
    rows.set_range(0, 1)
    rows.set_display(Display(Query.from_text(query), figure_cells=78))
    return [text for row in rows.rows(0) for text, style in row.pieces if style.is_match]


def test_a_match_does_not_change_the_form_of_figures() -> None:
    head = "(APIServer pid=25549) INFO 11-20 23:33:42 [loggers.py:257]"
    assert shown(VLLM, query="APIServer") == [f"{head} {FORM}"]
    for query, texts in {
        "reqs": ["Wait", "KV"],
        "34.4": ["34.4"],
        "Running": ["Run"],
        "hit": ["hit"],
    }.items():
        assert shown(VLLM, query=query) == [f"23:33:42 I {FORM}"]
        assert found(VLLM, query) == texts


def test_steps_and_progress_bars_are_quiet() -> None:
    lines = [
        "12:00:00 SUCCESS \x1b[32mStep 3 | Time: 0.5s | Reward: 0.9\x1b[0m",
        "12:00:01 WARNING Step 3 has no sample",
        "Generating rollouts:  12%|█▉   #    | 16/128 [00:00<00:01, 68.8it/s]",
    ]
    rows = LogRows(lines.__getitem__)
    rows.set_range(0, 3)
    rows.set_display(Display(figure_cells=78))
    (step,), (warning,), (bar,) = map(rows.rows, range(3))
    assert all(piece.style.is_quiet for piece in step.pieces)
    assert not any(piece.style.is_quiet for piece in warning.pieces[-1:])
    assert "12% ▰▰▱▱▱▰▱▱▱▱  16/128" in bar.text
    assert shown(*lines, raw=True)[2] == lines[2]


def test_what_is_found_is_shown_whatever_is_folded() -> None:
    said = ["12:00:00    INFO say 1", "12:00:00    INFO a.5", "12:00:01    INFO say 2"]
    assert shown(*said) == ["12:00:00 I a.5", "12:00:01 I ×2 say 2"]
    assert shown(*said, query="say") == ["12:00:00 I say 1", "12:00:00 I a.5", "12:00:01 I ×2 say 2"]


def test_shortened_lines_keep_their_colours() -> None:
    rows = LogRows(lambda number: f"12:00:00    INFO \x1b[31m{VLLM.partition('] ')[2]}\x1b[0m")
    rows.set_range(0, 1)
    rows.set_display(Display(figure_cells=78))
    (row,) = rows.rows(0)
    red = [text for text, style in row.pieces if style.sgr is not None and style.sgr.fg is not None]
    assert red[:4] == ["Run", "0", "Wait", "0"]


def test_lines_are_read_once_until_forgotten() -> None:
    reads: list[int] = []

    def read(number: int) -> str:
        reads.append(number)
        return "x"

    rows = LogRows(read)
    assert rows.rows(3) is rows.rows(3)
    rows.forget(3)
    rows.rows(3)
    assert reads == [3, 3]
