"""What a log pane shows: which rows are in view, and their lines as strips ready to paint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.strip import Strip

from rltui.core.lines import Colour, Level, Line, SgrStyle, parse_line


class ViewRow(NamedTuple):
    """A row of a wrapped line: line number and row within it, from 0. Rows compare in reading order."""

    line: int
    row: int


class LogViewport:
    """A window of `height` rows over the lines from `start` up to but not including `stop`.

    `rows_of` tells how many rows a line takes, at least 1; it is asked about lines in or near view only.
    """

    def __init__(self, rows_of: Callable[[int], int]) -> None:
        self._rows_of = rows_of
        self.start = 0
        self.stop = 0
        self.height = 0
        self.top = ViewRow(0, 0)

    @property
    def at_end(self) -> bool:
        """Whether the newest row is in view."""
        return self.top >= self._end_top()

    def move(self, rows: int) -> None:
        """Move down by `rows`, up if negative, as far as there are lines."""
        self.top = self._down(self.top, rows) if rows > 0 else self._up(self.top, -rows)
        self.clamp()

    def move_to_end(self) -> None:
        """Show the newest rows, the last one at the bottom."""
        self.top = self._end_top()

    def clamp(self) -> None:
        """Come back into the log after its lines or their heights have changed."""
        if self.start <= self.top.line < self.stop:
            self.top = ViewRow(self.top.line, min(self.top.row, self._rows_of(self.top.line) - 1))
        self.top = max(ViewRow(self.start, 0), min(self.top, self._end_top()))

    def rows(self) -> Iterator[ViewRow]:
        """Yield the rows in view from the top, at most `height`."""
        left = self.height
        first = self.top.row
        for line in range(self.top.line, self.stop):
            for row in range(first, self._rows_of(line)):
                if left <= 0:
                    return
                yield ViewRow(line, row)
                left -= 1
            first = 0

    def _end_top(self) -> ViewRow:
        return self._up(ViewRow(self.stop, 0), self.height)

    def _up(self, row: ViewRow, rows: int) -> ViewRow:
        line = row.line
        rows -= row.row
        while rows > 0 and line > self.start:
            line -= 1
            rows -= self._rows_of(line)
        return ViewRow(line, max(0, -rows))

    def _down(self, row: ViewRow, rows: int) -> ViewRow:
        line = row.line
        rows += row.row
        while line < self.stop and rows >= (height := self._rows_of(line)):
            line += 1
            rows -= height
        return ViewRow(line, rows if line < self.stop else 0)


_KEPT_LINES = 512


class LogStrips:
    """The strips of a log's lines, by line number. A line has one strip, or several when wrapped.

    `read` supplies a raw line. The same strip object comes back until its line is forgotten.
    """

    def __init__(self, read: Callable[[int], str]) -> None:
        self._read = read
        self._cache: LRUCache[int, list[Strip]] = LRUCache(_KEPT_LINES)
        self._base = Style()
        self._level_styles: Mapping[Level, Style] = {}
        self._sgr_style: Callable[[SgrStyle], Style] = rich_style
        self._wrap_cells: int | None = None

    def set_styles(
        self,
        base: Style,
        level_styles: Mapping[Level, Style],
        sgr_style: Callable[[SgrStyle], Style] | None = None,
    ) -> None:
        """Choose the style of plain text, of lines that have a level but no style of their own, and of those.

        `sgr_style` translates a line's own styles: `rich_style` by default, or `colourless_style`.
        """
        self._base, self._level_styles = base, level_styles
        self._sgr_style = sgr_style or rich_style
        self.clear()

    def set_wrap(self, cells: int | None) -> None:
        """Wrap after so many cells, or not at all."""
        if cells != self._wrap_cells:
            self._wrap_cells = cells
            self.clear()

    def clear(self) -> None:
        """Forget all lines."""
        self._cache.clear()

    def forget(self, number: int) -> None:
        """Forget a line whose text may have changed."""
        self._cache.discard(number)

    def rows(self, number: int) -> list[Strip]:
        """Return the strips of a line, at least one, uncut to the right unless wrapped."""
        rows = self._cache.get(number)
        if rows is None:
            rows = self._cache[number] = self._paint(parse_line(self._read(number)))
        return rows

    def _paint(self, line: Line) -> list[Strip]:
        strip = Strip(self._segments(line), cell_len(line.text))
        if self._wrap_cells is None or strip.cell_length <= self._wrap_cells:
            return [strip]
        return list(strip.divide([*wrap_cuts(line.text, self._wrap_cells), strip.cell_length]))

    def _segments(self, line: Line) -> list[Segment]:
        if not line.spans:
            style = self._level_styles.get(line.level) if line.level else None
            return [Segment(line.text, self._base + style if style else self._base)]
        segments = []
        position = 0
        for span in line.spans:
            if span.start > position:
                segments.append(Segment(line.text[position : span.start], self._base))
            segments.append(
                Segment(line.text[span.start : span.stop], self._base + self._sgr_style(span.style))
            )
            position = span.stop
        segments.append(Segment(line.text[position:], self._base))
        return segments


def wrap_cuts(text: str, cells: int) -> list[int]:
    """Return where to cut so that no row is wider than `cells` and no wide character is split, in cells."""
    if text.isascii():
        return list(range(cells, len(text), cells))
    cuts = []
    position = row_start = 0
    for char in text:
        width = cell_len(char)
        if position + width - row_start > cells and position > row_start:
            cuts.append(position)
            row_start = position
        position += width
    return cuts


def rich_style(style: SgrStyle) -> Style:
    """Return the style Rich paints with; what is off stays unset, so that it can be laid over another."""
    return Style(color=_colour(style.fg), bgcolor=_colour(style.bg)) + colourless_style(style)


def colourless_style(style: SgrStyle) -> Style:
    """As `rich_style`, without the colours, whose greys may be too dark to read."""
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
