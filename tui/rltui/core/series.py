"""The metrics of a run as series: points in the order they were written, by step and by time. Pure."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from rltui.core.lines import LogChange

NO_STEP = -1
"""Step of a point that has only a time."""
OWN_SOURCE = "rltui"
"""Source of what rltui itself samples."""


class SeriesKey(NamedTuple):
    source: str
    """Who says it: a program of the framework (`trainer`, `orch`), a component, an engine of one
    (`inference/1`), `rltui`; empty where nobody says."""
    name: str
    """As the source names it: `loss/mean`, `vllm:num_requests_running`."""


class Rewind(NamedTuple):
    """The run went back: what was written before `at` for steps beyond `step` is void."""

    step: int
    """The last step that counts, as the framework numbers it."""
    at: float
    """When, in seconds since the epoch."""


@dataclass(slots=True)
class Series:
    """Points in the order they were written. The three arrays are of one length."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    """`NO_STEP` where the point has no step."""
    times: array[float] = field(default_factory=lambda: array("d"))
    """Seconds since the epoch."""
    values: array[float] = field(default_factory=lambda: array("d"))
    """NaN and the infinities are values: what the program reported, or dropped because of them."""

    def __len__(self) -> int:
        return len(self.values)

    def add(self, step: int, at: float, value: float) -> None:
        self.steps.append(step)
        self.times.append(at)
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

        A rewind abandons what was written before it beyond its step. A step that falls back by itself does
        the same from there on; the same step again replaces its point. A series without steps is its line.
        """
        if not self.steps or max(self.steps) == NO_STEP:
            return self, ()
        folding = _Folding(self, rewinds)
        for index in range(len(self)):
            folding.take(index)
        folding.rewind_until(math.inf)
        line = self if folding.kept == [*range(len(self))] else self._at(folding.kept)
        return line, tuple(self._at(branch) for branch in folding.branches)

    def _at(self, indices: Iterable[int]) -> Series:
        chosen = list(indices)
        return Series(
            array("q", [self.steps[index] for index in chosen]),
            array("d", [self.times[index] for index in chosen]),
            array("d", [self.values[index] for index in chosen]),
        )


class _Folding:
    """Walks through the points of a series, and knows which of them count so far."""

    def __init__(self, series: Series, rewinds: Sequence[Rewind]) -> None:
        self._series = series
        self._to_come = sorted(rewinds, key=lambda rewind: rewind.at, reverse=True)
        self._applied: list[Rewind] = []
        self.kept: list[int] = []
        """Indices; their steps ascend."""
        self.branches: list[list[int]] = []

    def take(self, index: int) -> None:
        steps, at = self._series.steps, self._series.times[index]
        step = steps[index]
        self.rewind_until(at)
        if step == NO_STEP or self._is_late(index):
            return
        if not self.kept or step > steps[self.kept[-1]]:
            self.kept.append(index)
        elif step == steps[self.kept[-1]]:
            self.kept[-1] = index
        elif math.isfinite(self._series.values[index]):
            self._abandon(step - 1)
            self.kept.append(index)
        else:
            place = bisect_left(self.kept, step, key=steps.__getitem__)
            if steps[self.kept[place]] != step:
                self.kept.insert(place, index)

    def rewind_until(self, at: float) -> None:
        """Apply those that happened by then."""
        while self._to_come and self._to_come[-1].at <= at:
            rewind = self._to_come.pop()
            self._abandon(rewind.step)
            self._applied.append(rewind)

    def _abandon(self, step: int) -> None:
        """What counts beyond `step` does so no more."""
        cut = bisect_right(self.kept, step, key=self._series.steps.__getitem__)
        if cut < len(self.kept):
            self.branches.append(self.kept[cut:])
            del self.kept[cut:]

    def _is_late(self, index: int) -> bool:
        """It is of a branch that was abandoned meanwhile. What is no number is told by a log, and may come
        behind the rows of later steps.
        """
        step, at = self._series.steps[index], self._series.times[index]
        if math.isfinite(self._series.values[index]):
            return False
        return any(rewind.at > at and rewind.step < step for rewind in self._applied)


