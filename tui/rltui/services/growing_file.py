"""One file that others write to: opened when it appears, read at offsets, watched with one `stat` a look."""

from __future__ import annotations

import os
from pathlib import Path

from rltui.core.lines import LogChange

HEAD_BYTES = 64
"""Compared when the file grows, to see one that was truncated and outgrew its old size between two looks."""


class GrowingFile:
    """A file by path, whether or not it exists yet. Errors end up in `problem`; reads then return nothing.

    A missing file is an empty one and no problem; a deleted one stays readable until another takes its path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        """Bytes, as of the last look."""
        self.problem: str | None = None
        self.bytes_read = 0
        """Since the file was first opened; for measurements."""
        self._fd: int | None = None
        self._identity: tuple[int, int] | None = None
        self._head = b""
        self.look()

    def look(self) -> LogChange:
        """Compare with the last look. After `RESET` the file is another one, or starts anew."""
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
        return self._compare_size(status.st_size)

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`, fewer at the end of the file."""
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
        """Give the file back. Looking again opens it anew."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = self._identity = None

    def _open(self) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO must not hang us
        self.close()
        status = os.fstat(fd)
        self._fd, self._identity = fd, (status.st_dev, status.st_ino)
        self.problem = None
        self._remember(status.st_size)

    def _compare_size(self, size: int) -> LogChange:
        if size == self.size:
            return LogChange.NONE
        self.problem = None
        if size < self.size or self.read(0, len(self._head)) != self._head:
            self._remember(size)
            return LogChange.RESET
        if len(self._head) < HEAD_BYTES:
            self._remember(size)
        self.size = size
        return LogChange.GREW

    def _remember(self, size: int) -> None:
        self.size = size
        self._head = self.read(0, min(size, HEAD_BYTES))
