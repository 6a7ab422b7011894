"""The metrics of a run on disk: `<control folder>/metrics/`, written by its supervisor, read by anybody.

The file `head` says how much is committed; rows that a killed writer did not commit are removed. Rows with
the same keys are stored in one segment `<n>.rows`, which starts with a line of JSON (source, origin, names),
followed by records of equal width: sequence number, cursor, step, time, then a value for every name. So a
column is read without the others, and 200 series of 20,000 steps take 35 MB.

The cursor of a record is the offset in its origin (a file of the run) up to which everything is in the store:
after a crash reading continues from there, and nothing is missed or stored twice.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import sys
import uuid
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rltui.core.log_lines import LogChange
from rltui.core.series import NO_STEP, Rewind, Series, SeriesKey
from rltui.core.text import parse_whole_number
from rltui.errors import RltuiError
from rltui.services.own_files import open_own, write_atomically

logger = logging.getLogger(__name__)

_MANIFEST = struct.Struct("=8s16sqqq")
"""The fields of `_Manifest`."""
_MAGIC = b"RLSERIE1" if sys.byteorder == "little" else b"RLSERIE2"
_FIXED = 4
"""Number of fields before the values of a record: sequence, cursor, step, time."""
_ABSENT_BITS = 0x7FF4_0072_6C74_7569
_ABSENT_BYTES = struct.pack("=q", _ABSENT_BITS)
_ABSENT: float = struct.unpack("=d", _ABSENT_BYTES)[0]
"""A NaN that no program computes: this record has no value of that name."""
_READ_BYTES = 1 << 20
"""Limit of one read of a segment."""
_LONGEST_HEADER = 1 << 20
_MOST_NAMES = 4096
"""Limit of names in one store. More is no table of metrics but names made up by the row; they are dropped."""
_COMMON_SHARE = 0.5
"""Smallest share of common names, of the row and of the segment, for a row to go into a segment."""
_MOST_PENDING = 4 << 20
"""Limit of bytes that wait for room on a full disk; more is dropped."""


class _Layout(NamedTuple):
    """The columns of a segment."""

    source: str
    origin: str
    names: tuple[str, ...]


@dataclass(slots=True)
class _Segment:
    """A file of records of equal width."""

    path: Path
    layout: _Layout
    start: int
    """Offset of the first record."""

    @property
    def width(self) -> int:
        return _FIXED + len(self.layout.names)

    @property
    def record_bytes(self) -> int:
        return 8 * self.width


def _open_segment(path: Path) -> _Segment | None:
    """`None` if the file is no segment, or damaged."""
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            line = file.readline(_LONGEST_HEADER)
        header = json.loads(line)
        layout = _Layout(header["source"], header["origin"], tuple(header["names"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not line.endswith(b"\n") or not all(isinstance(text, str) for text in (*layout[:2], *layout.names)):
        return None
    return _Segment(path, layout, len(line))


def _header(layout: _Layout) -> bytes:
    """A line whose length is a multiple of 8."""
    line = json.dumps({"source": layout.source, "origin": layout.origin, "names": layout.names}).encode()
    return line + b" " * (-(len(line) + 1) % 8) + b"\n"


def _segment_files(folder: Path) -> list[tuple[int, Path]]:
    """Number and path of the segments, ascending."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - ten times a minute
    except OSError:
        return []
    files = (
        (parse_whole_number(name.removesuffix(".rows")), folder / name)
        for name in names
        if name.endswith(".rows")
    )
    return sorted((number, path) for number, path in files if number is not None)


class _Manifest(NamedTuple):
    """The content of the file `head`."""

    mark: bytes
    id: bytes
    """Changes when earlier content becomes void."""
    next: int
    """Number of the next record."""
    given_up: int
    """Number of earlier records that do not exist any more."""
    rewinds: int
    """Number of rewinds, which changes with a new one."""


