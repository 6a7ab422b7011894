from __future__ import annotations

from itertools import pairwise

import pytest
from rich.cells import cell_len
from rich.style import Style

from rltui.core.lines import Level
from rltui.ui.widgets.log_view import LogStrips, wrap_cuts


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
