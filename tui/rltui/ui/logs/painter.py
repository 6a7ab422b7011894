"""Rows of styled text as strips that Textual paints, in the colours of the theme and of the programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from rltui.core.logs.lines import Colour, Level, SgrStyle
from rltui.ui.logs.model import VisibleRow
from rltui.ui.logs.rows import TextRow, TextStyle
from rltui.ui.logs.window import CUT_CELLS

_CUT_SIGN = "›"
PARTS = ("debug", "warning", "error", "quiet", "found", "here", "chosen", "mark")
"""Component classes that style a log: levels, prefixes, matches, and the values of `Tint`."""


class LogPainter:
    """Makes strips of visible rows; a row that stays in view is made into one only once."""

    def __init__(self) -> None:
        self._base = self._quiet = Style()
        self._part_styles: Mapping[str, Style] = dict.fromkeys(PARTS, Style())
        self._level_styles: Mapping[Level, Style] = {}
        self._is_colourless = False
        self._text_styles: dict[TextStyle, Style] = {}
        self._strips: dict[int, Strip] = {}
        """Id of the text → strip; only for rows that are referenced elsewhere."""

    def set_styles(self, base: Style, parts: Mapping[str, Style], *, colourless: bool) -> None:
        """`base`: of plain text, over which the style of each of `PARTS` is laid; `colourless`: programs' own
        colours are left out.
        """
        self._base, self._quiet, self._part_styles = base, base + parts["quiet"], parts
        self._level_styles = {
            Level.TRACE: parts["debug"],
            Level.DEBUG: parts["debug"],
            Level.WARNING: parts["warning"],
            Level.ERROR: parts["error"],
            Level.CRITICAL: parts["error"],
        }
        self._is_colourless = colourless
        self._text_styles.clear()
        self._strips.clear()

    def forget_others(self, rows: Iterable[VisibleRow]) -> None:
        """Only these are in view now."""
        ids = {id(row.text) for row in rows}
        self._strips = {key: strip for key, strip in self._strips.items() if key in ids}

    def row(self, row: VisibleRow, left: int, width: int) -> Strip:
        """Paint the part of a row from cell `left` on."""
        strip = self._strip(row.text)
        if strip.cell_length <= left + width:
            strip = strip.crop_extend(left, left + width, self._base)
        else:
            sign = Strip([Segment(_CUT_SIGN, self._quiet)], CUT_CELLS) if width > 1 else Strip.blank(0)
            strip = Strip.join([strip.crop(left, left + width - 1), sign])
        if row.tint is not None:
            strip = _laid_over(strip, self._part_styles[row.tint])
        if row.selected is None:
            return strip
        before, selected, *after = strip.divide([*(min(width, cell) for cell in row.selected), width])
        return Strip.join([before, _laid_over(selected, self._part_styles["chosen"]), *after])

    def blank(self, width: int) -> Strip:
        return Strip.blank(width, self._base)

    def centred(self, text: str, width: int) -> Strip:
        strip = Strip([Segment(text, self._quiet)]).crop(0, width)
        indent = self.blank((width - strip.cell_length) // 2)
        return Strip.join([indent, strip]).extend_cell_length(width, self._base)

    def _strip(self, row: TextRow) -> Strip:
        strip = self._strips.get(id(row))
        if strip is None:
            segments = [Segment(text, self._style(style)) for text, style in row.pieces]
            strip = self._strips[id(row)] = Strip(segments, row.cells)
        return strip

    def _style(self, text_style: TextStyle) -> Style:
        style = self._text_styles.get(text_style)
        if style is None:
            style = self._quiet if text_style.is_quiet else self._base
            if text_style.level is not None and text_style.level in self._level_styles:
                style = self._base + self._level_styles[text_style.level]
            if text_style.sgr is not None:
                to_style = colourless_style if self._is_colourless else rich_style
                style = self._base + to_style(text_style.sgr)
            if text_style.is_match:
                style += self._part_styles["found"]
            self._text_styles[text_style] = style
        return style


def _laid_over(row: Strip, style: Style) -> Strip:
    """`row` with `style` over that of each piece, which `Strip.apply_style` would lay below."""
    pieces = [Segment(piece.text, (piece.style or Style()) + style) for piece in row]
    return Strip(pieces, row.cell_length)


@lru_cache(maxsize=256)
def rich_style(style: SgrStyle) -> Style:
    """Return the style Rich paints with; what is off stays unset, so that it can be laid over another."""
    return Style(color=_colour(style.fg), bgcolor=_colour(style.bg)) + colourless_style(style)


@lru_cache(maxsize=256)
def colourless_style(style: SgrStyle) -> Style:
    """Convert a style without its colours, whose greys may be too dark to read."""
    return Style(
        bold=style.bold or None,
        dim=style.dim or None,
        italic=style.italic or None,
        underline=style.underline or None,
        reverse=style.reverse or None,
    )


def _colour(colour: Colour | None) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)