def _read_manifest(folder: Path) -> _Manifest | None:
    try:
        descriptor = open_own(folder / "head", os.O_RDONLY)
    except OSError:
        return None
    try:
        data = os.pread(descriptor, _MANIFEST.size, 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if len(data) != _MANIFEST.size:
        return None
    manifest = _Manifest(*_MANIFEST.unpack(data))
    return manifest if manifest.mark == _MAGIC and 0 <= manifest.given_up <= manifest.next else None


def _records_below(descriptor: int, segment: _Segment, limit: int) -> int:
    """Number of complete records with a sequence number below `limit`; sequence numbers ascend."""
    count = max(0, os.fstat(descriptor).st_size - segment.start) // segment.record_bytes
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _sequence_at(descriptor, segment, middle) < limit:
            low = middle + 1
        else:
            high = middle
    return low


def _sequence_at(descriptor: int, segment: _Segment, index: int) -> int:
    data = os.pread(descriptor, 8, segment.start + index * segment.record_bytes)
    return int.from_bytes(data, sys.byteorder, signed=True)


def _rewinds_in(folder: Path) -> list[Rewind]:
    try:
        with os.fdopen(open_own(folder / "rewinds.jsonl", os.O_RDONLY), "rb") as file:
            lines = file.read(_LONGEST_HEADER).splitlines()
    except OSError:
        return []
    rewinds = []
    for line in lines:
        try:
            document = json.loads(line)
            rewinds.append(Rewind(int(document["step"]), float(document["at"])))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue  # the end of one that was not finished
    return rewinds


class SeriesReader:
    """The series of a run, running or finished, as of the last poll. Blocking; for one thread at a time.

    Caches no values: 200 series cost a few kB until they are read.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: that of the store, which need not exist yet."""
        self._folder = folder
        self._manifest: _Manifest | None = None
        self._segments: dict[Path, _Segment] = {}
        self._columns_of: dict[SeriesKey, list[tuple[_Segment, int]]] = {}
        """Key → segments that have it, and its column."""
        self._read_until: dict[SeriesKey, tuple[int, int]] = {}
        """Key → number of points returned so far, and the committed end by then."""
        self._rewinds: tuple[Rewind, ...] = ()
        self.poll()

    def poll(self) -> LogChange:
        """Compare with the last poll: one small read if nothing is new.

        After `RESET` it is another run, or the store was created again: what was read before is void.
        """
        manifest = _read_manifest(self._folder)
        if manifest == self._manifest:
            return LogChange.NONE
        before, self._manifest = self._manifest, manifest
        is_other = before is None or manifest is None or manifest.id != before.id
        if is_other:
            self._segments, self._columns_of, self._read_until = {}, {}, {}
        for _, path in _segment_files(self._folder):
            if path not in self._segments and (segment := _open_segment(path)) is not None:
                self._segments[path] = segment
                for column, name in enumerate(segment.layout.names, _FIXED):
                    key = SeriesKey(segment.layout.source, name)
                    self._columns_of.setdefault(key, []).append((segment, column))
        self._rewinds = tuple(_rewinds_in(self._folder))
        return LogChange.RESET if is_other else LogChange.GREW

    @property
    def fingerprint(self) -> tuple[str, int, int]:
        """State as of the last poll: id of the store (empty: none), number of records, number of rewinds."""
        return (
            ("", 0, 0)
            if self._manifest is None
            else (self._manifest.id.hex(), self._manifest.next, self._manifest.rewinds)
        )

    def keys(self) -> tuple[SeriesKey, ...]:
        return tuple(sorted(self._columns_of))

    def prepare(self, keys: Iterable[SeriesKey]) -> None:
        """Does nothing: series are read from the disk on request."""

    def rewinds(self) -> tuple[Rewind, ...]:
        return self._rewinds

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        """The points of a series from index `start` on, in the order they were written; empty for none.

        With the number of points that earlier calls returned, only new ones are read.
        """
        end = 0 if self._manifest is None else self._manifest.next
        known_count, known_end = self._read_until.get(key, (0, 0))
        after = known_end if start and start == known_count else 0
        points = self._points(key, after, end)
        self._read_until[key] = (len(points) + (known_count if after else 0), end)
        return points.tail(start) if start and not after else points

    def _points(self, key: SeriesKey, after: int, end: int) -> Series:
        """Points of the records with numbers from `after` to below `end`."""
        columns = [
            _column(segment, column_index, after, end)
            for segment, column_index in self._columns_of.get(key, ())
        ]
        columns = [column for column in columns if column[0]]
        columns.sort(key=lambda column: column[0][0])
        if all(earlier[0][-1] < later[0][0] for earlier, later in pairwise(columns)):
            series = Series()
            for _, points in columns:
                series.extend(points)
            return series
        rows = sorted(
            (number, index, column_number)
            for column_number, (numbers, _) in enumerate(columns)
            for index, number in enumerate(numbers)
        )
        merged = Series()
        for _, index, column_number in rows:
            points = columns[column_number][1]
            merged.add(points.steps[index], points.times[index], points.values[index])
        return merged


def _column(segment: _Segment, column: int, after: int, end: int) -> tuple[array[int], Series]:
    """Sequence numbers and points of one name in one segment."""
    numbers, series = array("q"), Series()
    try:
        descriptor = open_own(segment.path, os.O_RDONLY)
    except OSError:  # replaced this moment: the next poll says so
        return numbers, series
    try:
        first = _records_below(descriptor, segment, after) if after else 0
        count = _records_below(descriptor, segment, end) - first
        for data in _chunks(descriptor, segment, first, count):
            _append_column(data, segment.width, column, numbers, series)
    except OSError as error:
        logger.warning("cannot read %s: %s", segment.path, error.strerror)
    finally:
        os.close(descriptor)
    return numbers, series


def _chunks(descriptor: int, segment: _Segment, first: int, count: int) -> Iterator[bytes]:
    """`count` records from number `first` on, in chunks."""
    size = segment.record_bytes
    at_once = max(1, _READ_BYTES // size)
    for begin in range(first, first + count, at_once):
        records = min(at_once, first + count - begin)
        data = os.pread(descriptor, records * size, segment.start + begin * size)
        yield data[: len(data) // size * size]


def _append_column(data: bytes, width: int, column: int, numbers: array[int], series: Series) -> None:
    fields = memoryview(data).cast("q")

    def column_bytes(position: int) -> bytes:
        return fields[position::width].tobytes()

    values = column_bytes(column)
    if _ABSENT_BYTES not in values:
        numbers.frombytes(column_bytes(0))
        series.steps.frombytes(column_bytes(2))
        series.times.frombytes(column_bytes(3))
        series.values.frombytes(values)
        return
    bits_of_values = array("q", values)
    present = [index for index, bits in enumerate(bits_of_values) if bits != _ABSENT_BITS]
    for position, target in ((0, numbers), (2, series.steps), (3, series.times), (column, series.values)):
        all_values = array(target.typecode, column_bytes(position))
        target.extend(array(target.typecode, [all_values[index] for index in present]))


@dataclass(slots=True)
class _OpenSegment:
    segment: _Segment
    columns: frozenset[str]
    size: int
    """Committed bytes; 0: the file does not exist yet."""
    pending: bytearray = field(default_factory=bytearray)


class SeriesWriter:
    """Adds to the store of one run. Only its supervisor has one, and only one thread uses it at a time.

    Damaged or missing records are dropped on opening: `cursor` then says from where the files of the run must
    be read again.
    """

    def __init__(self, folder: Path) -> None:
        """Open the store in `folder`; the first `flush` creates a missing one."""
        self._folder = folder
        self._open: dict[str, list[_OpenSegment]] = {}
        """Source and origin → open segments."""
        self._cursors: dict[str, int] = {}
        """Origin → cursor of what is committed."""
        self._pending_cursors: dict[str, int] = {}
        """Origin → cursor of what is pending."""
        self._rewinds: list[Rewind] = []
        self._names: dict[str, set[str]] = {}
        """Source → names of its series."""
        self._is_rewound = False
        """True if there are rewinds that are not written."""
        self._next_file = 1
        self.problem: str | None = None
        """Reason why the last `flush` wrote nothing."""
        self._manifest = self._recover()
        self._next = self._manifest.next

    # --- what is there ------------------------------------------------------------------------------------

    def _recover(self) -> _Manifest:
        """Read what is committed, and remove what is not."""
        manifest = _read_manifest(self._folder)
        files = _segment_files(self._folder)
        self._next_file = files[-1][0] + 1 if files else 1
        if manifest is None:
            for _, path in files:
                path.unlink(missing_ok=True)
            return _Manifest(_MAGIC, uuid.uuid4().bytes, 0, 0, 0)
        segments, record_count, is_damaged = [], 0, False
        for _, path in files:
            segment = _open_segment(path)
            if segment is None:
                is_damaged = True
                path.unlink(missing_ok=True)
                continue
            count, last = self._truncate(segment, manifest.next)
            if count < 0:
                is_damaged = True
                path.unlink()
                continue
            record_count += count
            segments.append((segment, count, last))
        if is_damaged or record_count != manifest.next - manifest.given_up:
            logger.warning("%s is damaged: what the run's files say is read again", self._folder)
            damaged = [item for item in segments if item[0].layout.origin]
            segments = [item for item in segments if not item[0].layout.origin]
            for segment, _, _ in damaged:
                segment.path.unlink(missing_ok=True)
            manifest = manifest._replace(
                given_up=manifest.next - sum(count for _, count, _ in segments), id=uuid.uuid4().bytes
            )
            self._write_manifest(manifest)
        for segment, count, last in segments:
            if not count:
                segment.path.unlink(missing_ok=True)
                continue
            layout = segment.layout
            self._cursors[layout.origin] = max(last, self._cursors.get(layout.origin, 0))
            self._register(segment, segment.start + count * segment.record_bytes)
        self._rewinds = _rewinds_in(self._folder)
        return manifest

    @staticmethod
    def _truncate(segment: _Segment, end: int) -> tuple[int, int]:
        """Remove what is not committed. Returns the number of remaining records and the last cursor.

        A negative number: the last record is invalid.
        """
        descriptor = open_own(segment.path, os.O_RDWR)
        try:
            count = _records_below(descriptor, segment, end)
            if count and not count - 1 <= _sequence_at(descriptor, segment, count - 1) < end:
                return -1, 0
            os.ftruncate(descriptor, segment.start + count * segment.record_bytes)
            offset = segment.start + (count - 1) * segment.record_bytes + 8
            data = os.pread(descriptor, 8, offset) if count else b""
        finally:
            os.close(descriptor)
        return count, int.from_bytes(data, sys.byteorder, signed=True)

    def _register(self, segment: _Segment, size: int) -> _OpenSegment:
        layout = segment.layout
        entry = _OpenSegment(segment, frozenset(layout.names), size)
        self._open.setdefault(f"{layout.source}\n{layout.origin}", []).append(entry)
        self._names.setdefault(layout.source, set()).update(layout.names)
        return entry

    def cursor(self, origin: str) -> int:
        """Offset up to which `origin` is in the store, uncommitted rows included; 0: not at all."""
        return self._pending_cursors.get(origin, self._cursors.get(origin, 0))

    def origins(self) -> tuple[str, ...]:
        return tuple(origin for origin in {**self._cursors, **self._pending_cursors} if origin)

    def names_of(self, origin: str) -> frozenset[str]:
        entries = (entry for group in self._open.values() for entry in group)
        return frozenset().union(
            *(entry.columns for entry in entries if entry.segment.layout.origin == origin)
        )

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
        remaining = self._accepted(source, values)
        number = NO_STEP if step is None or step < 0 else step
        while remaining:
            entry = self._best_segment(source, origin, remaining)
            names = entry.segment.layout.names
            record = [remaining.get(name, _ABSENT) for name in names]
            entry.pending += struct.pack(f"=qqqd{len(names)}d", self._next, cursor, number, at, *record)
            self._next += 1
            if remaining.keys() <= entry.columns:
                break
            remaining = {name: value for name, value in remaining.items() if name not in entry.columns}
        if origin:
            self._pending_cursors[origin] = cursor

    def _accepted(self, source: str, values: Mapping[str, float]) -> Mapping[str, float]:
        """Drop names beyond the limit."""
        names = self._names.setdefault(source, set())
        if values.keys() <= names:
            return values
        room = _MOST_NAMES - sum(map(len, self._names.values()))
        names.update([name for name in values if name not in names][: max(0, room)])
        return {name: value for name, value in values.items() if name in names}

    def _best_segment(self, source: str, origin: str, values: Mapping[str, float]) -> _OpenSegment:
        """The segment with the most of these names and few others, or a new one."""
        entries = self._open.get(f"{source}\n{origin}", [])
        best, best_share = None, 0.0
        for entry in entries:
            common = len(entry.columns & values.keys())
            share = common / len(entry.columns)
            if share > best_share and share >= _COMMON_SHARE and common >= _COMMON_SHARE * len(values):
                best, best_share = entry, share
        if best is None:
            path = self._folder / f"{self._next_file}.rows"
            self._next_file += 1
            layout = _Layout(source, origin, tuple(sorted(values)))
            best = self._register(_Segment(path, layout, len(_header(layout))), 0)
        return best

    def rewind(self, step: int, at: float) -> None:
        """Record that the run continues after `step`, as the framework numbers it; later steps are void."""
        self._rewinds.append(Rewind(step, at))
        self._is_rewound = True

    def rewinds(self) -> tuple[Rewind, ...]:
        """The recorded rewinds, oldest first."""
        return tuple(self._rewinds)

    # --- what is written ----------------------------------------------------------------------------------

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for `flush`."""
        return sum(len(entry.pending) for entries in self._open.values() for entry in entries)

    @property
    def is_full(self) -> bool:
        """True if so much waits that no more may be added: the disk has been full for a while."""
        return self.pending_bytes > _MOST_PENDING

    def is_lost(self) -> bool:
        """True if somebody removed the store."""
        return self._manifest.next > 0 and not (self._folder / "head").exists()

    def flush(self) -> bool:
        """Write and commit pending rows. Returns False on failure: then `problem` is set, and they wait for
        the next call.
        """
        entries = [entry for group in self._open.values() for entry in group if entry.pending]
        if not entries and not self._is_rewound:
            return True
        manifest = self._manifest._replace(next=self._next)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for entry in entries:
                # behind what is committed, over what an unfinished flush left there
                segment = entry.segment
                descriptor = open_own(segment.path, os.O_WRONLY | os.O_CREAT)
                try:
                    if not entry.size:
                        _write_all(descriptor, _header(segment.layout), 0)
                    _write_all(descriptor, entry.pending, max(entry.size, segment.start))
                finally:
                    os.close(descriptor)
            if self._is_rewound:
                lines = "".join(json.dumps(rewind._asdict()) + "\n" for rewind in self._rewinds)
                write_atomically(self._folder / "rewinds.jsonl", lines.encode())
                manifest = manifest._replace(rewinds=len(self._rewinds))
            self._write_manifest(manifest)
        except (OSError, RltuiError) as error:
            self.problem = getattr(error, "strerror", None) or str(error)
            return False
        self._manifest, self._is_rewound = manifest, False
        for entry in entries:
            entry.size = max(entry.size, entry.segment.start) + len(entry.pending)
            entry.pending.clear()
        self._cursors.update(self._pending_cursors)
        self._pending_cursors.clear()
        self.problem = None
        return True

    def _write_manifest(self, manifest: _Manifest) -> None:
        descriptor = open_own(self._folder / "head", os.O_WRONLY | os.O_CREAT)
        try:
            _write_all(descriptor, _MANIFEST.pack(*manifest), 0)
        finally:
            os.close(descriptor)

    def begin_anew(self, archive: Path) -> None:
        """Start a new run: an existing store is moved to the folder `archive`.

        Raises:
            OSError: if it cannot be moved.
        """
        if self._folder.is_dir():
            archive.parent.mkdir(parents=True, exist_ok=True)
            self._folder.rename(archive)
        self._open, self._cursors, self._pending_cursors, self._rewinds, self._names = {}, {}, {}, [], {}
        self._next_file, self._next, self.problem, self._is_rewound = 1, 0, None, False
        self._manifest = _Manifest(_MAGIC, uuid.uuid4().bytes, 0, 0, 0)


def _write_all(descriptor: int, data: bytes | bytearray, offset: int) -> None:
    """Raises OSError if there is not enough room."""
    remaining: Sequence[int] | memoryview = memoryview(data)
    while remaining:
        length = os.pwrite(descriptor, bytes(remaining), offset)
        remaining, offset = remaining[length:], offset + length
