"""What a log pane shows: which rows are in view, and their lines as strips ready to paint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.strip import Strip

from rltui.core.lines import Colour, Level, Line, SgrStyle, parse_line
from rltui.core.log_figures import FigureLines
from rltui.core.log_folds import LogFolds
from rltui.core.log_prefix import COLUMN_CELLS, folded_head
from rltui.core.log_query import Query


class ViewRow(NamedTuple):
    """A row of a wrapped line: line number and row within it, from 0. Rows compare in reading order."""

    line: int
    row: int


class LogViewport:
    """A window of `height` rows over the lines from `start` up to but not including `stop`.

    `rows_of` tells how many rows a line takes, none where it is hidden; it is asked about
    lines in or near view only.
    """

    def __init__(self, rows_of: Callable[[int], int]) -> None:
        self._rows_of = rows_of
        self.start = 0
        self.stop = 0
        self.height = 0
        self.top = ViewRow(0, 0)

    @property
    def at_end(self) -> bool:
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
            self.top = ViewRow(self.top.line, max(0, min(self.top.row, self._rows_of(self.top.line) - 1)))
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
_WIDER = 2
"""Cells that a column may be wider than the head, for the sake of straight columns."""


class LogStrips:
    """The strips of a log's lines, by line number: one, several when wrapped, none where another line
    stands for it.

    `read` supplies a raw line. The same strip object comes back until its line is forgotten.
    """

    def __init__(self, read: Callable[[int], str], label: Callable[[int], str] = lambda _: "") -> None:
        """`label`: which of several logs a line is from."""
        self._read, self._label = read, label
        self._cache: LRUCache[int, list[Strip]] = LRUCache(_KEPT_LINES)
        self._lines: LRUCache[int, Line] = LRUCache(_KEPT_LINES)
        self._folds = LogFolds(self.text, label)
        self._base = self._quiet = self._found = Style()
        self._level_styles: Mapping[Level, Style] = {}
        self._sgr_style: Callable[[SgrStyle], Style] = rich_style
        self._figures = FigureLines()
        self._wrap_cells: int | None = None
        self._cells: int | None = None
        self._is_raw = False
        self._is_whole = False
        self._query: Query | None = None

    def set_styles(
        self,
        base: Style,
        level_styles: Mapping[Level, Style],
        sgr_style: Callable[[SgrStyle], Style] | None = None,
        *,
        quiet: Style | None = None,
        found: Style | None = None,
    ) -> None:
        """Choose the style of plain text, of lines that have a level but no style of their own, and of those.

        `sgr_style` translates a line's own styles: `rich_style` by default, or `colourless_style`. `quiet`:
        of the narrow column before messages; `found`: laid over what the query finds.
        """
        self._base, self._level_styles = base, level_styles
        self._sgr_style = sgr_style or rich_style
        self._quiet, self._found = quiet or base, found or Style()
        self.clear()

    def set_wrap(self, cells: int | None) -> None:
        """Wrap after so many cells, or not at all."""
        if cells != self._wrap_cells:
            self._wrap_cells = cells
            self._cache.clear()

    def set_range(self, start: int, stop: int) -> None:
        """Which lines there are. What is new may make the newest ones of before old news."""
        for number in self._folds.set_range(start, stop):
            self._cache.discard(number)

    def set_look(self, *, whole: bool, raw: bool, query: Query | None, cells: int | None = None) -> None:
        """`whole`: messages and what stands before them as they were written; `raw`: every line, whole; mark
        what `query` finds; `cells`: what a line of figures is shortened to where it is not whole.
        """
        look = (whole, raw, query, cells)
        if look != (self._is_whole, self._is_raw, self._query, self._cells):
            self._is_whole, self._is_raw, self._query, self._cells = look
            self._figures = FigureLines()
            self._cache.clear()

    def clear(self) -> None:
        self._cache.clear()
        self._lines.clear()
        self._folds.clear()

    def forget(self, number: int) -> None:
        """Forget a line whose text may have changed."""
        self._cache.discard(number)
        self._lines.discard(number)
        self._folds.forget(number)

    def text(self, number: int) -> str:
        """A line as it is shown, with its whole head."""
        return self._line(number).text

    def rows(self, number: int) -> list[Strip]:
        """Return the strips of a line, uncut to the right unless wrapped; none where it is hidden."""
        rows = self._cache.get(number)
        if rows is None:
            is_hidden = (
                not self._is_raw
                and self._folds.is_hidden(number)
                and next(self._found_in(self.text(number)), None) is None
            )
            rows = [] if is_hidden else self._paint(number)
            self._cache[number] = rows
        return rows

    def _found_in(self, text: str) -> Iterator[tuple[int, int]]:
        return self._query.spans(text) if self._query is not None else iter(())

    def _line(self, number: int) -> Line:
        line = self._lines.get(number)
        if line is None:
            line = self._lines[number] = parse_line(self._read(number))
        return line

    def _paint(self, number: int) -> list[Strip]:
        line = self._line(number)
        segments = [] if self._is_raw else self._head(number, line)
        start = 0
        if not (self._is_raw or self._is_whole):
            start = self._message_start(number, line)
        parts = self._parts(line, start, sum(cell_len(segment.text) for segment in segments))
        for place, (first, last) in enumerate(parts):
            if place:
                segments.append(Segment(" ", self._base))
            segments += self._segments(line, first, last)
        text = "".join(segment.text for segment in segments)
        strip = Strip(segments, cell_len(text))
        if self._wrap_cells is None or strip.cell_length <= self._wrap_cells:
            return [strip]
        return list(strip.divide([*wrap_cuts(text, self._wrap_cells), strip.cell_length]))

    def _message_start(self, number: int, line: Line) -> int:
        """Behind the head, where a narrow column stands for it and nothing is found in it."""
        head = self._folds.head(number)
        fits = 0 < len(folded_head(head)) <= head.length + _WIDER
        is_found = any(first < head.length for first, _ in self._found_in(line.text))
        return head.length if fits and not is_found else 0

    def _head(self, number: int, line: Line) -> list[Segment]:
        """What stands before the message, or the whole line."""
        head, label, told = self._folds.head(number), self._label(number), self._folds.told(number)
        segments: list[Segment] = []
        if not self._is_whole and self._message_start(number, line):
            column, style = folded_head(head), self._level_styles.get(head.level) if head.level else None
            letter = self._base + style if style else self._quiet
            segments = [Segment(column[:-2], self._quiet), Segment(column[-2:], letter)]
        elif label and not self._is_whole:
            segments = [Segment(" " * COLUMN_CELLS, self._base)]
        if label:
            segments.append(Segment(label, self._quiet))
        if told:
            segments.append(Segment(f"{told} ", self._quiet))
        return segments

    def _parts(self, line: Line, start: int, before: int) -> list[tuple[int, int]]:
        """What is shown of the text behind so many cells, set apart by blanks: all of it, but of figures in a
        line that is too long, as long as nothing is found in what would go.
        """
        whole = [(start, len(line.text))]
        if self._cells is None or self._is_whole or self._is_raw:
            return whole
        parts = self._figures.parts(line.text, start, self._cells - before)
        if parts is None or not all(
            any(first <= begin and end <= last for first, last in parts)
            for begin, end in self._found_in(line.text)
        ):
            return whole
        return parts

    def _segments(self, line: Line, start: int, end: int) -> list[Segment]:
        """A part of the text: in the colours of the line or its level, with what was found marked."""
        level_style = self._level_styles.get(line.level) if line.level and not line.spans else None
        plain = self._base + level_style if level_style else self._base
        found = list(self._found_in(line.text))
        stops = [start, end]
        stops += (stop for span in line.spans for stop in (span.start, span.stop) if start < stop < end)
        stops += (stop for span in found for stop in span if start < stop < end)
        edges = sorted(set(stops))
        segments = []
        for first, last in pairwise(edges):
            own = next((span for span in line.spans if span.start <= first < span.stop), None)
            style = plain if own is None else self._base + self._sgr_style(own.style)
            if any(begin <= first < end for begin, end in found):
                style += self._found
            segments.append(Segment(line.text[first:last], style))
        return segments or [Segment("", plain)]


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


@lru_cache(maxsize=256)
def rich_style(style: SgrStyle) -> Style:
    """Return the style Rich paints with; what is off stays unset, so that it can be laid over another."""
    return Style(color=_colour(style.fg), bgcolor=_colour(style.bg)) + colourless_style(style)


@lru_cache(maxsize=256)
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
