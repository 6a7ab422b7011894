"""Where the lines of a huge file begin, at 8 bytes of memory per 64 KiB of file.

The index starts at an anchor near the end of the file and grows both ways: forward as the file is appended
to, and backward on demand. Newlines are numbered from the anchor: 0 is the first one at or after it, -1 the
last one before. Only their count per block is kept; a block is read again to find one in it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable

BLOCK_BYTES = 64 * 1024
KEPT_BLOCKS = 8
"""Blocks whose newline positions are remembered, enough for a screenful of long lines."""

Read = Callable[[int, int], bytes]
"""From offset and length to bytes, fewer at the end of the file."""


class NewlineIndex:
    """Counts and finds newlines of a file both ways from `anchor` (bytes, a multiple of the block size)."""

    def __init__(self, read: Read, anchor: int) -> None:
        self._read = read
        self._anchor = anchor
        self._ahead = array("Q", [0])
        self._behind = array("Q", [0])
        self._kept: dict[tuple[int, int], array[int]] = {}
        self.newlines_ahead = 0
        self.end = anchor
        """First byte that was not looked at, in the forward direction."""
        self.last_line_start = anchor
        """Where what follows the newest newline begins; the anchor while none is known after it."""

    @property
    def base(self) -> int:
        """First byte that was looked at."""
        return self._anchor - (len(self._behind) - 1) * BLOCK_BYTES

    @property
    def newlines_behind(self) -> int:
        """How many newlines are known before the anchor."""
        return self._behind[-1]

    def extend(self, limit: int) -> None:
        """Count on from `end`, at most `limit` bytes."""
        data = self._read(self.end, limit)
        if (newest := data.rfind(b"\n")) >= 0:
            self.last_line_start = self.end + newest + 1
        position = 0
        while position < len(data):
            room = BLOCK_BYTES - (self.end - self._anchor) % BLOCK_BYTES
            taken = min(room, len(data) - position)
            self.newlines_ahead += data.count(b"\n", position, position + taken)
            self.end += taken
            position += taken
            if taken == room:
                self._ahead.append(self.newlines_ahead)

    def extend_back(self, limit: int) -> None:
        """Count on before `base`, at most `limit` bytes, a multiple of the block size."""
        start = max(0, self.base - limit)
        data = self._read(start, self.base - start)
        if len(data) < self.base - start:
            return
        for position in range(len(data) - BLOCK_BYTES, -1, -BLOCK_BYTES):
            self._behind.append(self._behind[-1] + data.count(b"\n", position, position + BLOCK_BYTES))

    def offset(self, newline: int) -> int:
        """Return where a known newline lies, in bytes.

        Raises:
            IndexError: It is not known, or the file has changed under us.
        """
        if not -self.newlines_behind <= newline < self.newlines_ahead:
            raise IndexError(newline)
        if newline >= 0:
            block = bisect_right(self._ahead, newline) - 1
            return self._positions(block)[newline - self._ahead[block]]
        block = bisect_left(self._behind, -newline)
        return self._positions(-block)[self._behind[block] + newline]

    def _positions(self, block: int) -> array[int]:
        """Find all newlines of a block, which is numbered from the anchor."""
        start = self._anchor + block * BLOCK_BYTES
        length = min(BLOCK_BYTES, self.end - start)
        key = (block, length)
        if key not in self._kept:
            if len(self._kept) >= KEPT_BLOCKS:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = _find_newlines(self._read(start, length), start)
        return self._kept[key]


def _find_newlines(data: bytes, offset: int) -> array[int]:
    positions = array("Q")
    found = data.find(b"\n")
    while found >= 0:
        positions.append(offset + found)
        found = data.find(b"\n", found + 1)
    return positions
