"""A run's metrics by concept, in the order of its steps, for health and bottleneck. Pure."""

from __future__ import annotations

import math
import statistics
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rltui.core.metrics.names import cancelled_evals, concept_of, env_of, find_all
from rltui.core.metrics.progress import LARGEST_STEP, numbers, served_version
from rltui.core.metrics.series import SeriesKey, writer_of

_CONCEPTS = (
    "reward", "env_reward", "eval", "loss", "entropy", "kl", "teacher_kl", "nll",
    "importance_ratio", "grad_norm", "lr", "truncation", "trainable", "all_trainable", "cancelled", "dropped",
    "rollouts", "errors", "discarded_stale", "discarded_errored", "discarded_no_signal", "empty_batches",
    "staleness", "tokens_per_s", "wait_for_batch", "wait_for_policy",
)  # fmt: skip
"""Ids of `core/metrics/names.py`."""
_OF_TRAINER = frozenset({"loss", "grad_norm", "lr", "entropy"})
"""The trainer writes at least one of them with every step."""
_OF_ORCHESTRATOR = frozenset(
    {
        "reward", "env_reward", "truncation", "trainable", "all_trainable", "cancelled", "dropped",
        "rollouts", "errors", "discarded_stale", "discarded_errored", "discarded_no_signal", "staleness",
        "wait_for_policy",
    }
)  # fmt: skip
"""They may be of the step that the trainer is still at."""
_WINDOW = 8
"""Number of steps whose median counts as a level that was held."""
_FIRST_STEPS, _NEWEST_STEPS = 512, 4096
"""Steps that a track keeps of a long run: rules look at its beginning and at its newest part. All steps would
take 4 MB an hour at five steps a second.
"""
_LATEST = 1e11
"""Latest plausible time, in seconds since 1970."""
_SURE = 3.0
"""A level must be this many times the deviation around it: rare rewards come and go."""


class Track:
    """One metric by step: a repeated step overwrites; NaN and the infinities are values.

    Of a long run the first 512 steps and at least the newest 4,096 are stored.
    """

    __slots__ = ("steps", "values")

    def __init__(self) -> None:
        self.steps = array("q")
        self.values = array("d")

    def __len__(self) -> int:
        return len(self.values)

    def put(self, step: int, value: float) -> None:
        """Set the value of a step, mostly the newest; late ones are inserted."""
        if not self.steps or step > self.steps[-1]:
            self.steps.append(step)
            self.values.append(value)
            if len(self.steps) > _FIRST_STEPS + 2 * _NEWEST_STEPS:
                middle = slice(_FIRST_STEPS, -_NEWEST_STEPS)
                del self.steps[middle], self.values[middle]
            return
        index = bisect_left(self.steps, step)
        if self.steps[index] == step:
            self.values[index] = value
        else:
            self.steps.insert(index, step)
            self.values.insert(index, value)

    def cut(self, step: int) -> None:
        """Drop the steps after `step`."""
        index = bisect_left(self.steps, step + 1)
        del self.steps[index:], self.values[index:]

    def last(self, count: int, *, before: int = 0) -> array[float]:
        """The newest `count` values, oldest first, without the newest `before` of all."""
        end = max(0, len(self.values) - before)
        return self.values[max(0, end - count) : end]

    def at(self, step: int) -> float | None:
        index = bisect_left(self.steps, step)
        return self.values[index] if index < len(self.steps) and self.steps[index] == step else None

    def around_resume(self, step: int, before: int) -> tuple[array[float], array[float]]:
        """Return the last `before` values up to `step`, and all after it."""
        index = bisect_left(self.steps, step + 1)
        return self.values[max(0, index - before) : index], self.values[index:]

    def around(self, step: int) -> float | None:
        """Median of the last steps up to `step`."""
        index = bisect_left(self.steps, step + 1)
        window = self.values[max(0, index - _WINDOW) : index]
        return statistics.median(window) if window else None

    def since(self, is_bad: Callable[[float], bool], *, gap: int = 1) -> int:
        """First bad step of the newest streak, which ends before `gap` good steps in a row."""
        first, good = len(self.steps) - 1, 0
        for index in range(len(self.steps) - 1, -1, -1):
            if is_bad(self.values[index]):
                first, good = index, 0
            elif (good := good + 1) == gap:
                break
        return self.steps[first]


