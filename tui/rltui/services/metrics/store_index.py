"""The index of a store of series, `index.jsonl`: each commit appends a line."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rltui.core.logs.source import LogChange
from rltui.core.metrics.series import Rewind
from rltui.services.own_files import open_own, write_atomically

INDEX = "index.jsonl"
FIXED = 2
"""Number of fields before the values of a row: step, time."""
_START_BYTES = 64
_MOST_LINES = 4096
"""Limit of the lines of an index: then one line says it all again."""


class Table(NamedTuple):
    """A file of rows of equal width."""

    number: int
    source: str
    origin: str
    """The file of the run that its first row was read from; empty for what cannot be read again."""
    names: tuple[str, ...]

    @property
    def row_bytes(self) -> int:
        return 8 * (FIXED + len(self.names))

    def path(self, folder: Path) -> Path:
        return folder / f"{self.number}.points"


@dataclass(slots=True)
class Index:
    """The committed content of a store, or the part that one line of the index adds."""

    id: str = ""
    """Changes when earlier content becomes void; empty where there is no store."""
    tables: dict[int, Table] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    """Number of a table → its number of rows."""
    cursors: dict[str, int] = field(default_factory=dict)
    """Origin → offset up to which it is in the store."""
    rewinds: list[Rewind] = field(default_factory=list)

    def encode(self, token: str = "") -> bytes:
        """`token`: that of a first line, which no other one has."""
        parts = {
            "token": token,
            "id": self.id,
            "tables": [*self.tables.values()],
            "rows": self.rows,
            "cursors": self.cursors,
            "rewinds": self.rewinds,
        }
        return json.dumps({name: part for name, part in parts.items() if part}).encode() + b"\n"

    def add_line(self, line: bytes) -> None:
        """Raises ValueError for one that is not written completely."""
        try:
            parts = json.loads(line)
            tables = {
                int(number): Table(int(number), str(source), str(origin), tuple(map(str, names)))
                for number, source, origin, names in parts.get("tables", ())
            }
            rows = {int(number): int(count) for number, count in parts.get("rows", {}).items()}
            cursors = {origin: int(cursor) for origin, cursor in parts.get("cursors", {}).items()}
            rewinds = [Rewind(int(step), float(at)) for step, at in parts.get("rewinds", ())]
            self.add(Index(str(parts.get("id", "")), tables, rows, cursors, rewinds))
        except (TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(line) from error

    def add(self, later: Index) -> None:
        self.id = later.id or self.id
        self.tables |= later.tables
        self.rows |= later.rows
        self.cursors |= later.cursors
        self.rewinds += later.rewinds


class IndexFile:
    """The index on disk, as of the last poll or write."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / INDEX
        self._restart(b"")

    def _restart(self, start: bytes) -> None:
        self.index = Index()
        self._start = start
        """The beginning of the file, by which it is told from another."""
        self._size = self._lines = 0
        """Bytes and lines that are in `index`."""

    def poll(self) -> LogChange:
        """Read the lines that are new. After `RESET` it is another store, or none."""
        id_, before = self.index.id, (self._start, self._size)
        try:
            descriptor = open_own(self.path, os.O_RDONLY)
            try:
                start = os.pread(descriptor, _START_BYTES, 0)
                if start != self._start:
                    self._restart(start)
                data = os.pread(descriptor, os.fstat(descriptor).st_size - self._size, self._size)
            finally:
                os.close(descriptor)
        except OSError:
            data = b""
            self._restart(b"")
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            try:
                self.index.add_line(line)
            except ValueError:
                break
            self._size += len(line)
            self._lines += 1
        if self.index.id != id_:
            return LogChange.RESET
        return LogChange.GREW if (self._start, self._size) != before else LogChange.NONE

    def commit(self, new: Index) -> None:
        """Add what is new. Raises OSError or RltuiError if there is not enough room."""
        line = new.encode()
        if 0 < self._lines < _MOST_LINES:
            write_at(self.path, line, self._size)
            self.index.add(new)
            self._size += len(line)
            self._lines += 1
            return
        all_of_it = Index()
        all_of_it.add(self.index)
        all_of_it.add(new)
        line = all_of_it.encode(uuid.uuid4().hex)
        write_atomically(self.path, line)
        self.index, self._start, self._size, self._lines = all_of_it, line[:_START_BYTES], len(line), 1


def write_at(path: Path, data: bytes | bytearray, offset: int) -> None:
    """Write over what an unfinished flush left there.

    Raises:
        OSError: if there is not enough room.
    """
    descriptor = open_own(path, os.O_WRONLY | os.O_CREAT)
    try:
        remaining = memoryview(data)
        while remaining:
            length = os.pwrite(descriptor, bytes(remaining), offset)
            remaining, offset = remaining[length:], offset + length
    finally:
        os.close(descriptor)
