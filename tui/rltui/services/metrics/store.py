"""The metrics of a run on disk: `<control folder>/metrics/`, written by its supervisor, read by anybody.

`head` says how much is committed; a row that a killed writer did not commit is taken back. Rows with the same
keys lie together in a segment `<n>.rows`, which begins with a line of JSON (source, origin, names) and goes
on with records of one width: sequence number, cursor, step, time, then a value for every name. So a column
is read without looking at the others, and 200 series of 20,000 steps take 35 MB.

The cursor of a record is the place in its origin (a file of the run) up to which everything is in the store:
whoever goes on after a crash reads on from there, and nothing is missed or taken twice.
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

from rltui.core.lines import LogChange
from rltui.core.series import NO_STEP, Rewind, Series, SeriesKey
from rltui.core.text import whole_number
from rltui.errors import RltuiError
from rltui.services.own_files import open_own, write_atomically

logger = logging.getLogger(__name__)

_HEAD = struct.Struct("=8s16sqqq")
"""The fields of `_Manifest`."""
_MARK = b"RLSERIE1" if sys.byteorder == "little" else b"RLSERIE2"
_FIXED = 4
"""Numbers before the values of a record: sequence, cursor, step, time."""
_ABSENT_BITS = 0x7FF4_0072_6C74_7569
_ABSENT_BYTES = struct.pack("=q", _ABSENT_BITS)
_ABSENT: float = struct.unpack("=d", _ABSENT_BYTES)[0]
"""A NaN that no program computes: this record says nothing of that name."""
_READ_BYTES = 1 << 20
"""Read of a segment at a time."""
_LONGEST_HEADER = 1 << 20
_MOST_NAMES = 4096
"""Of one store. More is no table of metrics but names made up by the row; they are left out."""
_USUAL_SHARE = 0.5
"""A row goes into a segment with whose names it has so many in common, of its own and of the segment's."""
_MOST_PENDING = 4 << 20
"""Bytes that wait for room on a full disk; more is not taken."""


class _Layout(NamedTuple):
    """What a segment is a table of."""

    source: str
    origin: str
    names: tuple[str, ...]