@dataclass(frozen=True, slots=True)
class _HeldLevel:
    value: float
    step: int
    """The last step of the window."""


@dataclass(slots=True)
class LeveledTrack:
    """A track, and the best level that its metric has held, including steps before a resume."""

    track: Track = field(default_factory=Track)
    floor: float | None = None
    """The zero level: 0, or the first level if that is below."""
    _records: list[_HeldLevel] = field(default_factory=list)
    """Each better than the one before."""

    def put(self, step: int, value: float) -> None:
        self.track.put(step, value)
        window = self.track.last(_WINDOW)
        if len(window) < _WINDOW or not all(map(math.isfinite, window)):
            return
        value = statistics.median(window)
        if self.floor is None:
            self.floor = min(0.0, value)
        deviation = statistics.median(abs(sample - value) for sample in window)
        is_sure = value > self.floor and value - self.floor >= _SURE * deviation
        if is_sure and (self.best is None or value > self.best.value):
            self._records.append(_HeldLevel(value, self.track.steps[-1]))

    def cut(self, step: int) -> None:
        self.track.cut(step)
        while self._records and self._records[-1].step > step:
            self._records.pop()

    @property
    def best(self) -> _HeldLevel | None:
        """`None` if none was held for sure."""
        return self._records[-1] if self._records else None


