"""Rollouts in one stream with a separate index: prime-rl since September 2026."""

from __future__ import annotations

import bisect
import math
import mmap
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltui.core.metrics.progress import LARGEST_STEP
from rltui.core.rollouts import rows as rollout_rows
from rltui.core.rollouts.batches import (
    ABANDONED,
    ALL,
    NO_STEP,
    Batch,
    BatchKey,
    Sample,
    SampleTable,
    Transcript,
)
from rltui.errors import RltuiError
from rltui.services.own_files import entry_names
from rltui.services.rollouts.chunks import Chunks, NewestFirst, open_if_regular, record

FOLDER = "monitors/file/traces"
_OFFSET_BITS = 40
"""Bits of the offset in `Sample.where` for a stream: the others are the chunk's number."""
_SAME_SHIP_S = 60.0
"""A step that ships again later than this was trained again, after a resume."""
_MOST_WAITING = 8000
"""Number of newest samples that may still get into a batch."""
_MOST_LIVE = 2000
_DERIVED_AT_A_TIME = 200
_BLOCK_BYTES = 1 << 20
"""About 3,000 rows, which are read and displayed in a few hundredths of a second."""


@dataclass(slots=True)
class _Ship:
    """A batch that was sent to the trainer, and what arrived before it."""

    step: int
    at: float
    shipped: SampleTable = field(default_factory=SampleTable)
    unshipped: SampleTable = field(default_factory=SampleTable)
    """Samples that arrived between the previous batch and this one, and are in no batch."""
    evaluated: SampleTable = field(default_factory=SampleTable)
    """Evaluations requested between the previous batch and this one: with the policy of that step."""


