"""The metrics of a run as series: points in the order they were written, by step and by time. Pure."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from rltui.base.times import Period
    from rltui.core.logs.source import LogChange

NO_STEP = -1
"""Step of a point that has only a time."""
OWN_SOURCE = "rltui"
"""Source of rltui's own samples."""


class SeriesKey(NamedTuple):
    source: str
    """The writer: a program of the framework (`trainer`, `orch`), a component, an engine of one
    (`inference/1`), `rltui`; empty if unknown.
    """
    name: str
    """Name given by the source: `loss/mean`, `vllm:num_requests_running`."""


class Rewind(NamedTuple):
    """The run went back: points written before `at` for steps after `step` are void."""

    step: int
    """The last step that counts, as the framework numbers it."""
    at: float
    """Time in seconds since the epoch."""


@dataclass(slots=True)
class Series:
    """Points in the order they were written. The three arrays are of one length."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    """`NO_STEP` if the point has no step."""
    times: array[float] = field(default_factory=lambda: array("d"))
    """Times in seconds since the epoch."""
    values: array[float] = field(default_factory=lambda: array("d"))
    """NaN and the infinities are values: the program reported them, or dropped a value because of them."""

    def __len__(self) -> int:
        return len(self.values)

    def add(self, step: int, time: float, value: float) -> None:
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)

    def extend(self, other: Series) -> None:
        self.steps.extend(other.steps)
        self.times.extend(other.times)
        self.values.extend(other.values)

    def tail(self, start: int) -> Series:
        """A copy of the points from index `start` on."""
        return Series(self.steps[start:], self.times[start:], self.values[start:])

    def lines(self, rewinds: Sequence[Rewind] = ()) -> tuple[Series, tuple[Series, ...]]:
        """The line that counts, its steps strictly ascending, and the abandoned branches, oldest first.

        A rewind abandons earlier points after its step. A step that falls back by itself does
        the same from there on; the same step again replaces its point. A series without steps is its line.
        """
        if not self.steps or max(self.steps) == NO_STEP:
            return self, ()
        folding = _LineBuilder(self, rewinds)
        for index in range(len(self)):
            folding.take(index)
        folding.rewind_until(math.inf)
        line = self if folding.line == [*range(len(self))] else self._at(folding.line)
        return line, tuple(self._at(branch) for branch in folding.branches)

    def within(self, period: Period) -> Series:
        """The points in that period."""
        points = enumerate(zip(self.times, self.steps, strict=True))
        return self._at(i for i, (at, step) in points if period.holds(at, None if step == NO_STEP else step))

    def _at(self, indices: Iterable[int]) -> Series:
        chosen_indices = list(indices)
        return Series(
            array("q", [self.steps[index] for index in chosen_indices]),
            array("d", [self.times[index] for index in chosen_indices]),
            array("d", [self.values[index] for index in chosen_indices]),
        )


class _LineBuilder:
    """Walks through the points of a series, and tracks which of them count so far."""

    def __init__(self, series: Series, rewinds: Sequence[Rewind]) -> None:
        self._series = series
        self._pending = sorted(rewinds, key=lambda rewind: rewind.at, reverse=True)
        self._applied: list[Rewind] = []
        self.line: list[int] = []
        """Indices; their steps ascend."""
        self.branches: list[list[int]] = []

    def take(self, index: int) -> None:
        steps, time = self._series.steps, self._series.times[index]
        step = steps[index]
        self.rewind_until(time)
        if step == NO_STEP or self._is_late(index):
            return
        if not self.line or step > steps[self.line[-1]]:
            self.line.append(index)
        elif step == steps[self.line[-1]]:
            self.line[-1] = index
        elif math.isfinite(self._series.values[index]):
            self._abandon(step - 1)
            self.line.append(index)
        else:
            position = bisect_left(self.line, step, key=steps.__getitem__)
            if steps[self.line[position]] != step:
                self.line.insert(position, index)

    def rewind_until(self, time: float) -> None:
        """Apply the rewinds up to this time."""
        while self._pending and self._pending[-1].at <= time:
            rewind = self._pending.pop()
            self._abandon(rewind.step)
            self._applied.append(rewind)

    def _abandon(self, step: int) -> None:
        """Move the points after `step` to a branch."""
        cut = bisect_right(self.line, step, key=self._series.steps.__getitem__)
        if cut < len(self.line):
            self.branches.append(self.line[cut:])
            del self.line[cut:]

    def _is_late(self, index: int) -> bool:
        """Whether the point is of a branch abandoned meanwhile. A value that is not finite comes from a log,
        and may come after the rows of later steps.
        """
        step, time = self._series.steps[index], self._series.times[index]
        if math.isfinite(self._series.values[index]):
            return False
        return any(rewind.at > time and rewind.step < step for rewind in self._applied)


class SeriesSource(Protocol):
    """The series of a run, living or finished, as of the last `poll`. Calls block, for a millisecond or so
    each, and come from one thread at a time.
    """

    def poll(self) -> LogChange:
        """Compare with the last poll. After `RESET` earlier points are void: another run, or a new store."""
        ...

    def keys(self) -> tuple[SeriesKey, ...]:
        """All series, sorted."""
        ...

    def rewinds(self) -> tuple[Rewind, ...]:
        """All rewinds, oldest first: the argument of `Series.lines`."""
        ...

    def prepare(self, keys: Iterable[SeriesKey]) -> None:
        """Announce keys to read next: remote ones are then fetched at once."""
        ...

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        """The points of a series from index `start` on, in the order they were written; empty for none. Of a
        long one on another machine, some thousand that have its shape.
        """
        ...


_TRAINER = (
    "loss/", "entropy/", "mismatch_kl/", "masked_mismatch_kl/", "unmasked_mismatch_kl/", "kl_ent_ratio/",
    "is_masked", "ref_kl/", "nll/", "optim/", "perf/", "val/", "max_vio/", "expert_load/",
    "routing_confidence/",
    "time/wait_for_batch", "time/load_data", "time/broadcast_weights", "time/forward_backward",
)  # fmt: skip
_ORCHESTRATOR = (
    "train/", "eval/", "batch/", "off_policy/", "watcher/", "policy/", "dispatcher/", "concurrency/",
    "inference/", "event_loop_lag/",
    "progress/rollouts", "progress/tasks", "time/pack", "time/wait_for_policy",
)  # fmt: skip


def time_of_step(source: SeriesSource, step: int) -> float | None:
    """The time at which a step was reached, by the first series that has it, in seconds since the epoch."""
    source.poll()
    series_keys = source.keys()
    for key in series_keys:
        line, _ = source.read(key).lines(source.rewinds())
        if line.steps and line.steps[0] <= step <= line.steps[-1]:
            return line.times[bisect_left(line.steps, step)]
    return None


def writer_of(row: Mapping[str, Any]) -> str:
    """The writer of a row: its own `producer`, else by its keys; empty if neither tells.

    Without this, the `time/step` of two programs would be one series.
    """
    producer = row.get("producer")
    if isinstance(producer, str):
        return producer
    for key in row:
        if key.startswith(_TRAINER):
            return "trainer"
        if key.startswith(_ORCHESTRATOR):
            return "orch"
    return ""


Points = Sequence[tuple[int, float]]
"""Step and value; the steps ascend."""

_MOST_POINTS = 4096


def downsample(points: Points, most: int) -> list[tuple[int, float]]:
    """At most `most` (4 or more) of the points: the first, the last, and between them the lowest and the
    highest of each of equal spans of steps.
    """
    if len(points) <= most:
        return list(points)
    first, last = points[0], points[-1]
    spans = (most - 2) // 2
    width = (last[0] - first[0]) / spans
    selected, current_index = [first], 0
    bucket: list[tuple[int, float]] = []
    for point in points[1:-1]:
        bucket_index = min(spans - 1, int((point[0] - first[0]) / width))
        if bucket_index != current_index and bucket:
            selected += _extremes(bucket)
            bucket = []
        current_index = bucket_index
        bucket.append(point)
    return [*selected, *_extremes(bucket), last]


def _extremes(points: Points) -> list[tuple[int, float]]:
    return sorted({min(points, key=lambda point: point[1]), max(points, key=lambda point: point[1])})


class DownsampledSeries:
    """Takes one point after the other, for as long as a run goes on, and stores some thousand of them."""

    def __init__(self, most: int) -> None:
        """`most`: the limit of `points`, as in `downsample`."""
        self._most = most
        self._points: list[tuple[int, float]] = []
        self._result: tuple[tuple[int, float], ...] | None = ()

    def add(self, step: int, value: float) -> None:
        """Add the next point. One for an earlier step replaces all from there on."""
        self.cut(step - 1)
        self._points.append((step, value))
        if len(self._points) > _MOST_POINTS:
            self._points = downsample(self._points, _MOST_POINTS // 2)

    def cut(self, step: int) -> None:
        """Drop the points after `step`."""
        self._result = None
        while self._points and self._points[-1][0] > step:
            self._points.pop()

    def points(self) -> tuple[tuple[int, float], ...]:
        if self._result is None:
            self._result = tuple(downsample(self._points, self._most))
        return self._result
