"""A few figures of a run, for a list of many: last values, levels, its reward in miniature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rltui.core.levels import LEVEL_STEPS, Level, block_means, level_of
from rltui.core.lines import LogChange
from rltui.core.metric_names import CONCEPTS, MetricConcept, find, find_all
from rltui.core.series import Rewind, Series, SeriesKey, SeriesSource
from rltui.frameworks.base import Framework

_CHOSEN = tuple(each for each in CONCEPTS if each.curated and (not each.many or each.id == "eval"))
"""Not what a run has one of for each environment and device."""
_MEANS = 24
"""Points of the miniature."""

LastAndBest = tuple[float | None, float | None]
"""`None`: there is none, or it is no finite number. The best is that of `RunRow.metrics`."""


@dataclass(slots=True)
class _Seen:
    points: int = 0
    step: int = -1
    last: float | None = None
    best: float | None = None
    recent: list[float] = field(default_factory=list)
    """The last finite ones, as many as a level has."""
    unblocked: list[float] = field(default_factory=list)
    """Finite ones behind the last whole block."""


class RunSummary:
    """Of the series in `source`, kept up to date by what is new in them. Blocking, for one thread."""

    def __init__(self, source: SeriesSource, framework: Framework) -> None:
        self._source = source
        self._names = framework.metrics
        self._shift = 1 - framework.files.first_step
        self._rewinds: tuple[Rewind, ...] = ()
        self._seen: dict[SeriesKey, _Seen] = {}
        self._keys: dict[str, SeriesKey] = {}
        """By id of a concept: its series that counts."""
        self._evals: list[SeriesKey] = []
        self._known: tuple[SeriesKey, ...] = ()
        self._reward = Series()
        """All of its points."""
        self.metrics: dict[str, LastAndBest] = {}
        """By id of a concept."""
        self.levels: dict[str, Level] = {}
        """By id of a concept, of those that come by batches."""
        self.sparkline: tuple[float, ...] = ()
        """As in `RunRow`."""
        self.span: tuple[float, float] | None = None
        """When its first and its last step were written."""
        self.step: int | None = None
        """Completed, counted from 1; `None`: no step was."""
        self._take()

    def look(self) -> bool:
        """Take in what is new since the last look. Returns whether anything was."""
        change = self._source.look()
        if change is LogChange.NONE:
            return False
        if change is LogChange.RESET:
            self._forget()
        self._take()
        return True

    def _forget(self) -> None:
        self._seen, self._reward = {}, Series()

    def _take(self) -> None:
        if (rewinds := self._source.rewinds()) != self._rewinds:
            self._rewinds = rewinds
            self._forget()
        if (keys := self._source.keys()) != self._known:
            self._known = keys
            found = {each.id: find(each.id, keys) for each in _CHOSEN if not each.many}
            self._keys = {id_: key for id_, key in found.items() if key is not None}
            self._evals = find_all("eval", keys)
        self.metrics = {each.id: self._figures(each) for each in _CHOSEN if each.id in self._keys}
        levels = {id_: level_of(self._seen[self._keys[id_]].recent) for id_ in self.metrics}
        self.levels = {id_: level for id_, level in levels.items() if level is not None}
        if self._evals:
            self.metrics["eval"] = self._evaluated()
        line, _ = self._reward.lines(self._rewinds)
        self.sparkline = _means([value for value in line.values if math.isfinite(value)])
        self.step = self._completed()
        if self._reward:
            self.span = min(self._reward.times), max(self._reward.times)

    def _figures(self, concept: MetricConcept) -> LastAndBest:
        key = self._keys[concept.id]
        seen = self._seen.setdefault(key, _Seen())
        new = self._source.read(key, seen.points)
        if seen.points and any(step <= seen.step for step in new.steps):  # it went back by itself
            new, seen = self._source.read(key), _Seen()
            self._seen[key] = seen
            if concept.id == "reward":
                self._reward = Series()
        if concept.id == "reward":
            self._reward.extend(new)
        if new:
            count = seen.points + len(new)
            line = new if seen.points else new.lines(self._rewinds)[0]
            self._add(seen, line, concept)
            seen.points = count
        known = [] if seen.best is None else [seen.best]
        if concept.better and (level := level_of(seen.recent)) is not None:
            known.append(level.mean)
        return seen.last, _better(known, concept) if known else None

    @staticmethod
    def _add(seen: _Seen, line: Series, concept: MetricConcept) -> None:
        finite = [value for value in line.values if math.isfinite(value)]
        if not line:
            return
        seen.step, seen.last = line.steps[-1], line.values[-1] if math.isfinite(line.values[-1]) else None
        if concept.by_batch:
            seen.recent = [*seen.recent, *finite][-LEVEL_STEPS:]
            waiting = [*seen.unblocked, *finite]
            finite = block_means(waiting)
            seen.unblocked = waiting[len(finite) * LEVEL_STEPS :]
        if finite and concept.better:
            known = [] if seen.best is None else [seen.best]
            seen.best = _better([*known, *finite], concept)

    def _evaluated(self) -> LastAndBest:
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

    def _completed(self) -> int | None:
        """The trainer's last step; where none is known, the last with a reward."""
        names = [key for key in self._known if key.name == self._names.trainer_step]
        for key in (*names, self._keys.get("reward")):
            if key is None:
                continue
            seen = self._seen.get(key)
            step = seen.step if seen is not None and seen.points else self._last_step(key)
            if step is not None and step >= 0:
                return step + self._shift
        return None

    def _last_step(self, key: SeriesKey) -> int | None:
        line, _ = self._source.read(key).lines(self._rewinds)
        return line.steps[-1] if line else None


def _better(values: Sequence[float], concept: MetricConcept) -> float:
    return max(values) if concept.better == "higher" else min(values)


def _means(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= _MEANS:
        return tuple(values)
    edges = [index * len(values) // _MEANS for index in range(_MEANS + 1)]
    return tuple(sum(values[begin:end]) / (end - begin) for begin, end in pairwise(edges))
