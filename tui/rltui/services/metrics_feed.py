"""Follow a growing `metrics.jsonl`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any

import orjson

_NON_FINITE = (b"NaN", b"Infinity")
READ_BYTES = 16 * 1024 * 1024
"""Most that is read of a file at a time, and longest line."""


class MetricsFeed:
    """Rows appended to a file since the last look.

    A truncated or replaced file is read from its start, and so is one at a place that goes before.

    One `stat` where nothing changed. An unfinished last line is kept for the next look. A file that cannot be
    read has no rows.
    """

    def __init__(self, *places: Path) -> None:
        """`places`: the first at which there is a file counts."""
        self._places = places
        self._offset = 0
        self._inode: int | None = None
        self.restarted = False
        """The last `read` found a new file: what was read before is void."""

    def read(self) -> Iterator[dict[str, Any]]:
        """The new rows, oldest first. Lines that are no JSON objects are passed over."""
        self.restarted = False
        found = next(self._found(), None)
        if found is None:
            self.restarted = self._inode is not None
            self._inode = None
            return
        path, stat = found
        if stat.st_ino != self._inode or stat.st_size < self._offset:
            self.restarted = self._inode is not None
            self._inode, self._offset = stat.st_ino, 0
        if stat.st_size == self._offset:
            return
        if not S_ISREG(stat.st_mode):  # a pipe would be waited for
            return
        while data := self._lines(path):
            for line in data.splitlines():
                row = _parse(line)
                if isinstance(row, dict):
                    yield row

    def _found(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self._places:
            with suppress(OSError):
                yield path, os.stat(path)  # noqa: PTH116  (one system call on the idle path)

    def _lines(self, path: Path) -> bytes:
        """The next whole lines, at most `READ_BYTES`; of a line that is longer, nothing."""
        try:
            with path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(READ_BYTES)
        except OSError:  # another person's, not for us to read; or gone since
            return b""
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) == READ_BYTES:
            self._offset += len(data)
            return b"\n"
        self._offset += end
        return data[:end]


def _integer(digits: str) -> int | float:
    number = float(digits)
    return int(digits) if abs(number) < 2.0**63 else number


def _parse(line: bytes) -> object:
    """The value of a line, `None` where it is no JSON. NaN is none either, but Python's `json` writes it.

    No integer in it is longer than 64 bits: `orjson` makes floats of those, and so does this.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if not any(word in line for word in _NON_FINITE):
            return None
    try:
        return json.loads(line, parse_int=_integer)
    except (ValueError, RecursionError):
        return None