class RunTracks:
    """Collects the rows of a run as they come. Steps are counted from 1, whatever the framework does."""

    def __init__(self, trainer_step: str = "loss/mean", first_step: int = 1) -> None:
        """`trainer_step`: a key that only the trainer's row of a completed step has. `first_step`: the
        number that the framework gives to the first step.
        """
        self._trainer_step, self._shift = trainer_step, 1 - first_step
        self._completed = 0
        self._tracks: dict[str, Track] = {}
        self._meanings: dict[str, dict[str, tuple[str, ...]]] = {}
        """Source → name → the concepts that it says."""
        self.evals: dict[SeriesKey, Track] = {}
        """Each environment has its own."""
        self.cancelled_evals: dict[str, Track] = {}
        """Environment → the share of each that was cancelled, at the steps of those that were."""
        self.env_rewards: dict[str, LeveledTrack] = {}
        """Environment → its reward, the mean of its agents."""
        self.levels = {"reward": LeveledTrack(), "tokens_per_s": LeveledTrack()}
        self.has_agents = False
        """Several agents are trained."""
        self.resumed = 0
        """Steps that were done when the run went on from a checkpoint, or a program of it was started again;
        0: it has not been."""
        self.served: tuple[int, int | None] | None = None
        """Version of the weights that the engine samples with, N after step N, and the number of steps that
        were done as it was read; that is `None` for one that lasts until the next is told."""
        self.trained = Track()
        """When each step of the trainer was done, in seconds since the epoch; NaN where that is not known."""
        self.collected = Track()
        """When each step of the orchestrator was done."""

    @property
    def newest_step(self) -> int:
        """Newest step of any program; 0 before the first."""
        return max((track.steps[-1] for track in (self.trained, self.collected) if track), default=0)

    def track(self, concept: str) -> Track:
        """The values of a concept; empty if there are none."""
        levels = self.levels.get(concept)
        return levels.track if levels is not None else self._tracks.get(concept) or Track()

    def add(self, row: Mapping[str, Any], arrived_at: float) -> None:
        """Add one row. `arrived_at`: its time if it has none of its own, NaN if unknown.

        Of a row without a step only the version of the weights counts. A step that is completed once more
        means that the run went back.
        """
        if (served := served_version(row)) is not None:
            self.served = served[0], None if served[1] else self._completed
        number = row.get("step")
        if not isinstance(number, int) or abs(number) > LARGEST_STEP:
            return
        step, source = number + self._shift, writer_of(row)
        concepts_by_name = self._meanings.setdefault(source, {})
        if not row.keys() <= concepts_by_name.keys():
            self._learn(source, row)
        concepts = {name: concepts_by_name[name] for name in row if concepts_by_name[name]}
        values = numbers({name: row[name] for name in concepts})
        row_concepts = {concept for name in values for concept in concepts[name]}
        is_completed = self._trainer_step in row
        if is_completed and step <= self._completed:
            self._cut(step - 1, ahead=1)
            self.resumed = step - 1
        if is_completed:
            self._completed = step
        time = row.get("time")
        arrived_at = float(time) if isinstance(time, float | int) and 0 < time < _LATEST else arrived_at
        if row_concepts & _OF_TRAINER or is_completed:
            self.trained.put(step, arrived_at)
        if row_concepts & _OF_ORCHESTRATOR:
            self.collected.put(step, arrived_at)
        of_envs: dict[str, list[float]] = {}
        for name, value in values.items():
            for concept in concepts[name]:
                if concept == "env_reward":
                    of_envs.setdefault(env_of(name), []).append(value)
                else:
                    self._put(concept, SeriesKey(source, name), step, value)
        for env, share in cancelled_evals(row).items():
            self.cancelled_evals.setdefault(env, Track()).put(step, share)
        for env, rewards in of_envs.items():
            self.env_rewards.setdefault(env, LeveledTrack()).put(step, statistics.fmean(rewards))

    def rewind(self, step: int) -> None:
        """The run goes on after `step`, counted from 1."""
        self._cut(step, ahead=0)
        self.resumed = step

    def restarted(self) -> None:
        """A program of the run was started again."""
        self.resumed = self._completed

    def _put(self, concept: str, key: SeriesKey, step: int, value: float) -> None:
        if concept == "eval":
            self.evals.setdefault(key, Track()).put(step, value)
            return
        (self.levels.get(concept) or self._tracks.setdefault(concept, Track())).put(step, value)

    def _cut(self, step: int, *, ahead: int) -> None:
        """Drop later steps; of the orchestrator's metrics, `ahead` steps more stay."""
        self._completed = min(self._completed, step)
        by_concept: dict[str, Track | LeveledTrack] = {**self._tracks, **self.levels}
        for concept, values in by_concept.items():
            values.cut(step + (ahead if concept in _OF_ORCHESTRATOR else 0))
        for track in (*self.evals.values(), *self.cancelled_evals.values(), self.trained):
            track.cut(step)
        self.collected.cut(step + ahead)
        for reward in self.env_rewards.values():
            reward.cut(step + ahead)

    def _learn(self, source: str, new: Collection[str]) -> None:
        """Assign concepts to new names: the best series of a concept may be another now."""
        unknown = [SeriesKey(source, name) for name in new if name not in self._meanings[source]]
        self._meanings[source].update((key.name, ()) for key in unknown)
        if not any(find_all(id_, unknown) for id_ in _CONCEPTS):
            return
        keys = [SeriesKey(source_, name) for source_, names in self._meanings.items() for name in names]
        self.has_agents = bool(find_all("seat_reward", keys))
        concepts_by_key: dict[SeriesKey, list[str]] = {key: [] for key in keys}
        for id_ in _CONCEPTS:
            concept, best = concept_of(id_), find_all(id_, keys)
            for key in best if concept is not None and concept.many else best[:1]:
                concepts_by_key[key].append(id_)
        for key, ids in concepts_by_key.items():
            self._meanings[key.source][key.name] = tuple(ids)