@dataclass(slots=True)
class _Segment:
    """A file of records of one width."""

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
    """`None` where the file is none, or damaged."""
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            line = file.readline(_LONGEST_HEADER)
        said = json.loads(line)
        layout = _Layout(said["source"], said["origin"], tuple(said["names"]))
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
    """Number and path, ascending."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - ten times a minute
    except OSError:
        return []
    files = (
        (whole_number(name.removesuffix(".rows")), folder / name) for name in names if name.endswith(".rows")
    )
    return sorted((number, path) for number, path in files if number is not None)


class _Manifest(NamedTuple):
    """As in the file `head`."""

    mark: bytes
    id: bytes
    """Another one: what was read before is void."""
    next: int
    """Number of the next record."""
    given_up: int
    """How many of those before are not there any more."""
    rewinds: int
    """How many there are: changes when there is a new one."""


def _read_head(folder: Path) -> _Manifest | None:
    try:
        descriptor = open_own(folder / "head", os.O_RDONLY)
    except OSError:
        return None
    try:
        data = os.pread(descriptor, _HEAD.size, 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if len(data) != _HEAD.size:
        return None
    head = _Manifest(*_HEAD.unpack(data))
    return head if head.mark == _MARK and 0 <= head.given_up <= head.next else None


def _records_below(descriptor: int, segment: _Segment, limit: int) -> int:
    """How many whole records have a sequence number below `limit`; those numbers ascend."""
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
    found = []
    for line in lines:
        try:
            said = json.loads(line)
            found.append(Rewind(int(said["step"]), float(said["at"])))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue  # the end of one that was not finished
    return found


class SeriesReader:
    """The series of a run, living or ended, as of the last `look`. Blocking; for one thread at a time.

    Holds no values: 200 series cost a few kB until they are read.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: that of the store; it need not be there yet."""
        self._folder = folder
        self._head: _Manifest | None = None
        self._segments: dict[Path, _Segment] = {}
        self._of_key: dict[SeriesKey, list[tuple[_Segment, int]]] = {}
        """Segments that have it, and its column."""
        self._seen: dict[SeriesKey, tuple[int, int]] = {}
        """Points that were given out, and the committed end by then."""
        self._rewinds: tuple[Rewind, ...] = ()
        self.look()

    def look(self) -> LogChange:
        """Compare with the last look: one small read where nothing is new.

        After `RESET` it is another run, or the store was made anew: what was read before is void.
        """
        head = _read_head(self._folder)
        if head == self._head:
            return LogChange.NONE
        before, self._head = self._head, head
        is_other = before is None or head is None or head.id != before.id
        if is_other:
            self._segments, self._of_key, self._seen = {}, {}, {}
        for _, path in _segment_files(self._folder):
            if path not in self._segments and (segment := _open_segment(path)) is not None:
                self._segments[path] = segment
                for column, name in enumerate(segment.layout.names, _FIXED):
                    key = SeriesKey(segment.layout.source, name)
                    self._of_key.setdefault(key, []).append((segment, column))
        self._rewinds = tuple(_rewinds_in(self._folder))
        return LogChange.RESET if is_other else LogChange.GREW

    @property
    def stamp(self) -> tuple[str, int, int]:
        """As of the last look: which store it is (empty: none), how much is in it, how often it went back."""
        return (
            ("", 0, 0) if self._head is None else (self._head.id.hex(), self._head.next, self._head.rewinds)
        )

    def keys(self) -> tuple[SeriesKey, ...]:
        return tuple(sorted(self._of_key))

    def prepare(self, keys: Iterable[SeriesKey]) -> None:
        """They are read from the disk when they are asked for."""

    def rewinds(self) -> tuple[Rewind, ...]:
        return self._rewinds

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        """The points of a series from index `start` on, in the order they were written; empty for none.

        With the number of points that earlier calls gave, only what is new is read.
        """
        end = 0 if self._head is None else self._head.next
        given, seen = self._seen.get(key, (0, 0))
        after = seen if start and start == given else 0
        found = self._points(key, after, end)
        self._seen[key] = (len(found) + (given if after else 0), end)
        return found.tail(start) if start and not after else found

    def _points(self, key: SeriesKey, after: int, end: int) -> Series:
        """Of the records with numbers from `after` to below `end`."""
        parts = [_column(segment, column, after, end) for segment, column in self._of_key.get(key, ())]
        parts = [part for part in parts if part[0]]
        parts.sort(key=lambda part: part[0][0])
        if all(one[0][-1] < other[0][0] for one, other in pairwise(parts)):
            joined = Series()
            for _, points in parts:
                joined.extend(points)
            return joined
        rows = sorted(
            (number, index, part)
            for part, (numbers, _) in enumerate(parts)
            for index, number in enumerate(numbers)
        )
        merged = Series()
        for _, index, part in rows:
            points = parts[part][1]
            merged.add(points.steps[index], points.times[index], points.values[index])
        return merged


def _column(segment: _Segment, column: int, after: int, end: int) -> tuple[array[int], Series]:
    """Sequence numbers and points of one name in one segment."""
    numbers, series = array("q"), Series()
    try:
        descriptor = open_own(segment.path, os.O_RDONLY)
    except OSError:  # made anew this moment: the next look says so
        return numbers, series
    try:
        first = _records_below(descriptor, segment, after) if after else 0
        count = _records_below(descriptor, segment, end) - first
        for data in _chunks(descriptor, segment, first, count):
            _take(data, segment.width, column, numbers, series)
    except OSError as error:
        logger.warning("cannot read %s: %s", segment.path, error.strerror)
    finally:
        os.close(descriptor)
    return numbers, series


def _chunks(descriptor: int, segment: _Segment, first: int, count: int) -> Iterator[bytes]:
    """`count` records from number `first` on, some at a time."""
    size = segment.record_bytes
    at_once = max(1, _READ_BYTES // size)
    for begin in range(first, first + count, at_once):
        wanted = min(at_once, first + count - begin)
        data = os.pread(descriptor, wanted * size, segment.start + begin * size)
        yield data[: len(data) // size * size]


def _take(data: bytes, width: int, column: int, numbers: array[int], series: Series) -> None:
    whole = memoryview(data).cast("q")

    def taken(place: int) -> bytes:
        return whole[place::width].tobytes()

    values = taken(column)
    if _ABSENT_BYTES not in values:
        numbers.frombytes(taken(0))
        series.steps.frombytes(taken(2))
        series.times.frombytes(taken(3))
        series.values.frombytes(values)
        return
    said = array("q", values)
    there = [index for index, bits in enumerate(said) if bits != _ABSENT_BITS]
    for place, target in ((0, numbers), (2, series.steps), (3, series.times), (column, series.values)):
        every = array(target.typecode, taken(place))
        target.extend(array(target.typecode, [every[index] for index in there]))


@dataclass(slots=True)
class _Open:
    segment: _Segment
    columns: frozenset[str]
    size: int
    """Bytes of it that are committed; 0: the file is still to be made."""
    pending: bytearray = field(default_factory=bytearray)


class SeriesWriter:
    """Adds to the store of one run. Only its supervisor has one, and only one thread uses it at a time.

    What was damaged or is missing is left out from the beginning on: `cursor` then says from where the files
    of the run must be read again.
    """

    def __init__(self, folder: Path) -> None:
        """Opens the store in `folder`, or makes one with the first `flush`."""
        self._folder = folder
        self._open: dict[str, list[_Open]] = {}
        """By source and origin."""
        self._cursors: dict[str, int] = {}
        """By origin, of what is committed."""
        self._added: dict[str, int] = {}
        """By origin, of what is pending."""
        self._rewinds: list[Rewind] = []
        self._names: dict[str, set[str]] = {}
        """By source, those that it has."""
        self._is_rewound = False
        """There are such that are not written."""
        self._next_file = 1
        self.problem: str | None = None
        """Why the last `flush` wrote nothing, in words."""
        self._head = self._recovered()
        self._next = self._head.next

    # --- what is there ------------------------------------------------------------------------------------

    def _recovered(self) -> _Manifest:
        """Take over what is committed, and take back what is not."""
        head = _read_head(self._folder)
        files = _segment_files(self._folder)
        self._next_file = files[-1][0] + 1 if files else 1
        if head is None:
            for _, path in files:
                path.unlink(missing_ok=True)
            return _Manifest(_MARK, uuid.uuid4().bytes, 0, 0, 0)
        found, counted, is_damaged = [], 0, False
        for _, path in files:
            segment = _open_segment(path)
            if segment is None:
                is_damaged = True
                path.unlink(missing_ok=True)
                continue
            kept, last = self._cut(segment, head.next)
            if kept < 0:
                is_damaged = True
                path.unlink()
                continue
            counted += kept
            found.append((segment, kept, last))
        if is_damaged or counted != head.next - head.given_up:
            logger.warning("%s is damaged: what the run's files say is read again", self._folder)
            lost = [item for item in found if item[0].layout.origin]
            found = [item for item in found if not item[0].layout.origin]
            for segment, _, _ in lost:
                segment.path.unlink(missing_ok=True)
            head = head._replace(
                given_up=head.next - sum(kept for _, kept, _ in found), id=uuid.uuid4().bytes
            )
            self._write_head(head)
        for segment, kept, last in found:
            if not kept:
                segment.path.unlink(missing_ok=True)
                continue
            layout = segment.layout
            self._cursors[layout.origin] = max(last, self._cursors.get(layout.origin, 0))
            self._enter(segment, segment.start + kept * segment.record_bytes)
        self._rewinds = _rewinds_in(self._folder)
        return head

    @staticmethod
    def _cut(segment: _Segment, end: int) -> tuple[int, int]:
        """Take back what is not committed. Returns the records that are left and the cursor of the last.

        A negative number of records: the last one is none.
        """
        descriptor = open_own(segment.path, os.O_RDWR)
        try:
            kept = _records_below(descriptor, segment, end)
            if kept and not kept - 1 <= _sequence_at(descriptor, segment, kept - 1) < end:
                return -1, 0
            os.ftruncate(descriptor, segment.start + kept * segment.record_bytes)
            at = segment.start + (kept - 1) * segment.record_bytes + 8
            data = os.pread(descriptor, 8, at) if kept else b""
        finally:
            os.close(descriptor)
        return kept, int.from_bytes(data, sys.byteorder, signed=True)

    def _enter(self, segment: _Segment, size: int) -> _Open:
        layout = segment.layout
        entry = _Open(segment, frozenset(layout.names), size)
        self._open.setdefault(f"{layout.source}\n{layout.origin}", []).append(entry)
        self._names.setdefault(layout.source, set()).update(layout.names)
        return entry

    def cursor(self, origin: str) -> int:
        """Up to where `origin` is in the store, uncommitted rows included; 0: not at all."""
        return self._added.get(origin, self._cursors.get(origin, 0))

    def origins(self) -> tuple[str, ...]:
        return tuple(origin for origin in {**self._cursors, **self._added} if origin)

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
        """Take in one row; `flush` writes it.

        `origin`: the file of the run that it is read from, `cursor`: the place in it behind the row. Cursors
        of an origin ascend. Without an origin, nobody can read the row again.
        """
        left = self._known(source, values)
        number = NO_STEP if step is None or step < 0 else step
        while left:
            entry = self._best(source, origin, left)
            names = entry.segment.layout.names
            record = [left.get(name, _ABSENT) for name in names]
            entry.pending += struct.pack(f"=qqqd{len(names)}d", self._next, cursor, number, at, *record)
            self._next += 1
            if left.keys() <= entry.columns:
                break
            left = {name: value for name, value in left.items() if name not in entry.columns}
        if origin:
            self._added[origin] = cursor

    def _known(self, source: str, values: Mapping[str, float]) -> Mapping[str, float]:
        """Without the names that are too many."""
        names = self._names.setdefault(source, set())
        if values.keys() <= names:
            return values
        room = _MOST_NAMES - sum(map(len, self._names.values()))
        names.update([name for name in values if name not in names][: max(0, room)])
        return {name: value for name, value in values.items() if name in names}

    def _best(self, source: str, origin: str, values: Mapping[str, float]) -> _Open:
        """The segment that has the most of these names and little else, or a new one."""
        entries = self._open.get(f"{source}\n{origin}", [])
        best, best_share = None, 0.0
        for entry in entries:
            common = len(entry.columns & values.keys())
            share = common / len(entry.columns)
            if share > best_share and share >= _USUAL_SHARE and common >= _USUAL_SHARE * len(values):
                best, best_share = entry, share
        if best is None:
            path = self._folder / f"{self._next_file}.rows"
            self._next_file += 1
            layout = _Layout(source, origin, tuple(sorted(values)))
            best = self._enter(_Segment(path, layout, len(_header(layout))), 0)
        return best

    def rewind(self, step: int, at: float) -> None:
        """The run goes on behind `step`, as the framework numbers it; what lies beyond it is void."""
        self._rewinds.append(Rewind(step, at))
        self._is_rewound = True

    def rewinds(self) -> tuple[Rewind, ...]:
        """Those that are noted, oldest first."""
        return tuple(self._rewinds)

    # --- what is written ----------------------------------------------------------------------------------

    @property
    def pending_bytes(self) -> int:
        """What waits for `flush`."""
        return sum(len(entry.pending) for entries in self._open.values() for entry in entries)

    @property
    def is_full(self) -> bool:
        """So much waits that no more may be added: the disk has had no room for a while."""
        return self.pending_bytes > _MOST_PENDING

    def is_lost(self) -> bool:
        """Somebody removed what was written."""
        return self._head.next > 0 and not (self._folder / "head").exists()

    def flush(self) -> bool:
        """Write and commit what is pending. Returns whether that is done; else `problem` says why, and it
        waits for the next time.
        """
        entries = [entry for group in self._open.values() for entry in group if entry.pending]
        if not entries and not self._is_rewound:
            return True
        head = self._head._replace(next=self._next)
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
                head = head._replace(rewinds=len(self._rewinds))
            self._write_head(head)
        except (OSError, RltuiError) as error:
            self.problem = getattr(error, "strerror", None) or str(error)
            return False
        self._head, self._is_rewound = head, False
        for entry in entries:
            entry.size = max(entry.size, entry.segment.start) + len(entry.pending)
            entry.pending.clear()
        self._cursors.update(self._added)
        self._added.clear()
        self.problem = None
        return True

    def _write_head(self, head: _Manifest) -> None:
        descriptor = open_own(self._folder / "head", os.O_WRONLY | os.O_CREAT)
        try:
            _write_all(descriptor, _HEAD.pack(*head), 0)
        finally:
            os.close(descriptor)

    def begin_anew(self, aside: Path) -> None:
        """Another run begins: what there is goes to the folder `aside`, which is made where there is
        something.

        Raises:
            OSError: if it cannot be moved.
        """
        if self._folder.is_dir():
            aside.parent.mkdir(parents=True, exist_ok=True)
            self._folder.rename(aside)
        self._open, self._cursors, self._added, self._rewinds, self._names = {}, {}, {}, [], {}
        self._next_file, self._next, self.problem, self._is_rewound = 1, 0, None, False
        self._head = _Manifest(_MARK, uuid.uuid4().bytes, 0, 0, 0)


def _write_all(descriptor: int, data: bytes | bytearray, offset: int) -> None:
    """Raises OSError where not all of it has room."""
    rest: Sequence[int] | memoryview = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, bytes(rest), offset)
        rest, offset = rest[written:], offset + written
