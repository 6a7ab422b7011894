"""The metrics of a run on disk: `<control folder>/metrics/`, written by its supervisor, read by anybody.

Names of a source that first came together share a file `<n>.points`. A row is appended to the files of its
names: its step, its time, and a value for each name of the file, 8 bytes each. So a column is read without
the others, and 200 series of 20,000 steps take 33 MB.

Then a line is appended to `index.jsonl`, which commits that: how many rows each file has, and the offset in
each file of the run (its origin) up to which everything is in the store. After a crash reading continues from
there, over what was appended but not committed: nothing is missed or stored twice. The first line of the
index has all that was committed before it, each other one what has changed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import struct
import uuid
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rltui.core.experiment.cursor import Cursor
from rltui.core.logs.source import LogChange
from rltui.core.metrics.series import NO_STEP, Rewind, Series, SeriesKey
from rltui.errors import RltuiError
from rltui.services.metrics.earlier_store import earlier_files, earlier_rewinds, earlier_rows
from rltui.services.metrics.store_index import FIXED, INDEX, Index, IndexFile, Table, write_at
from rltui.services.own_files import FileLock, open_own

logger = logging.getLogger(__name__)

_ID_CHARS = 8
"""Characters of the id of a store in a cursor."""
_COUNT = re.compile(r"([0-9a-f]{1,8})-([0-9a-f]{1,12})")
"""Number of a table, and of rows, in a cursor."""

_ABSENT_BITS = 0x7FF4_0072_6C74_7569
"""A NaN that no program computes: the row has no value of that name."""
_ABSENT_BYTES = struct.pack("=q", _ABSENT_BITS)
_ABSENT: float = struct.unpack("=d", _ABSENT_BYTES)[0]
_READ_BYTES = 1 << 20
"""Limit of one read of a file."""
_MOST_NAMES = 4096
"""Limit of names in one store. More is no table of metrics but names made up by the row; they are dropped."""
_MOST_PENDING = 4 << 20
"""Limit of bytes that wait for room on a full disk; more is dropped."""


def lock_of(folder: Path) -> Path:
    """Path of the lock of the process that writes the store in `folder`."""
    return folder.with_name(f"{folder.name}.lock")


class SeriesReader:
    """The series of a run, running or finished, as of the last poll. Blocking; for one thread at a time.

    Caches no values: 200 series cost a few kB until they are read.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: that of the store, which need not exist yet."""
        self._folder = folder
        self._file = IndexFile(folder)
        self._columns: dict[SeriesKey, tuple[Table, int]] = {}
        self._table_count = 0
        """Number of tables that `_columns` is made of."""
        self._read_until: dict[SeriesKey, tuple[int, int]] = {}
        """Key → number of points returned so far, and number of rows that they were in."""
        if self.poll() is LogChange.NONE and earlier_files(folder):
            with contextlib.suppress(OSError, RltuiError), FileLock(lock_of(folder)).hold():
                SeriesWriter(folder)
                self.poll()

    def poll(self) -> LogChange:
        """Compare with the last poll: one small read if nothing is new.

        After `RESET` it is another run, or the store was created again: what was read before is void.
        """
        change = self._file.poll()
        if change is LogChange.RESET:
            self._read_until.clear()
        tables = self._file.index.tables
        if change is LogChange.RESET or len(tables) != self._table_count:
            self._table_count = len(tables)
            self._columns = {
                SeriesKey(table.source, name): (table, column)
                for table in tables.values()
                for column, name in enumerate(table.names, FIXED)
            }
        return change

    @property
    def fingerprint(self) -> tuple[str, int, int]:
        """State as of the last poll: id of the store (empty: none), number of rows, number of rewinds."""
        index = self._file.index
        return index.id, sum(index.rows.values()), len(index.rewinds)

    def keys(self) -> tuple[SeriesKey, ...]:
        return tuple(sorted(self._columns))

    @property
    def cursor(self) -> Cursor:
        """The cursor after all that is there, as of the last poll."""
        index = self._file.index
        rows = (f"{number:x}-{count:x}" for number, count in sorted(index.rows.items()))
        return Cursor("metrics", ",".join([index.id[:_ID_CHARS], *rows]))

    def after(self, cursor: Cursor) -> NewPoints:
        """The points that were added after a cursor.

        Raises:
            UsageError: if it is of another store: another run's, or of before a start from the beginning.
        """
        id_, *counts = cursor.of_kind("metrics").fields.split(",")
        matches = [_COUNT.fullmatch(count) for count in counts]
        if id_ != self._file.index.id[:_ID_CHARS] or not all(matches):
            raise cursor.lost("the cursor is of other metrics, or of before a start from step 0")
        return NewPoints(self, {int(match[1], 16): int(match[2], 16) for match in matches if match})

    def read_after(self, key: SeriesKey, counts: Mapping[int, int]) -> Series:
        """The points of a series after the first rows of its table. `counts`: number of a table → of rows."""
        table, _ = self._columns[key]
        return self._read_rows(key, counts.get(table.number, 0)) or Series()

    def prepare(self, keys: Iterable[SeriesKey]) -> None:
        """Does nothing: series are read from the disk on request."""

    def rewinds(self) -> tuple[Rewind, ...]:
        return tuple(self._file.index.rewinds)

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        """The points of a series from index `start` on, in the order they were written; empty for none.

        With the number of points that earlier calls returned, only new ones are read. Points that cannot be
        read now are left to a later call.
        """
        if key not in self._columns:
            return Series()
        table, _ = self._columns[key]
        known_count, known_rows = self._read_until.get(key, (0, 0))
        first = known_rows if start == known_count else 0
        points = self._read_rows(key, first)
        if points is None:
            return Series()
        rows = self._file.index.rows.get(table.number, 0)
        self._read_until[key] = (len(points) + (known_count if first else 0), rows)
        return points if first else points.tail(start)

    def _read_rows(self, key: SeriesKey, first: int) -> Series | None:
        """The points in the rows of its table from the number `first` on; `None` if they cannot be read."""
        (table, column), points = self._columns[key], Series()
        rows = self._file.index.rows.get(table.number, 0)
        try:
            for data in _chunks(table.path(self._folder), table.row_bytes, first, rows):
                _append_column(data, FIXED + len(table.names), column, points)
        except FileNotFoundError:
            return None  # the store was replaced or removed since the last poll: the next one says so
        except OSError as error:
            logger.warning("cannot read %s: %s", table.path(self._folder), error.strerror)
            return None
        return points


class NewPoints:
    """The series of a run as if they began after so many rows of each table."""

    def __init__(self, reader: SeriesReader, counts: Mapping[int, int]) -> None:
        self._reader, self._counts = reader, counts
        self.poll, self.keys = reader.poll, reader.keys
        self.rewinds, self.prepare = reader.rewinds, reader.prepare

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        return self._reader.read_after(key, self._counts).tail(start)


def _chunks(path: Path, row_bytes: int, first: int, end: int) -> Iterator[bytes]:
    """The rows from number `first` to before `end`, in chunks."""
    at_once = max(1, _READ_BYTES // row_bytes)
    descriptor = open_own(path, os.O_RDONLY)
    try:
        for start in range(first, end, at_once):
            data = os.pread(descriptor, min(at_once, end - start) * row_bytes, start * row_bytes)
            yield data[: len(data) // row_bytes * row_bytes]
    finally:
        os.close(descriptor)


def _append_column(data: bytes, width: int, column: int, series: Series) -> None:
    fields = memoryview(data).cast("q")
    arrays = ((0, series.steps), (1, series.times), (column, series.values))
    if _ABSENT_BYTES not in (values := fields[column::width].tobytes()):
        for position, target in arrays:
            target.frombytes(fields[position::width].tobytes())
        return
    present = [index for index, bits in enumerate(array("q", values)) if bits != _ABSENT_BITS]
    for position, target in arrays:
        all_values = array(target.typecode, fields[position::width].tobytes())
        target.extend(array(target.typecode, [all_values[index] for index in present]))


class SeriesWriter:
    """Adds to the store of one run. Only its supervisor has one, and only one thread uses it at a time.

    If rows are damaged or missing, all that were read from files of the run are dropped on opening: `cursor`
    then says that those must be read again.
    """

    def __init__(self, folder: Path) -> None:
        """Open the store in `folder`; the first `flush` creates a missing one.

        Raises:
            OSError, RltuiError: if an earlier version's store, or a damaged one, cannot be replaced.
        """
        self._folder = folder
        self.problem: str | None = None
        """Reason why the last `flush` wrote nothing."""
        if not (folder / INDEX).exists() and (files := earlier_files(folder)):
            _convert(folder, files)
        self._start()
        self._drop_damaged()

    def _start(self) -> None:
        """Read what is committed."""
        self._file = IndexFile(self._folder)
        self._file.poll()
        index = self._file.index
        self._new = Index("" if index.id else uuid.uuid4().hex)
        """Entries that the next `flush` commits."""
        self._pending: dict[int, bytearray] = {}
        """Number of a table → rows that wait for `flush`."""
        self._tables: dict[int, Table] = {}
        self._number_of: dict[str, dict[str, int]] = {}
        """Source → name → number of the table that has it."""
        for table in index.tables.values():
            self._use(table)

    def _use(self, table: Table) -> None:
        self._tables[table.number] = table
        self._number_of.setdefault(table.source, {}).update(dict.fromkeys(table.names, table.number))

    def _drop_damaged(self) -> None:
        index = self._file.index
        counts = {number: self._count_rows(table) for number, table in index.tables.items()}
        if counts == index.rows:
            return
        logger.warning("%s is damaged: what the run's files say is read again", self._folder)
        intact = Index(uuid.uuid4().hex, rewinds=index.rewinds)
        for number, table in index.tables.items():
            if not table.origin and counts[number]:
                intact.tables[number], intact.rows[number] = table, counts[number]
            else:
                table.path(self._folder).unlink(missing_ok=True)
        self._file.path.unlink()
        IndexFile(self._folder).commit(intact)
        self._start()

    def _count_rows(self, table: Table) -> int:
        """Number of committed rows that are there; 0 if the last one was never written to the disk."""
        try:
            descriptor = open_own(table.path(self._folder), os.O_RDONLY)
        except OSError:
            return 0
        try:
            count = os.fstat(descriptor).st_size // table.row_bytes
            count = min(count, self._file.index.rows.get(table.number, 0))
            last_row = os.pread(descriptor, table.row_bytes, (count - 1) * table.row_bytes) if count else b""
        finally:
            os.close(descriptor)
        return count if any(last_row) else 0

    # --- what is there ------------------------------------------------------------------------------------

    def cursor(self, origin: str) -> int:
        """Offset up to which `origin` is in the store, uncommitted rows included; 0: not at all."""
        return self._new.cursors.get(origin, self._file.index.cursors.get(origin, 0))

    def origins(self) -> tuple[str, ...]:
        return tuple(self._file.index.cursors | self._new.cursors)

    def names_of(self, origin: str) -> frozenset[str]:
        """Names that came first from `origin`."""
        tables = (table.names for table in self._tables.values() if table.origin == origin)
        return frozenset().union(*tables)

    # --- what is added ------------------------------------------------------------------------------------

    def add(
        self,
        source: str,
        values: Mapping[str, float],
        *,
        at: float,
        step: int | None = None,
        origin: str = "",
        cursor: int = 0,
    ) -> None:
        """Add one row; `flush` writes it.

        `origin`: the file of the run that it is read from, `cursor`: the offset in it after the row. Cursors
        of an origin ascend. Without an origin, the row cannot be read again.
        """
        number_of = self._number_of.setdefault(source, {})
        if not values.keys() <= number_of.keys():
            self._add_table(source, values.keys() - number_of.keys(), origin)
        step = NO_STEP if step is None or step < 0 else step
        for number in {number_of[name] for name in values if name in number_of}:
            row = [values.get(name, _ABSENT) for name in self._tables[number].names]
            pending = self._pending.setdefault(number, bytearray())
            pending += struct.pack(f"=qd{len(row)}d", step, at, *row)
        if origin:
            self._new.cursors[origin] = cursor

    def _add_table(self, source: str, names: Iterable[str], origin: str) -> None:
        """A table for new names, without those beyond the limit."""
        room = _MOST_NAMES - sum(map(len, self._number_of.values()))
        if new_names := tuple(sorted(names)[: max(0, room)]):
            table = Table(max(self._tables, default=0) + 1, source, origin, new_names)
            self._new.tables[table.number] = table
            self._use(table)

    def rewind(self, step: int, at: float) -> None:
        """Record that the run continues after `step`, as the framework numbers it; later steps are void."""
        self._new.rewinds.append(Rewind(step, at))

    # --- what is written ----------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """True if so much waits that no more may be added: the disk has been full for a while."""
        return sum(map(len, self._pending.values())) > _MOST_PENDING

    def is_lost(self) -> bool:
        """True if somebody removed the store."""
        return bool(self._file.index.rows) and not self._file.path.exists()

    def flush(self) -> bool:
        """Write and commit pending rows. Returns False on failure: then `problem` is set, and they wait for
        the next call.
        """
        if not self._pending and not self._new.rewinds:
            return True
        committed, new = self._file.index, self._new
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number, data in self._pending.items():
                table, count = self._tables[number], committed.rows.get(number, 0)
                write_at(table.path(self._folder), data, count * table.row_bytes)
                new.rows[number] = count + len(data) // table.row_bytes
            self._file.commit(new)
        except (OSError, RltuiError) as error:
            self.problem = getattr(error.__cause__ or error, "strerror", None) or str(error)
            return False
        self._new, self.problem = Index(), None
        self._pending.clear()
        return True

    def begin_anew(self, archive: Path) -> None:
        """Start a new run: an existing store is moved to the folder `archive`.

        Raises:
            OSError: if it cannot be moved.
        """
        if self._folder.is_dir():
            archive.parent.mkdir(parents=True, exist_ok=True)
            self._folder.rename(archive)
        self._start()
        self.problem = None


def _convert(folder: Path, files: Iterable[Path]) -> None:
    """Replace the store of an earlier version. If this is killed, the next call starts over.

    Raises:
        OSError, RltuiError: if there is no room for it; the earlier store is still there.
    """
    unfinished = folder / "converted"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    writer = SeriesWriter(unfinished)
    for rewind in earlier_rewinds(folder):
        writer.rewind(*rewind)
    for row in earlier_rows(folder):
        writer.add(
            row.source, row.values, at=row.at, step=row.step, origin=row.origin, cursor=row.cursor
        )  # fmt: skip
        if writer.is_full and not writer.flush():
            break
    if not writer.flush():
        raise RltuiError(f"cannot convert the metrics: {writer.problem}")
    for path in sorted(unfinished.iterdir(), key=lambda path: path.name == INDEX):
        path.replace(folder / path.name)
    unfinished.rmdir()
    for path in files:
        path.unlink(missing_ok=True)
