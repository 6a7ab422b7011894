"""Lines of a log as rows of styled text: heads in a narrow column, figures shortened, long lines wrapped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len

from rltui.core.logs.folds import LogFolds
from rltui.core.logs.lines import Level, Line, SgrStyle, parse_line
from rltui.core.logs.numbers import NumberLines, Part
from rltui.core.logs.prefix import COLUMN_CELLS, format_prefix
from rltui.core.logs.query import Query

_CACHED_LINES = 1024
_WIDER = 2
"""Cells that a column may be wider than the head, for the sake of straight columns."""


class TextStyle(NamedTuple):
    """Attributes of a piece of a line, from which the view chooses its colours."""

    level: Level | None = None
    """Coloured as this level, where the level has a colour."""
    sgr: SgrStyle | None = None
    """The program's own colours, which win over those of the level."""
    is_quiet: bool = False
    """Part of what stands before a message."""
    is_match: bool = False


_STEP = re.compile(r"\s*[Ss]tep \d")
_BAR = re.compile(r"(?<=%)\|[█▏▎▍▌▋▊▉# ]+\|")
"""tqdm's progress bar."""
_SUCCESS = Level.SUCCESS.severity
_PLAIN, _QUIET = TextStyle(), TextStyle(is_quiet=True)


class Piece(NamedTuple):
    text: str
    style: TextStyle


class TextRow(NamedTuple):
    """One row of a line, as wide as the line unless it is wrapped."""

    pieces: tuple[Piece, ...]
    cells: int

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


class Display(NamedTuple):
    query: Query | None = None
    """Query whose matches are highlighted and never hidden."""
    whole: bool = False
    """Heads of lines as they were written, not in a narrow column, and the names of figures in full."""
    raw: bool = False
    """Every line as it was written, also those that say nothing new."""
    wrap_cells: int | None = None
    """Long lines continue in a further row after so many cells; `None`: they are cut."""
    figure_cells: int | None = None
    """Lines of figures are shortened to so many cells; `None`: never."""


class LogRows:
    """The rows of a log's lines, by line number: one, several when wrapped, none where another line
    stands for it. The same row object comes back until its line is forgotten.
    """

    def __init__(self, read: Callable[[int], str], label: Callable[[int], str] = lambda _: "") -> None:
        """`read` supplies a raw line, `label` which of several logs it is from."""
        self._read, self._label = read, label
        self._lines: dict[int, Line] = {}
        self._folds = LogFolds(self.text, label)
        self._figures = NumberLines()
        self._display = Display()
        self._rows: dict[int, list[TextRow]] = {}

    def set_range(self, start: int, stop: int) -> None:
        """Set the lines that exist. New lines can fold the newest of the previous ones."""
        for number in self._folds.set_range(start, stop):
            self._rows.pop(number, None)

    def set_display(self, display: Display) -> None:
        if display != self._display:
            self._display = display
            self._figures = NumberLines()
            self._rows.clear()

    def clear(self) -> None:
        """Read all lines again."""
        self._rows.clear()
        self._lines.clear()
        self._folds.clear()

    def forget(self, number: int) -> None:
        """The text of the line may have changed."""
        self._rows.pop(number, None)
        self._lines.pop(number, None)
        self._folds.forget(number)

    def text(self, number: int) -> str:
        """A line with its head as it was written."""
        return self._line(number).text

    def _line(self, number: int) -> Line:
        line = self._lines.get(number)
        if line is None:
            if len(self._lines) >= _CACHED_LINES:
                self._lines.clear()
            line = self._lines[number] = parse_line(self._read(number))
        return line

    def rows(self, number: int) -> list[TextRow]:
        """The rows of a line, uncut to the right unless wrapped; none where it is hidden."""
        rows = self._rows.get(number)
        if rows is None:
            if len(self._rows) >= _CACHED_LINES:
                self._rows.clear()
            is_folded = not self._display.raw and self._folds.is_hidden(number)
            is_hidden = is_folded and next(self._matches(self.text(number)), None) is None
            rows = self._rows[number] = [] if is_hidden else self._lay_out(number)
        return rows

    def _matches(self, text: str) -> Iterator[tuple[int, int]]:
        query = self._display.query
        return query.spans(text) if query is not None else iter(())

    def _lay_out(self, number: int) -> list[TextRow]:
        line, display = self._line(number), self._display
        matches = list(self._matches(line.text))
        start = 0 if display.raw or display.whole else self._message_start(number, matches)
        pieces = [] if display.raw else self._head(number, has_column=start > 0)
        used_cells = sum(cell_len(piece.text) for piece in pieces)
        parts = self._visible_parts(number, start, used_cells)
        matches = sorted({_to_seen(match, parts) for match in matches})
        is_step = not display.raw and self._is_step(number, line.text)
        bar = None if display.raw or display.whole else _BAR.search(line.text)
        for index, (first, last, indent) in enumerate(parts):
            if index:
                pieces.append(Piece(" " * (1 + indent), _PLAIN))
            styled = _styled(line, first, last, matches, bar.span() if bar else None)
            pieces += map(_quiet, styled) if is_step else styled
        text = "".join(piece.text for piece in pieces)
        cells = cell_len(text)
        if display.wrap_cells is None or cells <= display.wrap_cells:
            return [TextRow(tuple(pieces), cells)]
        return _divided(pieces, [0, *wrap_cuts(text, display.wrap_cells), len(text)])

    def _message_start(self, number: int, matches: Sequence[tuple[int, int]]) -> int:
        """Behind the head, where a narrow column stands for it and no match is in it; else 0."""
        head = self._folds.head(number)
        fits = 0 < len(format_prefix(head)) <= head.length + _WIDER
        return head.length if fits and not any(first < head.length for first, _ in matches) else 0

    def _head(self, number: int, *, has_column: bool) -> list[Piece]:
        """Pieces before the message, or before the complete line."""
        pieces: list[Piece] = []
        label, count = self._label(number), self._folds.count_text(number)
        if has_column:
            head = self._folds.head(number)
            column = format_prefix(head)
            pieces = [
                Piece(column[:-2], _QUIET),
                Piece(column[-2:], TextStyle(level=head.level, is_quiet=True)),
            ]
        elif label and not self._display.whole:
            pieces = [Piece(" " * COLUMN_CELLS, _PLAIN)]
        if label:
            pieces.append(Piece(label, _QUIET))
        if count:
            pieces.append(Piece(f"{count} ", _QUIET))
        return pieces

    def _is_step(self, number: int, text: str) -> bool:
        """Whether it only tells the figures of a step, as hundreds of others do."""
        head = self._folds.head(number)
        return (head.level is None or head.level.severity <= _SUCCESS) and bool(
            _STEP.match(text, head.length)
        )

    def _visible_parts(self, number: int, start: int, used_cells: int) -> list[Part]:
        """The parts of the text that are shown: all from `start` on, or figures with short names where it is
        too long behind `used_cells`.
        """
        display, text = self._display, self.text(number)
        if display.figure_cells is None or display.whole or display.raw:
            return [Part(start, len(text))]
        message_start = self._folds.head(number).length
        head = [Part(0, len(text[:message_start].rstrip()))] if start < message_start else []
        parts = self._figures.parts(text, message_start, display.figure_cells - used_cells)
        return [*head, *parts] if parts else [Part(start, len(text))]


