"""A run's figures by what they mean, in the order of its steps: what health and bottleneck look at. Pure."""

from __future__ import annotations

import math
import statistics
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rltui.core.metric_names import concept_of, find_all
from rltui.core.metrics import LARGEST_STEP, numbers
from rltui.core.series import SeriesKey, writer_of

_CONCEPTS = (
    "reward", "eval", "loss", "entropy", "kl", "importance_ratio", "grad_norm", "lr", "truncation",
    "trainable", "empty_batches", "staleness", "tokens_per_s", "wait_for_batch", "wait_for_policy",
)  # fmt: skip
"""By the ids of `core/metric_names.py`."""
_OF_TRAINER = frozenset({"loss", "grad_norm", "lr", "entropy"})
"""The trainer says at least one of them with every step."""
_OF_ORCHESTRATOR = frozenset({"reward", "truncation", "trainable", "staleness", "wait_for_policy"})
"""They may be of the step that the trainer is still at."""
_WINDOW = 8
"""Steps whose median counts as a level that was held."""
_FIRST_STEPS, _NEWEST_STEPS = 512, 4096
"""Steps that a track keeps of a long run: rules look at its beginning and at its newest part. All steps would
take 4 MB an hour at five steps a second.
"""
_LATEST = 1e11
"""Seconds since 1970 that still are a date."""
_SURE = 3.0
"""A level must be so many times the spread around it: rare rewards come and go."""


class Track:
    """One figure by step: a repeated step overwrites; NaN and the infinities are values.

    Of a long run the first 512 steps and at least the newest 4,096 are kept.
    """

    __slots__ = ("steps", "values")

    def __init__(self) -> None:
        self.steps = array("q")
        self.values = array("d")

    def __len__(self) -> int:
        return len(self.values)

    def put(self, step: int, value: float) -> None:
        """Mostly of the newest step; late ones find their place."""
        if not self.steps or step > self.steps[-1]:
            self.steps.append(step)
            self.values.append(value)
            if len(self.steps) > _FIRST_STEPS + 2 * _NEWEST_STEPS:
                middle = slice(_FIRST_STEPS, -_NEWEST_STEPS)
                del self.steps[middle], self.values[middle]
            return
        at = bisect_left(self.steps, step)
        if self.steps[at] == step:
            self.values[at] = value
        else:
            self.steps.insert(at, step)
            self.values.insert(at, value)

    def cut(self, step: int) -> None:
        """Forget what lies beyond `step`."""
        at = bisect_left(self.steps, step + 1)
        del self.steps[at:], self.values[at:]

    def last(self, count: int, *, before: int = 0) -> array[float]:
        """The newest `count` values, oldest first, without the newest `before` of all."""
        end = max(0, len(self.values) - before)
        return self.values[max(0, end - count) : end]

    def at(self, step: int) -> float | None:
        at = bisect_left(self.steps, step)
        return self.values[at] if at < len(self.steps) and self.steps[at] == step else None

    def around(self, step: int) -> float | None:
        """Median of the steps up to `step`."""
        at = bisect_left(self.steps, step + 1)
        window = self.values[max(0, at - _WINDOW) : at]
        return statistics.median(window) if window else None

    def since(self, is_bad: Callable[[float], bool], *, gap: int = 1) -> int:
        """First bad step of the newest streak, which ends before `gap` steps in a row that are not."""
        first, good = len(self.steps) - 1, 0
        for at in range(len(self.steps) - 1, -1, -1):
            if is_bad(self.values[at]):
                first, good = at, 0
            elif (good := good + 1) == gap:
                break
        return self.steps[first]


@dataclass(frozen=True, slots=True)
class _HeldLevel:
    value: float
    step: int
    """The last of the window."""


@dataclass(slots=True)
class _Levels:
    """The best level that a figure has held, also before the steps that are left after a resume."""

    floor: float | None = None
    """What nothing is: 0, or the first level where that is below."""
    _records: list[_HeldLevel] = field(default_factory=list)
    """Each better than the one before."""

    def take(self, track: Track) -> None:
        window = track.last(_WINDOW)
        if len(window) < _WINDOW or not all(map(math.isfinite, window)):
            return
        value = statistics.median(window)
        if self.floor is None:
            self.floor = min(0.0, value)
        spread = statistics.median(abs(each - value) for each in window)
        is_sure = value > self.floor and value - self.floor >= _SURE * spread
        if is_sure and (self.best is None or value > self.best.value):
            self._records.append(_HeldLevel(value, track.steps[-1]))

    def cut(self, step: int) -> None:
        while self._records and self._records[-1].step > step:
            self._records.pop()

    @property
    def best(self) -> _HeldLevel | None:
        """`None` where none was held for sure."""
        return self._records[-1] if self._records else None


