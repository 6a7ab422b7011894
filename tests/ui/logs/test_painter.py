"""In which colours rows of a log are painted."""

from __future__ import annotations

import pytest
from rich.style import Style

from rltui.core.logs.lines import Level, SgrStyle
from rltui.ui.logs.model import Tint, VisibleRow
from rltui.ui.logs.painter import PARTS, LogPainter
from rltui.ui.logs.rows import Piece, TextRow, TextStyle

BASE = Style(bgcolor="blue")
PLAIN = TextStyle()
PART_STYLES = dict.fromkeys(PARTS, Style()) | {
    "error": Style(color="red"),
    "quiet": Style(dim=True),
    "found": Style(underline=True),
    "here": Style(bgcolor="green"),
    "chosen": Style(reverse=True),
}


def painted(
    text: str,
    style: TextStyle = PLAIN,
    tint: Tint | None = None,
    selected: tuple[int, int] | None = None,
    *,
    colourless: bool = False,
    left: int = 0,
) -> list[tuple[str, Style | None]]:
    """What is painted of a row in ten cells, without the blanks behind it."""
    painter = LogPainter()
    painter.set_styles(BASE, PART_STYLES, colourless=colourless)
    strip = painter.row(VisibleRow(TextRow((Piece(text, style),), len(text)), tint, selected), left, 10)
    return [(piece.text, piece.style) for piece in strip if piece.text.strip()]


@pytest.mark.parametrize(
    ("style", "added"),
    [
        (TextStyle(), Style()),
        (TextStyle(level=Level.ERROR), Style(color="red")),
        (TextStyle(level=Level.ERROR, is_quiet=True), Style(color="red")),
        (TextStyle(level=Level.INFO, is_quiet=True), Style(dim=True)),
        (TextStyle(sgr=SgrStyle(fg=2, bold=True)), Style(color="color(2)", bold=True)),
        (TextStyle(level=Level.ERROR, is_match=True), Style(color="red", underline=True)),
    ],
)
def test_styles_lie_over_the_ground(style: TextStyle, added: Style) -> None:
    assert painted("text", style) == [("text", BASE + added)]


def test_without_colours_a_program_may_only_be_bold() -> None:
    assert painted("text", TextStyle(sgr=SgrStyle(fg=2, bold=True)), colourless=True) == [
        ("text", BASE + Style(bold=True))
    ]


def test_the_current_line_and_what_is_selected_are_laid_over() -> None:
    here = BASE + PART_STYLES["here"]
    assert painted("abcd", tint=Tint.CURRENT, selected=(1, 3)) == [
        ("a", here),
        ("bc", here + PART_STYLES["chosen"]),
        ("d", here),
    ]


@pytest.mark.parametrize(
    ("left", "text"), [(0, "012345678›"), (2, "23456789a›"), (4, "456789abcd"), (9, "9abcd")]
)
def test_a_long_row_says_that_it_goes_on(left: int, text: str) -> None:
    assert "".join(piece for piece, _ in painted("0123456789abcd", left=left)) == text
