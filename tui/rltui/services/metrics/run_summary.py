"""Key metrics of a run for a list of many: last values, levels, a sparkline of its reward."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from rltui.core.logs.source import LogChange
from rltui.core.metrics.levels import LEVEL_STEPS, MetricLevel, block_means, level_of
from rltui.core.metrics.names import CONCEPTS, MetricConcept, find, find_all
from rltui.core.metrics.series import Rewind, Series, SeriesKey, SeriesSource
from rltui.frameworks.base import Framework

_CONCEPTS = tuple(
    concept for concept in CONCEPTS if concept.curated and (not concept.many or concept.id == "eval")
)
"""Excludes concepts that a run has once per environment or device."""
_MEANS = 24
"""Number of points of the sparkline."""

LastAndBest = tuple[float | None, float | None]
"""Last and best value; `None`: there is none, or it is not finite. The best is that of `RunRow.metrics`."""


@dataclass(slots=True)
class _SeriesState:
    points: int = 0
    step: int = -1
    last: float | None = None
    best: float | None = None
    recent: list[float] = field(default_factory=list)
    """The last finite values, as many as a level has."""
    unblocked: list[float] = field(default_factory=list)
    """Finite values after the last complete block."""


class RunSummary:
    """Summary of the series in `source`, updated with their new points. Blocking, for one thread."""

    def __init__(self, source: SeriesSource, framework: Framework) -> None:
        self._source = source
        self._names = framework.progress.names
        self._shift = 1 - framework.run.locations.first_step
        self._rewinds: tuple[Rewind, ...] = ()
        self._states: dict[SeriesKey, _SeriesState] = {}
        self._keys: Mapping[str, SeriesKey] = {}
        """Concept id → the series that represents it."""
        self._evals: Sequence[SeriesKey] = ()
        self._series_keys: tuple[SeriesKey, ...] = ()
        self._reward = Series()
        """The points of the reward."""
        self.metrics: dict[str, LastAndBest] = {}
        """Concept id → last and best value."""
        self.levels: dict[str, MetricLevel] = {}
        """Concept id → level, for concepts with a value per batch."""
        self.sparkline: tuple[float, ...] = ()
        """Mean rewards, as in `RunRow`."""
        self.span: tuple[float, float] | None = None
        """Times at which the first and the last step were written."""
        self.step: int | None = None
        """Number of completed steps; `None`: there is none."""
        self._update()

    def poll(self) -> bool:
        """Process what is new since the last poll. Returns whether anything was."""
        change = self._source.poll()
        if change is LogChange.NONE:
            return False
        if change is LogChange.RESET:
            self._reset()
        self._update()
        return True

    def _reset(self) -> None:
        self._states, self._reward = {}, Series()

    def _update(self) -> None:
        if (rewinds := self._source.rewinds()) != self._rewinds:
            self._rewinds = rewinds
            self._reset()
        if (keys := self._source.keys()) != self._series_keys:
            self._series_keys = keys
            self._keys, self._evals = _known_series(keys)
        self.metrics = {
            concept.id: self._last_and_best(concept) for concept in _CONCEPTS if concept.id in self._keys
        }
        levels = {id_: level_of(self._states[self._keys[id_]].recent) for id_ in self.metrics}
        self.levels = {id_: level for id_, level in levels.items() if level is not None}
        if self._evals:
            self.metrics["eval"] = self._eval_means()
        line, _ = self._reward.lines(self._rewinds)
        self.sparkline = _means([value for value in line.values if math.isfinite(value)])
        self.step = self._completed_step()
        if self._reward:
            self.span = min(self._reward.times), max(self._reward.times)

    def _last_and_best(self, concept: MetricConcept) -> LastAndBest:
        key = self._keys[concept.id]
        state = self._states.setdefault(key, _SeriesState())
        new = self._source.read(key, state.points)
        if state.points and any(step <= state.step for step in new.steps):  # it went back by itself
            new, state = self._source.read(key), _SeriesState()
            self._states[key] = state
            if concept.id == "reward":
                self._reward = Series()
        if concept.id == "reward":
            self._reward.extend(new)
        if new:
            count = state.points + len(new)
            line = new if state.points else new.lines(self._rewinds)[0]
            self._add(state, line, concept)
            state.points = count
        candidates = [] if state.best is None else [state.best]
        if concept.better and (level := level_of(state.recent)) is not None:
            candidates.append(level.mean)
        return state.last, _better(candidates, concept) if candidates else None

    @staticmethod
    def _add(state: _SeriesState, line: Series, concept: MetricConcept) -> None:
        finite = [value for value in line.values if math.isfinite(value)]
        if not line:
            return
        state.step, state.last = line.steps[-1], line.values[-1] if math.isfinite(line.values[-1]) else None
        if concept.by_batch:
            state.recent = [*state.recent, *finite][-LEVEL_STEPS:]
            waiting = [*state.unblocked, *finite]
            finite = block_means(waiting)
            state.unblocked = waiting[len(finite) * LEVEL_STEPS :]
        if finite and concept.better:
            candidates = [] if state.best is None else [state.best]
            state.best = _better([*candidates, *finite], concept)

    def _eval_means(self) -> LastAndBest:
        by_step: dict[int, list[float]] = {}
        for key in self._evals:
            line, _ = self._source.read(key).lines(self._rewinds)
            for step, value in zip(line.steps, line.values, strict=True):
                if math.isfinite(value):
                    by_step.setdefault(step, []).append(value)
        if not by_step:
            return None, None
        means = {step: sum(values) / len(values) for step, values in by_step.items()}
        return means[max(means)], max(means.values())

    def _completed_step(self) -> int | None:
        """The trainer's last step; if unknown, the last with a reward."""
        names = [key for key in self._series_keys if key.name == self._names.trainer_step]
        for key in (*names, self._keys.get("reward")):
            if key is None:
                continue
            state, step = self._states.get(key), None
            if state is not None and state.points:
                step = state.step
            elif line := self._source.read(key).lines(self._rewinds)[0]:
                step = line.steps[-1]
            if step is not None and step >= 0:
                return step + self._shift
        return None


@lru_cache(maxsize=64)
def _known_series(keys: tuple[SeriesKey, ...]) -> tuple[Mapping[str, SeriesKey], Sequence[SeriesKey]]:
    """Concept id → the series that represents it, and those of evaluations. Thousands of runs have few sets
    of series.
    """
    matches = {concept.id: find(concept.id, keys) for concept in _CONCEPTS if not concept.many}
    return {id_: key for id_, key in matches.items() if key is not None}, tuple(find_all("eval", keys))


def _better(values: Sequence[float], concept: MetricConcept) -> float:
    return max(values) if concept.better == "higher" else min(values)


def _means(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= _MEANS:
        return tuple(values)
    edges = [index * len(values) // _MEANS for index in range(_MEANS + 1)]
    # divided first: the largest floats have a mean, too
    blocks = (values[begin:end] for begin, end in pairwise(edges))
    return tuple(math.fsum(value / len(block) for value in block) for block in blocks)
