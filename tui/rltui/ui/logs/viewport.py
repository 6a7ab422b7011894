"""The rows of a log that are in view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class ViewRow(NamedTuple):
    """A row of a wrapped line: line number and row within it, from 0. Rows compare in reading order."""

    line: int
    row: int


class LogViewport:
    """A window of `height` rows over the lines from `start` up to but not including `stop`.

    `count_rows` tells how many rows a line takes, none where it is hidden; it is asked about
    lines in or near view only.
    """

    def __init__(self, count_rows: Callable[[int], int]) -> None:
        self._count_rows = count_rows
        self.start = 0
        self.stop = 0
        self.height = 0
        self.top = ViewRow(0, 0)

    @property
    def at_end(self) -> bool:
        return self.top >= self._end_top()

    def move(self, rows: int) -> None:
        """Up if negative; as far as there are lines."""
        self.top = self._down(self.top, rows) if rows > 0 else self._up(self.top, -rows)
        self.clamp()

    def move_to_end(self) -> None:
        """Show the newest rows, the last one at the bottom."""
        self.top = self._end_top()

    def clamp(self) -> None:
        """Come back into the log after its lines or their heights have changed."""
        if self.start <= self.top.line < self.stop:
            self.top = ViewRow(self.top.line, max(0, min(self.top.row, self._count_rows(self.top.line) - 1)))
        self.top = max(ViewRow(self.start, 0), min(self.top, self._end_top()))

    def rows(self) -> Iterator[ViewRow]:
        """Yield the rows in view from the top, at most `height`."""
        remaining = self.height
        first = self.top.row
        for line in range(self.top.line, self.stop):
            for row in range(first, self._count_rows(line)):
                if remaining <= 0:
                    return
                yield ViewRow(line, row)
                remaining -= 1
            first = 0

    def _end_top(self) -> ViewRow:
        return self._up(ViewRow(self.stop, 0), self.height)

    def _up(self, row: ViewRow, rows: int) -> ViewRow:
        line = row.line
        rows -= row.row
        while rows > 0 and line > self.start:
            line -= 1
            rows -= self._count_rows(line)
        return ViewRow(line, max(0, -rows))

    def _down(self, row: ViewRow, rows: int) -> ViewRow:
        line = row.line
        rows += row.row
        while line < self.stop and rows >= (height := self._count_rows(line)):
            line += 1
            rows -= height
        return ViewRow(line, rows if line < self.stop else 0)