class TraceStream:
    """Batches of a stream of episodes. Its index is read from the newest row backwards.

    The index does not contain the step of a sample: the orchestrator's annotations do, once a batch contains
    it. They are read as far back as the rows, so that each row finds its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self.problem = ""
        self._chunks = Chunks(self._folder / "stream")
        self._live = _LiveTraces(self._folder / "live")
        self._begin()

    def _begin(self) -> None:
        self._index = NewestFirst(self._folder / "stream.index.jsonl", block_bytes=_BLOCK_BYTES)
        self._annotations = NewestFirst(
            self._folder / "annotations" / "orch.index.jsonl", block_bytes=_BLOCK_BYTES
        )
        self._ships: list[_Ship] = []
        """Batches in the order of their times."""
        self._ships_by_step: dict[int, list[_Ship]] = {}
        self._unfinished_ship = _Ship(NO_STEP, math.inf)
        self._shipped: dict[str, tuple[_Ship, float]] = {}
        """Trace → its batch and advantage, for rows that were not read yet."""
        self._waiting: OrderedDict[str, Sample] = OrderedDict()
        """Trace → the newest rows that are in no batch yet."""
        self._derived: Iterator[tuple[dict[str, Any], int]] | None = None
        self._tasks: dict[tuple[BatchKey, str], str] = {}
        self._cached_counts: dict[BatchKey, int] | None = None
        """Valid for the rows read so far; `None` after a change."""

    def poll(self, displayed: BatchKey | None) -> bool:
        """Read some of the index, or new rows; without an index, of the stream itself."""
        if displayed is not None and displayed.kind == "live":
            self._live.poll()
        if not (self._folder / "stream.index.jsonl").exists():
            return self._derive()
        rows = self._index.read()
        if self._index.restarted or self._derived is not None:
            self._begin()
            rows = self._index.read()
        self._read_annotations(rows)
        for row in [row for _, line in rows if (row := record(line)) is not None]:
            chunk, offset = row.get("chunk"), row.get("offset")
            if not isinstance(chunk, int) or not 0 <= chunk < 1 << 22:
                chunk = 0
            if not isinstance(offset, int) or not 0 <= offset < 1 << _OFFSET_BITS:
                offset = 0
            self._add_sample(row, chunk << _OFFSET_BITS | offset)
        return bool(rows) and (self._index.is_behind or self._annotations.is_behind)

    def _read_annotations(self, rows: list[tuple[int, bytes]]) -> None:
        """Read annotations as far back as the oldest of the rows."""
        oldest = next(
            (parsed_row["arrival"] for _, line in rows if "arrival" in (parsed_row := record(line) or {})),
            None,
        )
        while True:
            lines = self._annotations.read()
            for _, line in lines:
                if (note := record(line)) is not None:
                    self._annotate(note)
            first = self._ships[0].at if self._ships else math.inf
            if not lines or (isinstance(oldest, int | float) and first < oldest and rows):
                return

    def _annotate(self, row: Mapping[str, Any]) -> None:
        info = row.get("info")
        ship = info.get("ship") if isinstance(info, Mapping) else None
        trace = row.get("trace_id")
        if not isinstance(info, Mapping) or not isinstance(ship, Mapping) or not isinstance(trace, str):
            return
        step, shipped_at, advantage = ship.get("step"), ship.get("time"), info.get("advantage")
        if not isinstance(step, int) or not 0 <= step <= LARGEST_STEP:
            return
        self._cached_counts = None
        batch = self._ship(step, float(shipped_at) if isinstance(shipped_at, int | float) else 0.0)
        advantage_value = float(advantage) if isinstance(advantage, int | float) else math.nan
        if (sample := self._waiting.pop(trace, None)) is not None:
            batch.shipped.append(_with_advantage(sample, advantage_value))
        else:
            self._shipped[trace] = (batch, advantage_value)

    def _ship(self, step: int, shipped_at: float) -> _Ship:
        ships = self._ships_by_step.setdefault(step, [])
        for ship in ships:
            if abs(ship.at - shipped_at) < _SAME_SHIP_S:
                return ship
        ship = _Ship(step, shipped_at)
        if not self._ships or shipped_at >= self._ships[-1].at:  # what was to come has come
            ship.unshipped, self._unfinished_ship.unshipped = self._unfinished_ship.unshipped, SampleTable()
            ship.evaluated, self._unfinished_ship.evaluated = self._unfinished_ship.evaluated, SampleTable()
        ships.append(ship)
        bisect.insort(self._ships, ship, key=lambda item: item.at)
        return ship

    def _add_sample(self, row: Mapping[str, Any], where: int) -> None:
        sample = rollout_rows.index_sample(row, where)
        self._cached_counts = None
        if row.get("kind") != "train":
            dispatched_at = row.get("dispatch")
            request_time = float(dispatched_at) if isinstance(dispatched_at, int | float) else sample.at
            self._next_ship(request_time).evaluated.append(sample)
            return
        names = [name for name in row.get("trace_ids") or () if isinstance(name, str)]
        ships = [ship for name in names if (ship := self._shipped.pop(name, None)) is not None]
        if ships:
            batch, advantage = ships[0]
            sample = _with_advantage(sample, advantage)
            batch.shipped.append(sample)
        elif not names or (len(self._waiting) >= _MOST_WAITING and self._index.is_behind):
            self._next_ship(sample.at).unshipped.append(sample)
        else:
            self._waiting[names[0]] = sample
            if len(self._waiting) > _MOST_WAITING:
                _, dropped = self._waiting.popitem(last=False)
                self._next_ship(dropped.at).unshipped.append(dropped)

    def _next_ship(self, moment: float) -> _Ship:
        """The first batch that was sent after that time."""
        if not math.isfinite(moment):
            return self._unfinished_ship
        position = bisect.bisect_left(self._ships, moment, key=lambda ship: ship.at)
        return self._ships[position] if position < len(self._ships) else self._unfinished_ship

    def _derive(self) -> bool:
        """Make rows like those of the index from more episodes of the stream."""
        if self._derived is None:
            self._begin()
            self._derived = self._episodes()
            self._read_annotations([])
        for count, (row, where) in enumerate(self._derived):
            sample = rollout_rows.episode_sample(row, where)
            self._add_sample(
                {
                    "kind": rollout_rows.episode_kind(row),
                    "trace_ids": rollout_rows.trace_ids(row),
                    "dispatch": rollout_rows.dispatch_time(row),
                    "num_errors": int(sample.failed),
                    "stop_condition": sample.stop,
                    "arrival": sample.at,
                    **sample._asdict(),
                },
                where,
            )
            if count >= _DERIVED_AT_A_TIME:
                return True
        return False

    def _episodes(self) -> Iterator[tuple[dict[str, Any], int]]:
        for chunk in self._chunks.numbers():
            try:
                for offset, line in self._chunks.lines(chunk):
                    if (row := record(line)) is not None:
                        yield row, chunk << _OFFSET_BITS | offset
            except RltuiError as error:
                self.problem = str(error)

    def batches(self) -> Iterator[Batch]:
        if self._cached_counts is None:
            self._cached_counts = self._counts()
        for key, count in self._cached_counts.items():
            yield Batch(key, count)
        if (count := self._live.count()) > 0:
            yield Batch(BatchKey("live"), count)

    def table(self, key: BatchKey) -> SampleTable | None:
        if key.kind == "live":
            return self._live.table
        ship = self._ships_by_key().get(key)
        if ship is None:
            return None
        if key.kind == "eval":
            return ship.evaluated
        if key.part != ALL:
            return ship.shipped
        late = [sample for sample in self._waiting.values() if self._next_ship(sample.at) is ship]
        return SampleTable(
            sorted([*ship.shipped, *ship.unshipped, *late], key=lambda sample: (not sample.at > 0, sample.at))
        )

    def _counts(self) -> dict[BatchKey, int]:
        late: dict[int, int] = {}
        for sample in self._waiting.values():
            name = id(self._next_ship(sample.at))
            late[name] = late.get(name, 0) + 1
        counts = {}
        for key, ship in self._ships_by_key().items():
            if key.kind == "eval":
                counts[key] = len(ship.evaluated)
            else:
                more = len(ship.unshipped) + late.get(id(ship), 0) if key.part == ALL else 0
                counts[key] = len(ship.shipped) + more
        return {key: count for key, count in counts.items() if count}

    def _ships_by_key(self) -> dict[BatchKey, _Ship]:
        """Key → batch; of two with the same key, the later one counts."""
        by_key: dict[BatchKey, _Ship] = {}
        lowest, abandoned = math.inf, set[int]()
        for ship in reversed(self._ships):
            if ship.step >= lowest:
                abandoned.add(id(ship))
            lowest = min(lowest, ship.step)
        before = NO_STEP
        for ship in self._ships:
            suffix = ABANDONED if id(ship) in abandoned else ""
            by_key[BatchKey("train", ship.step, suffix)] = ship
            if not suffix:
                by_key[BatchKey("train", ship.step, ALL)] = ship
            by_key[BatchKey("eval", ship.step - 1 if before == NO_STEP else before, suffix)] = ship
            before = ship.step
        by_key[BatchKey("train", before + 1 if self._ships else NO_STEP, ALL)] = self._unfinished_ship
        by_key[BatchKey("eval", before)] = self._unfinished_ship
        return by_key

    def open(self, key: BatchKey, sample: Sample) -> Transcript:
        """The complete sample, with its annotations."""
        if key.kind == "live":
            return self._live.open(sample)
        row = self._record(sample)
        for trace in row["traces"] if isinstance(row["traces"], list) else ():
            if isinstance(trace, dict) and isinstance(trace.get("id"), str):
                for info in self._annotations_of(trace["id"]):
                    trace["info"] = rollout_rows.deep_merge(trace.get("info") or {}, info)
        return rollout_rows.episode_transcript(row, sample)

    def as_written(self, sample: Sample) -> Transcript:
        return rollout_rows.episode_transcript(self._record(sample), sample)

    def line(self, sample: Sample) -> bytes | None:
        return self._chunks.line(sample.where >> _OFFSET_BITS, sample.where & ((1 << _OFFSET_BITS) - 1))

    def _record(self, sample: Sample) -> dict[str, Any]:
        line = self.line(sample)
        row = None if line is None else record(line)
        if row is None or "traces" not in row:
            raise RltuiError(
                f"chunk {sample.where >> _OFFSET_BITS} of {self._folder / 'stream'} has no episode at byte"
                f" {sample.where & ((1 << _OFFSET_BITS) - 1)}",
                hint="its index does not match: delete stream.index.jsonl to rebuild it from the stream",
            )
        return row

    def _annotations_of(self, trace: str) -> Iterator[Mapping[str, Any]]:
        """The annotations of a trace by all producers, in the order in which each wrote them."""
        for path in sorted((self._folder / "annotations").glob("*.index.jsonl")):
            file = open_if_regular(path)
            if file is None or not os.fstat(file.fileno()).st_size:
                continue
            with file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                needle, position = f'"{trace}"'.encode(), 0
                while (position := data.find(needle, position)) >= 0:
                    begin, end = data.rfind(b"\n", 0, position) + 1, data.find(b"\n", position)
                    row = record(data[begin : end if end >= 0 else len(data)])
                    if row is not None and row.get("trace_id") == trace:
                        info = row.get("info")
                        yield info if isinstance(info, Mapping) else {}
                    position += len(needle)

    def task(self, key: BatchKey, sample: Sample) -> str:
        """A name for its prompt. One sample of a group is read."""
        name = (key, sample.group or str(sample.where))
        if name not in self._tasks:
            self._tasks[name] = rollout_rows.episode_sample(self._record(sample), 0).task
        return self._tasks[name]


def _with_advantage(sample: Sample, advantage: float) -> Sample:
    return sample._replace(advantage=advantage) if math.isfinite(advantage) else sample


class _LiveTraces:
    """Rollouts in progress: a file of deltas each, folded as they arrive."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folds: dict[Path, tuple[NewestFirst, dict[str, Any]]] = {}
        self._open_traces: list[dict[str, Any]] = []
        self.table = SampleTable()

    def count(self) -> int:
        return len(self._files("", ".jsonl")) + len(self._files("pending", ".json"))

    def _files(self, below: str, ending: str) -> list[Path]:
        folder = self._folder / below
        names = sorted(name for name in entry_names(folder) if name.endswith(ending))
        return [folder / name for name in names[:_MOST_LIVE]]

    def poll(self) -> None:
        files = self._files("", ".jsonl")
        self._folds = {path: self._folds.get(path) or (NewestFirst(path, forward=True), {}) for path in files}
        for lines, trace in self._folds.values():
            new_lines = lines.read()
            if lines.restarted:
                trace.clear()
            for _, line in new_lines:
                if (delta := record(line)) is not None:
                    rollout_rows.fold_delta(trace, delta)
        live_traces = [trace for _, trace in self._folds.values() if trace]
        streaming = {_dispatch_id(trace) for trace in live_traces}
        for path in self._files("pending", ".json"):
            file = open_if_regular(path)
            if file is not None:
                with file:
                    pending = record(file.read(1 << 20))
                if pending is not None and pending.get("id") not in streaming:
                    live_traces.append(pending)
        samples = [rollout_rows.live_sample(trace, 0) for trace in live_traces]
        order = sorted(
            range(len(live_traces)),
            key=lambda index: samples[index].at if samples[index].at > 0 else math.inf,
        )
        self._open_traces = [live_traces[index] for index in order]
        self.table = SampleTable(
            samples[index]._replace(where=position) for position, index in enumerate(order)
        )

    def open(self, sample: Sample) -> Transcript:
        if not 0 <= sample.where < len(self._open_traces):
            raise RltuiError("this rollout has ended", hint="it is now listed under its step")
        return rollout_rows.live_transcript(self._open_traces[sample.where], sample)


def _dispatch_id(trace: Mapping[str, Any]) -> object:
    dispatch = trace.get("dispatch")
    return dispatch.get("id") if isinstance(dispatch, Mapping) else None