class SeriesSource(Protocol):
    """The series of a run, living or ended, as of the last `look`. Calls block, for a millisecond or so
    each, and come from one thread at a time.
    """

    def look(self) -> LogChange:
        """Compare with the last look. After `RESET` what was read before is void: another run, or a new
        store.
        """
        ...

    def keys(self) -> tuple[SeriesKey, ...]:
        """All series, sorted."""
        ...

    def rewinds(self) -> tuple[Rewind, ...]:
        """When the run went back, oldest first: what `Series.lines` takes."""
        ...

    def prepare(self, keys: Iterable[SeriesKey]) -> None:
        """These are read next: what is far away comes at once then."""
        ...

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        """The points of a series from index `start` on, in the order they were written; empty for none. Of a
        long one on another machine, some thousand that have its shape.
        """
        ...


_TRAINER = (
    "loss/", "entropy/", "mismatch_kl/", "masked_mismatch_kl/", "unmasked_mismatch_kl/", "kl_ent_ratio/",
    "is_masked", "optim/", "perf/", "val/", "max_vio/", "expert_load/", "routing_confidence/",
    "time/wait_for_batch", "time/load_data", "time/broadcast_weights", "time/forward_backward",
)  # fmt: skip
_ORCHESTRATOR = (
    "train/", "eval/", "batch/", "off_policy/", "dispatcher/", "concurrency/", "inference/",
    "event_loop_lag/", "progress/rollouts", "progress/tasks", "time/pack", "time/wait_for_policy",
)  # fmt: skip


def writer_of(row: Mapping[str, Any]) -> str:
    """Who wrote a row: as it says itself (`producer`), else by its keys; empty where neither tells.

    Without this, the `time/step` of two programs would be one series.
    """
    said = row.get("producer")
    if isinstance(said, str):
        return said
    for key in row:
        if key.startswith(_TRAINER):
            return "trainer"
        if key.startswith(_ORCHESTRATOR):
            return "orch"
    return ""


Points = Sequence[tuple[int, float]]
"""Step and value; the steps ascend."""

_MOST_KEPT = 4096


def thinned(points: Points, most: int) -> list[tuple[int, float]]:
    """At most `most` (4 or more) of the points: the first, the last, and between them the lowest and the
    highest of each of equal spans of steps.
    """
    if len(points) <= most:
        return list(points)
    first, last = points[0], points[-1]
    spans = (most - 2) // 2
    width = (last[0] - first[0]) / spans
    chosen, number = [first], 0
    bucket: list[tuple[int, float]] = []
    for point in points[1:-1]:
        at = min(spans - 1, int((point[0] - first[0]) / width))
        if at != number and bucket:
            chosen += _extremes(bucket)
            bucket = []
        number = at
        bucket.append(point)
    return [*chosen, *_extremes(bucket), last]


def _extremes(points: Points) -> list[tuple[int, float]]:
    return sorted({min(points, key=lambda point: point[1]), max(points, key=lambda point: point[1])})


class DownsampledSeries:
    """Takes one point after the other, for as long as a run goes on, and keeps some thousand of them."""

    def __init__(self, most: int) -> None:
        """`most`: as in `thinned`, of what `points` gives."""
        self._most = most
        self._kept: list[tuple[int, float]] = []
        self._given: tuple[tuple[int, float], ...] | None = ()

    def add(self, step: int, value: float) -> None:
        """The next point. One for an earlier step goes in place of all from there on."""
        self.cut(step - 1)
        self._kept.append((step, value))
        if len(self._kept) > _MOST_KEPT:
            self._kept = thinned(self._kept, _MOST_KEPT // 2)

    def cut(self, step: int) -> None:
        """What lies beyond `step` is void."""
        self._given = None
        while self._kept and self._kept[-1][0] > step:
            self._kept.pop()

    def points(self) -> tuple[tuple[int, float], ...]:
        if self._given is None:
            self._given = tuple(thinned(self._kept, self._most))
        return self._given
