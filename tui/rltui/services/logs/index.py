"""Random access to a log of any size by line number, reading little more than is displayed."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from pathlib import Path

from rltui.core.logs.lines import decode_line
from rltui.core.logs.source import LogChange
from rltui.services.logs.growing_file import GrowingFile

BLOCK_BYTES = 64 * 1024
_CACHED_BLOCKS = 8
"""Number of blocks whose newline positions are cached, enough for a screenful of long lines."""

Read = Callable[[int, int], bytes]
"""Offset, length → bytes, fewer at the end of the file."""


class NewlineIndex:
    """Counts and finds newlines in both directions from `anchor` (bytes, a multiple of the block size)."""

    def __init__(self, read: Read, anchor: int) -> None:
        self._read = read
        self._anchor = anchor
        self._ahead = array("Q", [0])
        self._behind = array("Q", [0])
        self._cached_positions: dict[tuple[int, int], array[int]] = {}
        self.newlines_ahead = 0
        self.end = anchor
        """Offset of the first byte after the indexed part."""
        self.last_line_start = anchor
        """Start of the line after the newest newline; the anchor while there is none after it."""

    @property
    def base(self) -> int:
        """Offset of the first indexed byte."""
        return self._anchor - (len(self._behind) - 1) * BLOCK_BYTES

    @property
    def newlines_behind(self) -> int:
        """Number of indexed newlines before the anchor."""
        return self._behind[-1]

    def extend(self, limit: int) -> None:
        """Index at most `limit` bytes from `end` on."""
        data = self._read(self.end, limit)
        if (newest := data.rfind(b"\n")) >= 0:
            self.last_line_start = self.end + newest + 1
        position = 0
        while position < len(data):
            room = BLOCK_BYTES - (self.end - self._anchor) % BLOCK_BYTES
            length = min(room, len(data) - position)
            self.newlines_ahead += data.count(b"\n", position, position + length)
            self.end += length
            position += length
            if length == room:
                self._ahead.append(self.newlines_ahead)

    def extend_back(self) -> None:
        """Index at most `SLICE_BYTES` before `base`."""
        start = max(0, self.base - SLICE_BYTES)
        data = self._read(start, self.base - start)
        if len(data) < self.base - start:
            return
        for position in range(len(data) - BLOCK_BYTES, -1, -BLOCK_BYTES):
            self._behind.append(self._behind[-1] + data.count(b"\n", position, position + BLOCK_BYTES))

    def offset(self, newline: int) -> int:
        """Byte offset of an indexed newline.

        Raises:
            IndexError: It is not indexed, or the file has changed since.
        """
        if not -self.newlines_behind <= newline < self.newlines_ahead:
            raise IndexError(newline)
        if newline >= 0:
            block = bisect_right(self._ahead, newline) - 1
            return self._positions(block)[newline - self._ahead[block]]
        block = bisect_left(self._behind, -newline)
        return self._positions(-block)[self._behind[block] + newline]

    def count_before(self, offset: int) -> int:
        """Number of newlines from the anchor to `offset`, negative before the anchor. It must be indexed."""
        block, remainder = divmod(offset - self._anchor, BLOCK_BYTES)
        before = self._ahead[block] if block >= 0 else -self._behind[-block]
        return before + self._read(self._anchor + block * BLOCK_BYTES, remainder).count(b"\n")

    def _positions(self, block: int) -> array[int]:
        """Offsets of all newlines of a block; blocks are numbered from the anchor."""
        start = self._anchor + block * BLOCK_BYTES
        length = min(BLOCK_BYTES, self.end - start)
        key = (block, length)
        if key not in self._cached_positions:
            if len(self._cached_positions) >= _CACHED_BLOCKS:
                del self._cached_positions[next(iter(self._cached_positions))]
            data = self._read(start, length)
            positions = array("Q")
            newline = data.find(b"\n")
            while newline >= 0:
                positions.append(start + newline)
                newline = data.find(b"\n", newline + 1)
            self._cached_positions[key] = positions
        return self._cached_positions[key]


TAIL_BYTES = 16 * BLOCK_BYTES
"""Size of the end of a file that is indexed on opening. A smaller file is indexed completely."""
SLICE_BYTES = 64 * BLOCK_BYTES
"""Size of a further step, 4 MiB: 1 to 3 ms from the page cache. A longer gap to the end of the file is
skipped if allowed.
"""
MAX_LINE_BYTES = 8 * 1024
"""Limit of a displayed line; longer ones are cut."""


class LogFile:
    """Lines of one growing file, which need not exist yet; implements `rltui.core.logs.source.LogSource`.

    Opening reads the last mebibyte, a poll without changes is one `stat`. Line 0 is the one at the anchor of
    the index, near the end of a big file and at the start of a small one. Not safe to share between threads.
    """

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path)
        self._index = self._index_tail()

    @property
    def start(self) -> int:
        index = self._index
        oldest = -index.newlines_behind + (1 if index.base > 0 else 0)
        return min(oldest, max(0, self.stop - 1))

    @property
    def stop(self) -> int:
        return self.complete_stop + (1 if self._index.end > self._index.last_line_start else 0)

    @property
    def complete_stop(self) -> int:
        """One past the newest line that has its newline."""
        return self._index.newlines_ahead

    @property
    def problem(self) -> str | None:
        return self._file.problem

    @property
    def is_waiting(self) -> bool:
        return False

    @property
    def bytes_read(self) -> int:
        """Bytes read from the file so far, for measurements."""
        return self._file.bytes_read

    def line(self, number: int) -> str:
        """Return a line, cut to `MAX_LINE_BYTES`, progress bars reduced to their last state.

        A line that no longer exists, since the file was truncated a moment ago, is empty.
        """
        try:
            start = self.offset(number)
            end = self._index.end if number == self.complete_stop else self._index.offset(number)
        except IndexError:
            return ""
        return self._text(start, end, complete=number < self.complete_stop)

    def number_at(self, offset: int) -> int | None:
        if not self._index.base <= offset < self._index.end:
            return None
        return max(self.start, min(self._index.count_before(offset), self.stop - 1))

    def line_at(self, offset: int) -> str:
        """The line that begins at this offset, as `line`, without using the index."""
        data = self._file.read(offset, MAX_LINE_BYTES)
        line, newline, _ = data.partition(b"\n")
        return decode_line(line, complete=bool(newline) or len(data) < MAX_LINE_BYTES)

    def label(self, number: int) -> str:
        del number
        return ""

    def poll(self, *, may_skip: bool = False) -> LogChange:
        """Check for growth, truncation and replacement. Indexes up to `SLICE_BYTES`, so it may lag."""
        if self._file.poll() is LogChange.RESET:
            self._index = self._index_tail()
            return LogChange.RESET
        indexed_end = self._index.end
        lag = self._file.size - indexed_end
        if may_skip and lag > SLICE_BYTES:
            self._index = self._index_tail()
            return LogChange.RESET
        self._index.extend(min(lag, SLICE_BYTES))
        return LogChange.GREW if self._index.end > indexed_end else LogChange.NONE

    def load_older(self) -> bool:
        """Index another `SLICE_BYTES` before the oldest indexed line. `False` at the start of the file."""
        base = self._index.base
        self._index.extend_back()
        return self._index.base < base

    def close(self) -> None:
        self._file.close()

    def _index_tail(self) -> NewlineIndex:
        blocks = max(0, self._file.size - TAIL_BYTES) // BLOCK_BYTES
        index = NewlineIndex(self._file.read, blocks * BLOCK_BYTES)
        index.extend(self._file.size - index.end)
        return index

    def offset(self, number: int) -> int:
        """Byte offset of the start of a line.

        Raises:
            IndexError: The line is not indexed.
        """
        index = self._index
        if number == self.complete_stop and number > 0:
            return index.last_line_start
        return index.base if number - 1 < -index.newlines_behind else index.offset(number - 1) + 1

    def _text(self, start: int, end: int, *, complete: bool) -> str:
        length = end - start
        if length <= MAX_LINE_BYTES:
            return decode_line(self._file.read(start, length), complete=complete)
        tail = self._file.read(end - MAX_LINE_BYTES, MAX_LINE_BYTES)
        if (redraw := tail.rstrip(b"\r").find(b"\r")) >= 0:
            return decode_line(tail[redraw:], complete=complete)
        head = decode_line(self._file.read(start, MAX_LINE_BYTES), complete=False)
        return f"{head} … +{length - MAX_LINE_BYTES:,} bytes"
