"""Follow a growing `metrics.jsonl`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

_NON_FINITE = (b"NaN", b"Infinity")


class MetricsFeed:
    """Rows appended to a file since the last look. A truncated or replaced file is read from its start.

    One `stat` where nothing changed. An unfinished last line is kept for the next look. A file that cannot be
    read has no rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode: int | None = None
        self.restarted = False
        """The last `read` found a new file: what was read before is void."""

    def read(self) -> Iterator[dict[str, Any]]:
        """The new rows, oldest first. Lines that are no JSON objects are passed over."""
        self.restarted = False
        try:
            stat = os.stat(self.path)  # noqa: PTH116  (one system call on the idle path)
        except OSError:
            self.restarted = self._inode is not None
            self._inode = None
            return
        if stat.st_ino != self._inode or stat.st_size < self._offset:
            self.restarted = self._inode is not None
            self._inode, self._offset = stat.st_ino, 0
        if stat.st_size == self._offset:
            return
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:  # another person's, not for us to read; or gone since
            return
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].splitlines():
            row = _parse(line)
            if isinstance(row, dict):
                yield row


def _parse(line: bytes) -> object:
    """The value of a line, `None` where it is no JSON. NaN is none either, but Python's `json` writes it."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if not any(word in line for word in _NON_FINITE):
            return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