def _to_seen(match: tuple[int, int], parts: Sequence[Part]) -> tuple[int, int]:
    """The match, or the part after it where nothing of it is shown."""
    if any(part.start < match[1] and match[0] < part.stop for part in parts):
        return match
    following = min((part for part in parts if part.start >= match[1]), default=parts[-1])
    return following.start, following.stop


def _quiet(piece: Piece) -> Piece:
    return Piece(piece.text, TextStyle(is_quiet=True, is_match=piece.style.is_match))


def _bar_text(text: str) -> str:
    """A progress bar in signs as wide as those of the program."""
    return "".join(" " if sign == "|" else "▱" if sign in " ▏▎▍" else "▰" for sign in text)


def _styled(
    line: Line, start: int, end: int, matches: Sequence[tuple[int, int]], bar: tuple[int, int] | None
) -> list[Piece]:
    """The text from `start` up to `end`: in the colours of the line or of its level, with matches set off and
    a progress bar (its edges) in grey.
    """
    if bar is not None and start <= bar[0] and bar[1] <= end:
        return [
            *_styled(line, start, bar[0], matches, None),
            Piece(_bar_text(line.text[slice(*bar)]), _QUIET),
            *_styled(line, bar[1], end, matches, None),
        ]
    if not (line.spans or matches):
        return [Piece(line.text[start:end], TextStyle(line.level))]
    edges = {start, end}
    edges.update(edge for span in line.spans for edge in (span.start, span.stop) if start < edge < end)
    edges.update(edge for match in matches for edge in match if start < edge < end)
    level = None if line.spans else line.level
    plain, matching = TextStyle(level), TextStyle(level, is_match=True)
    spans, remaining_matches = iter(line.spans), iter(matches)
    span, match = next(spans, None), next(remaining_matches, None)
    styles = (plain, matching)
    pieces = []
    for first, last in pairwise(sorted(edges)):
        while span is not None and span.stop <= first:
            span, styles = next(spans, None), (plain, matching)
        if span is not None and span.start <= first and styles[0] is plain:
            styles = (TextStyle(None, span.style), TextStyle(None, span.style, is_match=True))
        while match is not None and match[1] <= first:
            match = next(remaining_matches, None)
        is_match = match is not None and match[0] <= first
        pieces.append(Piece(line.text[first:last], styles[is_match]))
    return pieces or [Piece("", plain)]


def wrap_cuts(text: str, cells: int) -> list[int]:
    """Indexes at which to cut so that no row is wider than `cells` and no wide character is split."""
    if text.isascii():
        return list(range(cells, len(text), cells))
    cuts = []
    row_cells = 0
    for index, char in enumerate(text):
        width = cell_len(char)
        if row_cells and row_cells + width > cells:
            cuts.append(index)
            row_cells = 0
        row_cells += width
    return cuts


def _divided(pieces: list[Piece], edges: list[int]) -> list[TextRow]:
    """Rows of the text of `pieces`, each from one of the ascending `edges` to the next."""
    rows = []
    begin = 0
    remaining = iter(pieces)
    piece = next(remaining)
    for first, last in pairwise(edges):
        row = []
        while True:
            end = begin + len(piece.text)
            if text := piece.text[max(0, first - begin) : last - begin]:
                row.append(Piece(text, piece.style))
            if end > last or (following := next(remaining, None)) is None:
                break
            begin, piece = end, following
            if begin >= last:
                break
        rows.append(TextRow(tuple(row), sum(cell_len(part.text) for part in row)))
    return rows


def cut_cells(text: str, first: int, last: int) -> str:
    """The text from cell `first` up to `last`; half of a wide character becomes a blank."""
    if text.isascii():
        return text[first:last]
    cut = []
    end = 0
    for char in text:
        begin, end = end, end + cell_len(char)
        if first <= begin and end <= last:
            cut.append(char)
        elif begin < last and first < end:
            cut.append(" ")
    return "".join(cut)
