"""Follow metrics in the output of components, where a framework writes no file of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rltui.core.lines import LogChange, decode_line, plain_text
from rltui.services.growing_file import GrowingFile

READ_BYTES = 8 * 1024 * 1024
"""Most that is read of a log at a time."""
BACKLOG_BYTES = 64 * 1024 * 1024
"""What lies further back in a log that is found, or that grows faster than it is read, is passed over."""
LINE_BYTES = 64 * 1024
"""Of a line, what is kept of it while it is unfinished, and what is read of it at most."""

Row = Mapping[str, Any]


class LogMetrics:
    """Rows out of the lines that were appended to logs since the last look.

    A log that was truncated or replaced is read from its start, and so is the next attempt's.
    """

    def __init__(self, log_row: Callable[[str, str], Row | None], mark: str = "") -> None:
        """`log_row` and `mark` as in `Framework`."""
        self._log_row = log_row
        self._mark = mark.encode()
        self._followed: dict[str, _Followed] = {}

        self.restarted = False
        """The last `read` found the next attempt's log, or one that starts anew: steps may come again."""

    def read(self, logs: Mapping[str, Path]) -> list[Row]:
        """The new rows, oldest first within each log. `logs`: component → its present output."""
        rows: list[Row] = []
        self.restarted = False
        for component, path in logs.items():
            followed = self._followed.get(component)
            if followed is not None and followed.path != path:
                rows.extend(self._rows(component, followed))
                followed.close()
                followed, self.restarted = None, True
            if followed is None:
                followed = self._followed[component] = _Followed(path)
            rows.extend(self._rows(component, followed))
        for component in self._followed.keys() - logs.keys():
            self._followed.pop(component).close()
        return rows

    @property
    def behind(self) -> bool:
        """There is more to read at once, as of the last `read`."""
        return any(followed.behind for followed in self._followed.values())

    def read_whole(self, component: str, path: Path) -> list[Row]:
        """All rows of the log of an earlier attempt, oldest first."""
        followed = _Followed(path)
        rows: list[Row] = []
        while followed.behind:
            rows.extend(self._rows(component, followed))
        followed.close()
        return rows

    def _rows(self, component: str, followed: _Followed) -> Iterator[Row]:
        data = followed.read()
        self.restarted |= followed.restarted
        for line in _marked(data, self._mark):
            try:
                row = self._log_row(component, plain_text(decode_line(line[:LINE_BYTES])))
            except ValueError:  # a number with more digits than Python reads
                continue
            if row is not None:
                yield row


class _Followed:
    """Whole lines of one file, in order."""

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path)
        self._offset = 0
        self._rest = b""
        self.restarted = False
        """The last `read` began anew."""

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def behind(self) -> bool:
        """There is more to read, as of the last look."""
        return self._offset < self._file.size

    def read(self) -> bytes:
        """What was appended, up to the last line end, at most `READ_BYTES` and a line."""
        is_reset = self._file.look() is LogChange.RESET
        self.restarted = is_reset and self._offset > 0
        if is_reset:
            self._offset, self._rest = 0, b""
        if self._file.size - self._offset > BACKLOG_BYTES:
            self._offset, self._rest = self._file.size - BACKLOG_BYTES, b""
        data = self._file.read(self._offset, READ_BYTES)
        self._offset += len(data)
        lines, end, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest[-LINE_BYTES:]
        return lines + end

    def close(self) -> None:
        self._file.close()


def _marked(lines: bytes, mark: bytes) -> Iterator[bytes]:
    """The lines that hold `mark`."""
    at = 0
    while (found := lines.find(mark, at)) >= 0 and at < len(lines):
        start, end = lines.rfind(b"\n", at, found) + 1, lines.find(b"\n", found)
        yield lines[max(start, at) : end]
        at = end + 1