class RunFigures:
    """Takes in the rows of a run as they come. Steps are counted from 1, whatever the framework does."""

    def __init__(self, trainer_step: str = "loss/mean", first_step: int = 1) -> None:
        """`trainer_step`: a key that only the trainer's row of a completed step has. `first_step`: the number
        that the framework gives to the first step.
        """
        self._trainer_step, self._shift = trainer_step, 1 - first_step
        self._completed = 0
        self._tracks: dict[str, Track] = {}
        self._meanings: dict[str, dict[str, tuple[str, ...]]] = {}
        """Source → name → the concepts that it says."""
        self.evals: dict[SeriesKey, Track] = {}
        """Each environment has its own."""
        self.levels = {"reward": _Levels(), "tokens_per_s": _Levels()}
        self.trained = Track()
        """When each step of the trainer was done, in seconds since the epoch; NaN where that is not known."""
        self.collected = Track()
        """When each step of the orchestrator was done."""

    @property
    def newest_step(self) -> int:
        """Of anybody; 0 before the first."""
        return max((track.steps[-1] for track in (self.trained, self.collected) if track), default=0)

    def track(self, concept: str) -> Track:
        """Empty where nobody said."""
        return self._tracks.get(concept) or Track()

    def add(self, row: Mapping[str, Any], at: float) -> None:
        """Take in one row, which came `at` where it has no time of its own, NaN where nobody knows.

        One without a step tells nothing. A step that is completed once more means that the run went back.
        """
        number = row.get("step")
        if not isinstance(number, int) or abs(number) > LARGEST_STEP:
            return
        step, source = number + self._shift, writer_of(row)
        known = self._meanings.setdefault(source, {})
        if not row.keys() <= known.keys():
            self._learn(source, row)
        meant = {name: known[name] for name in row if known[name]}
        found = numbers({name: row[name] for name in meant})
        said = {concept for name in found for concept in meant[name]}
        is_completed = self._trainer_step in row
        if is_completed and step <= self._completed:
            self._cut(step - 1, ahead=1)
        if is_completed:
            self._completed = step
        time = row.get("time")
        at = float(time) if isinstance(time, float | int) and 0 < time < _LATEST else at
        if said & _OF_TRAINER or is_completed:
            self.trained.put(step, at)
        if said & _OF_ORCHESTRATOR:
            self.collected.put(step, at)
        for name, value in found.items():
            for concept in meant[name]:
                self._put(concept, SeriesKey(source, name), step, value)

    def rewind(self, step: int) -> None:
        """The run goes on behind `step`, counted from 1."""
        self._cut(step, ahead=0)

    def _put(self, concept: str, key: SeriesKey, step: int, value: float) -> None:
        if concept == "eval":
            self.evals.setdefault(key, Track()).put(step, value)
            return
        track = self._tracks.setdefault(concept, Track())
        track.put(step, value)
        if concept in self.levels:
            self.levels[concept].take(track)

    def _cut(self, step: int, *, ahead: int) -> None:
        """Of what the orchestrator says, `ahead` steps more are kept."""
        self._completed = min(self._completed, step)
        for concept, track in self._tracks.items():
            track.cut(step + (ahead if concept in _OF_ORCHESTRATOR else 0))
        for track in (*self.evals.values(), self.trained):
            track.cut(step)
        self.collected.cut(step + ahead)
        for concept, levels in self.levels.items():
            levels.cut(step + (ahead if concept in _OF_ORCHESTRATOR else 0))

    def _learn(self, source: str, new: Collection[str]) -> None:
        """Names that were never seen: the series that says best what a concept means may be another now."""
        unknown = [SeriesKey(source, name) for name in new if name not in self._meanings[source]]
        self._meanings[source].update((key.name, ()) for key in unknown)
        if not any(find_all(id_, unknown) for id_ in _CONCEPTS):
            return
        keys = [SeriesKey(each, name) for each, names in self._meanings.items() for name in names]
        chosen: dict[SeriesKey, list[str]] = {key: [] for key in keys}
        for id_ in _CONCEPTS:
            concept, best = concept_of(id_), find_all(id_, keys)
            for key in best if concept is not None and concept.many else best[:1]:
                chosen[key].append(id_)
        for key, ids in chosen.items():
            self._meanings[key.source][key.name] = tuple(ids)
