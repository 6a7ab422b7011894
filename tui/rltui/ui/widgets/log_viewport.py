"""Which rows of a log are in view, where a line may take several rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Row(NamedTuple):
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
        self.top = Row(0, 0)

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
            self.top = Row(self.top.line, min(self.top.row, self._rows_of(self.top.line) - 1))
        self.top = max(Row(self.start, 0), min(self.top, self._end_top()))

    def rows(self) -> Iterator[Row]:
        """Yield the rows in view from the top, at most `height`."""
        left = self.height
        first = self.top.row
        for line in range(self.top.line, self.stop):
            for row in range(first, self._rows_of(line)):
                if left <= 0:
                    return
                yield Row(line, row)
                left -= 1
            first = 0

    def _end_top(self) -> Row:
        return self._up(Row(self.stop, 0), self.height)

    def _up(self, row: Row, rows: int) -> Row:
        line = row.line
        rows -= row.row
        while rows > 0 and line > self.start:
            line -= 1
            rows -= self._rows_of(line)
        return Row(line, max(0, -rows))

    def _down(self, row: Row, rows: int) -> Row:
        line = row.line
        rows += row.row
        while line < self.stop and rows >= (height := self._rows_of(line)):
            line += 1
            rows -= height
        return Row(line, rows if line < self.stop else 0)
