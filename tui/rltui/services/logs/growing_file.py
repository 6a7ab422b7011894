"""Files that others write to: polled, read at offsets, line by line, or as rows of JSON."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from rltui.core.logs.source import LogChange

_PREFIX_BYTES = 64
"""Compared when the file grows, to detect one that was truncated and outgrew its old size between two
polls.
"""
READ_BYTES = 16 << 20
"""Default limit of one read, and of a line."""
_PYTHON_ONLY = (b"NaN", b"Infinity", b"\\ud", b"\\uD")
"""Content that only Python's `json` reads: numbers that are not finite, halves of surrogate pairs."""


class GrowingFile:
    """A file by path, whether or not it exists yet. Errors are stored in `problem`; reads then return
    nothing.

    A missing file is an empty one and no problem; a deleted one stays readable until another takes its path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        """Bytes, as of the last poll."""
        self.problem: str | None = None
        self.bytes_read = 0
        """Bytes read since the file was first opened, for measurements."""
        self._fd: int | None = None
        self._identity: tuple[int, int] | None = None
        self._prefix = b""
        self.poll()

    def poll(self) -> LogChange:
        """Compare with the last poll. After `RESET` it is another file, or it was truncated."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 - a third of the cost of Path.stat, ten times a second
            if (status.st_dev, status.st_ino) != self._identity:
                self._open()
                return LogChange.RESET
        except FileNotFoundError:
            return LogChange.NONE
        except OSError as error:
            self.problem = error.strerror
            return LogChange.NONE
        if status.st_size == self.size:
            return LogChange.NONE
        self.problem = None
        if status.st_size < self.size or self.read(0, len(self._prefix)) != self._prefix:
            self._remember(status.st_size)
            return LogChange.RESET
        if len(self._prefix) < _PREFIX_BYTES:
            self._remember(status.st_size)
        self.size = status.st_size
        return LogChange.GREW

    def read(self, offset: int, length: int) -> bytes:
        """Read up to `length` bytes from `offset`, fewer at the end of the file."""
        if self._fd is None or length <= 0:
            return b""
        try:
            data = os.pread(self._fd, length, offset)
        except OSError as error:
            self.problem = error.strerror
            return b""
        self.bytes_read += len(data)
        return data

    def close(self) -> None:
        """Close the descriptor. The next poll opens it again."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = self._identity = None

    def __del__(self) -> None:
        self.close()

    def _open(self) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO must not hang us
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):  # a device may have no end
            os.close(fd)
            is_folder = stat.S_ISDIR(status.st_mode)
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR) if is_folder else "not a regular file")
        self.close()
        self._fd, self._identity = fd, (status.st_dev, status.st_ino)
        self.problem = None
        self._remember(status.st_size)

    def _remember(self, size: int) -> None:
        self.size = size
        self._prefix = self.read(0, min(size, _PREFIX_BYTES))


class AppendedLines:
    """Complete lines that were appended to a file since the last poll, which is one `stat` if nothing was.

    A truncated or replaced file is read from its start. The unfinished last line waits for the next poll.
    """

    def __init__(
        self,
        path: Path,
        *,
        offset: int = 0,
        most_bytes: int = READ_BYTES,
        line_bytes: int = READ_BYTES,
        backlog_bytes: int | None = None,
    ) -> None:
        """Reads `most_bytes` at a time. A longer line than `line_bytes` is split.

        `backlog_bytes`: older content than this, counted from the end, is skipped.
        """
        self._file = GrowingFile(path)
        self._offset = offset
        self._most_bytes, self._line_bytes, self._backlog_bytes = most_bytes, line_bytes, backlog_bytes
        self.unfinished = b""
        """The content after the last newline."""
        self.restarted = False
        """The last `read` began anew."""

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def problem(self) -> str | None:
        """Reason why nothing can be read, in a few words."""
        return self._file.problem

    @property
    def has_more(self) -> bool:
        """True if there is more to read, as of the last poll. False for a file that cannot be read."""
        return self._offset < self._file.size and self._file.problem is None

    @property
    def position(self) -> int:
        """Offset after the last line that `read` returned."""
        return self._offset - len(self.unfinished)

    def read(self) -> bytes:
        """The next lines with their newlines; empty if there is none."""
        is_reset = self._file.poll() is LogChange.RESET
        self.restarted = is_reset and self._offset > 0
        if is_reset:
            self._offset, self.unfinished = 0, b""
        if self._backlog_bytes is not None and self._file.size - self._offset > self._backlog_bytes:
            self._offset, self.unfinished = self._file.size - self._backlog_bytes, b""
        while data := self._file.read(self._offset, self._most_bytes):
            self._offset += len(data)
            lines, end, self.unfinished = (self.unfinished + data).rpartition(b"\n")
            if end:
                return lines + end
            if len(self.unfinished) >= self._line_bytes:
                return self.finish() + b"\n"
        return b""

    def finish(self) -> bytes:
        """Return the unfinished line and forget it."""
        line, self.unfinished = self.unfinished, b""
        return line

    def close(self) -> None:
        self._file.close()


def lines_with(data: bytes, patterns: Iterable[bytes]) -> list[tuple[int, bytes]]:
    """The lines that contain one of `patterns`, with the offset after each, in order."""
    by_end: dict[int, bytes] = {}
    for pattern in patterns:
        position = 0
        while (hit := data.find(pattern, position)) >= 0 and position < len(data):
            end = data.find(b"\n", hit)
            end = len(data) if end < 0 else end + 1
            by_end[end] = data[data.rfind(b"\n", 0, hit) + 1 : end]
            position = end
    return sorted(by_end.items())


class JsonLines:
    """Rows of JSON that were appended to a file since the last poll. An unreadable file has none."""

    def __init__(self, *paths: Path, most_bytes: int = READ_BYTES) -> None:
        """`paths`: the first that exists is read, in pieces of `most_bytes`."""
        self._paths = paths
        self._most_bytes = most_bytes
        self._lines: AppendedLines | None = None
        self.restarted = False
        """The last `read` found a new file: what was read before is void."""

    @property
    def has_more(self) -> bool:
        """True if there is more to read at once, as of the last `read`."""
        return self._lines is not None and self._lines.has_more

    def read(self, pieces: int | None = None) -> Iterator[dict[str, Any]]:
        """The new rows, oldest first, of at most `pieces` pieces. Lines that are no JSON objects are
        skipped.
        """
        path = next((path for path in self._paths if os.path.exists(path)), None)  # noqa: PTH110 - as `poll`
        self.restarted = self._lines is not None and self._lines.path != path
        if self._lines is not None and self.restarted:
            self._lines.close()
            self._lines = None
        if path is None:
            return
        if self._lines is None:
            self._lines = AppendedLines(path, most_bytes=self._most_bytes)
        for data in islice(iter(self._lines.read, b""), pieces):
            self.restarted |= self._lines.restarted
            for line in data.splitlines():
                row = json_value(line)
                if isinstance(row, dict):
                    yield row


def _integer(digits: str) -> int | float:
    number = float(digits)
    return int(digits) if abs(number) < 2.0**63 else number


def json_value(line: bytes) -> object:
    """The value of a line, `None` if it is no JSON. NaN is invalid too, but Python's `json` writes it.

    Integers have at most 64 bits: `orjson` makes floats of longer ones, and so does this.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if not any(token in line for token in _PYTHON_ONLY):
            return None
    try:
        return json.loads(line, parse_int=_integer)
    except (ValueError, RecursionError):
        return None
