"""A selection in a log: from one position to another, characters or complete lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len

END_CELL = 1 << 30
"""A cell behind the last one of any line."""
_WORD = re.compile(r"[\w./:@%+~-]+")
"""The text that a double click selects: a name, a number, a path, an address."""


class TextPosition(NamedTuple):
    """A position in a log that stays where it is while the log grows."""

    offset: int
    """Byte that the line begins at."""
    cell: int
    """Cell in the line as it is displayed, not wrapped."""


@dataclass(frozen=True, slots=True)
class Selection:
    start: TextPosition
    """Position where the selection began; may be after `end`."""
    end: TextPosition
    lines: bool
    """Whole lines, as they were written; else what is shown of them, from cell to cell."""

    @property
    def first(self) -> TextPosition:
        return min(self.start, self.end)

    @property
    def last(self) -> TextPosition:
        """The later end; its cell is not selected any more."""
        return max(self.start, self.end)

    def cells_of(self, offset: int) -> tuple[int, int]:
        """First and last cell (exclusive) that are selected in the line at byte `offset`; (0, 0) if none."""
        if not self.first.offset <= offset <= self.last.offset:
            return 0, 0
        if self.lines:
            return 0, END_CELL
        first = self.first.cell if offset == self.first.offset else 0
        last = self.last.cell if offset == self.last.offset else END_CELL
        return first, last


def word_at(text: str, cell: int) -> tuple[int, int]:
    """First cell and end of the word at `cell`, or of the single character."""
    begin = 0
    for index, char in enumerate(text):
        end = begin + cell_len(char)
        if begin <= cell < end:
            for word in _WORD.finditer(text):
                if word.start() <= index < word.end():
                    begin = cell_len(text[: word.start()])
                    return begin, begin + cell_len(word[0])
            return begin, end
        begin = end
    return begin, begin
