"""A log of any size, by line number, without reading more of it than is shown."""

from __future__ import annotations

from pathlib import Path

from rltui.core.lines import LogChange, decode_line
from rltui.services.growing_file import GrowingFile
from rltui.services.newline_index import BLOCK_BYTES, NewlineIndex

TAIL_BYTES = 16 * BLOCK_BYTES
"""Indexed on opening. A smaller file is known as a whole at once."""
SLICE_BYTES = 64 * BLOCK_BYTES
"""Indexed at a time after that, 4 MiB: 1 to 3 ms from the page cache. A gap to the end of the file that is
longer is jumped over where that is allowed."""
MAX_LINE_BYTES = 8 * 1024
"""Longer lines are cut."""


class LogFile:
    """Lines of one growing file, which need not exist yet; implements `rltui.core.lines.LogSource`.

    Opening reads the last mebibyte, a poll without news is one `stat`. Line 0 is the one at the anchor of the
    index, near the end of a big file and at the start of a small one. Not safe to share between threads.
    """

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path)
        self._index = self._index_tail()

    @property
    def start(self) -> int:
        """Number of the oldest line known."""
        index = self._index
        oldest = -index.newlines_behind + (1 if index.base > 0 else 0)
        return min(oldest, max(0, self.stop - 1))

    @property
    def stop(self) -> int:
        """One past the newest line, an unfinished one included."""
        return self.complete_stop + (1 if self._index.end > self._index.last_line_start else 0)

    @property
    def complete_stop(self) -> int:
        """One past the newest line that has its newline."""
        return self._index.newlines_ahead

    @property
    def problem(self) -> str | None:
        """Why nothing can be read, in a few words."""
        return self._file.problem

    @property
    def bytes_read(self) -> int:
        """How much was read from the file so far, for measurements."""
        return self._file.bytes_read

    def line(self, number: int) -> str:
        """Return a line, cut to `MAX_LINE_BYTES`, progress bars reduced to their last state.

        A line that is gone, since the file was truncated a moment ago, reads as empty.
        """
        try:
            start, end = self.offset(number), self._line_end(number)
        except IndexError:
            return ""
        return self._text(start, end, complete=number < self.complete_stop)

    def poll(self, *, may_skip: bool = False) -> LogChange:
        """Look for growth, truncation and replacement. Indexes up to `SLICE_BYTES`, so it may lag."""
        if self._file.look() is LogChange.RESET:
            self._index = self._index_tail()
            return LogChange.RESET
        known = self._index.end
        behind = self._file.size - known
        if may_skip and behind > SLICE_BYTES:
            self._index = self._index_tail()
            return LogChange.RESET
        self._index.extend(min(behind, SLICE_BYTES))
        return LogChange.GREW if self._index.end > known else LogChange.NONE

    def load_older(self) -> bool:
        """Index another `SLICE_BYTES` before the oldest line known. `False` at the start of the file."""
        base = self._index.base
        self._index.extend_back(SLICE_BYTES)
        return self._index.base < base

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _index_tail(self) -> NewlineIndex:
        blocks = max(0, self._file.size - TAIL_BYTES) // BLOCK_BYTES
        index = NewlineIndex(self._file.read, blocks * BLOCK_BYTES)
        index.extend(self._file.size - index.end)
        return index

    def offset(self, number: int) -> int:
        """Return where a line begins, in bytes.

        Raises:
            IndexError: The line is not known.
        """
        index = self._index
        if number == self.complete_stop and number > 0:
            return index.last_line_start
        return index.base if number - 1 < -index.newlines_behind else index.offset(number - 1) + 1

    def _line_end(self, number: int) -> int:
        return self._index.end if number == self.complete_stop else self._index.offset(number)

    def _text(self, start: int, end: int, *, complete: bool) -> str:
        length = end - start
        if length <= MAX_LINE_BYTES:
            return decode_line(self._file.read(start, length), complete=complete)
        tail = self._file.read(end - MAX_LINE_BYTES, MAX_LINE_BYTES)
        if (redraw := tail.rstrip(b"\r").find(b"\r")) >= 0:
            return decode_line(tail[redraw:], complete=complete)
        head = decode_line(self._file.read(start, MAX_LINE_BYTES), complete=False)
        return f"{head} … +{length - MAX_LINE_BYTES:,} bytes"
