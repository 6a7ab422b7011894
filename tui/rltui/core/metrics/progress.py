"""Metric rows folded into the progress of a run. Pure; rows come from a JSONL file."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rltui.core.experiment.api import Curve, Progress
from rltui.core.metrics.learning import TARGETS, target_by_metrics
from rltui.core.metrics.series import DownsampledSeries

HISTORY = 200
"""Number of steps stored with all their values."""
_CURVE_POINTS = 400
_LONGEST_RUN_S = 1e10
"""Some 300 years: a longer estimate is dropped."""
LARGEST_STEP = 2**53
"""A larger number is no step."""
_RECENT = 10
"""Number of steps for the estimates of step time and remaining time."""


@dataclass(frozen=True, slots=True)
class MetricNames:
    """Keys of the headline metrics in the metrics file."""

    reward: str = "train/agg/effective/agent/reward/mean"
    reward_of_seats: str = "train/agg/effective/reward/mean"
    """The reward in its place where an episode has several agents (`core/metrics/seats.py`)."""
    reward_all: str = "train/agg/all/agent/reward/mean"
    """Mean that includes rollouts of which nothing could be learned, which are not trained on."""
    trainable: tuple[str, ...] = tuple(
        f"train/agg/effective/{agent}is_trainable/mean" for agent in ("agent/", "")
    )
    """Shares of the rollouts that have an advantage."""
    trainer_step: str = "loss/mean"
    """A key that only the trainer's row of a completed step has."""
    tokens_per_s: str = "perf/throughput"
    step_time: str = "time/step"
    """Key of the trainer's rows, if they have it: an orchestrator that does not wait for it takes less."""
    rollouts: str = "progress/rollouts"
    """Rollouts of a step: the weight of its means."""


@dataclass(frozen=True, slots=True)
class MeanOverSteps:
    """A mean over the recent steps that have a metric."""

    value: float
    first: int
    """First step as the framework numbers it."""
    last: int
    """Steps, as the framework numbers them."""

    def __str__(self) -> str:
        return (
            f"mean of steps {self.first} to {self.last}" if self.first != self.last else f"step {self.last}"
        )


_VERSIONS = (("watcher/policy_version", False), ("policy/version", False), ("policy/applied", True))


def served_version(row: Mapping[str, Any]) -> tuple[int, bool] | None:
    """Version of the weights that the engine samples with, N after step N, and whether it lasts until the
    next row that tells one; `None` if this row does not.
    """
    for name, is_lasting in _VERSIONS:
        value = row.get(name)
        if type(value) in _NUMBERS and math.isfinite(version := _number(value)):
            return int(version), is_lasting
    return None


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The metrics in a row: its numbers, finite or not, without step and time."""
    values = {
        key: value if type(value) is float else _number(value)
        for key, value in row.items()
        if type(value) in _NUMBERS
    }
    values.pop("step", None)
    values.pop("time", None)
    return values


_NUMBERS = frozenset({float, int})
"""Excludes `bool`."""


def _number(value: Any) -> float:  # noqa: ANN401 - an int or a float
    """An integer that is too large for a float becomes infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@dataclass(slots=True)
class MetricSeries:
    """Last value per (step, key): after a resume, repeated steps overwrite the earlier ones.

    A row whose step lies before the newest means that the run resumed: everything after it is void.
    """

    names: MetricNames
    first_step: int = 1
    """Number that the framework gives to the first step."""
    steps: dict[int, dict[str, float]] = field(default_factory=dict)
    """Step, counted from 1 whatever the framework does → key → value."""
    completed: int = 0
    """Steps that the trainer has completed."""
    curve: DownsampledSeries = field(default_factory=lambda: DownsampledSeries(_CURVE_POINTS))
    """The reward of the whole run."""
    targets: dict[str, DownsampledSeries] = field(default_factory=dict)
    """Concept of what runs without rewards learn by → its values of the whole run."""
    is_rewarded: bool = False
    """Some rollout had an advantage."""
    served: int | None = None
    """Version of the weights that the engine samples with."""
    _trainer_is_timed: bool = False
    """A row of the trainer has had its step time: those of other programs do not count."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one row. Rows without a step, but for the version of the weights, and values that are no finite
        numbers, are ignored.

        A step whose loss is not finite is completed all the same.
        """
        if (version := served_version(row)) is not None:
            self.served = version[0]
        number = row.get("step")
        if not isinstance(number, int) or abs(number) > LARGEST_STEP:
            return
        step = number - self.first_step + 1
        row_values = numbers(row)
        values = {key: value for key, value in row_values.items() if math.isfinite(value)}
        if self.names.reward_of_seats in values:
            values[self.names.reward] = values[self.names.reward_of_seats]
        is_of_trainer = self.names.trainer_step in row_values
        if is_of_trainer:
            if step <= self.completed:
                self.rewind(step)
            self.completed = step
        if self.names.step_time in values:
            if is_of_trainer and not self._trainer_is_timed:
                self._trainer_is_timed = True
                for step_values in self.steps.values():
                    step_values.pop(self.names.step_time, None)
            elif self._trainer_is_timed and not is_of_trainer:
                del values[self.names.step_time]
        self.steps.setdefault(step, {}).update(values)
        if self.names.reward in values:
            self.curve.add(step, values[self.names.reward])
        for concept, (key, _, sign) in TARGETS.items():
            if key in values:
                target = self.targets.setdefault(concept, DownsampledSeries(_CURVE_POINTS))
                target.add(step, sign * values[key])
        self.is_rewarded = self.is_rewarded or any(values.get(key, 0.0) > 0 for key in self.names.trainable)
        for old in sorted(self.steps)[:-HISTORY]:
            del self.steps[old]

    def rewind(self, step: int) -> None:
        """Go back: the run goes on after `step`, and the trainer's steps after it are void."""
        self.completed = min(self.completed, step)
        for void_step in [number for number in self.steps if number > step + 1]:
            del self.steps[void_step]
        self.curve.cut(step + 1)
        for target in self.targets.values():
            target.cut(step)

    def newest(self, key: str) -> float | None:
        """Value of the highest step that has it."""
        for step in sorted(self.steps, reverse=True):
            if (value := self.steps[step].get(key)) is not None:
                return value
        return None

    def recent(self, *keys: str) -> list[tuple[int, dict[str, float]]]:
        """Step, counted from 1, and values of the newest steps that have all `keys`, oldest first."""
        complete_steps = [step for step in sorted(self.steps) if all(key in self.steps[step] for key in keys)]
        return [(step, self.steps[step]) for step in complete_steps[-_RECENT:]]

    @property
    def step_time_s(self) -> float | None:
        """Median of the recent steps."""
        times = [values[self.names.step_time] for _, values in self.recent(self.names.step_time)]
        return statistics.median(times) if times else None

    def mean(self, key: str) -> MeanOverSteps | None:
        """Mean over the recent steps, weighted by rollouts if each step has them; `None` if no step has the
        key.
        """
        values_by_step = self.recent(key)
        if not values_by_step:
            return None
        weights = [values.get(self.names.rollouts, 0.0) for _, values in values_by_step]
        if min(weights) <= 0:
            weights = [1.0] * len(values_by_step)
        total = sum(values[key] * weight for (_, values), weight in zip(values_by_step, weights, strict=True))
        first, last = values_by_step[0][0], values_by_step[-1][0]
        shift = self.first_step - 1
        return MeanOverSteps(total / sum(weights), first + shift, last + shift)

    def progress(self, max_steps: int | None) -> Progress:
        names = self.names
        rewards = self._values(names.reward)
        last = max((step for step, values in self.steps.items() if names.reward in values), default=None)
        reward_all = None if last is None else self.steps[last].get(names.reward_all)
        if reward_all is not None and math.isclose(reward_all, rewards[-1]):  # added in another order
            reward_all = None
        step_time = self.step_time_s
        remaining = min(max(0, max_steps - self.completed), LARGEST_STEP) if max_steps is not None else None
        eta_s = remaining * step_time if remaining is not None and step_time is not None else None
        return Progress(
            step=self.completed,
            max_steps=max_steps,
            reward=rewards[-1] if rewards else None,
            reward_all=reward_all,
            rewards=rewards,
            curve=self.curve.points(),
            target=self._target(),
            served=self.served,
            tokens_per_s=self.newest(names.tokens_per_s),
            step_time_s=step_time,
            eta_s=eta_s if eta_s is not None and 0 <= eta_s < _LONGEST_RUN_S else None,
        )

    def _target(self) -> Curve | None:
        known = {*self.targets, *(["reward"] if self.curve.points() else [])}
        concept = target_by_metrics(known, is_rewarded=self.is_rewarded)
        return Curve(title=TARGETS[concept][1], points=self.targets[concept].points()) if concept else None

    def _values(self, key: str) -> tuple[float, ...]:
        """Values of the steps that have it, oldest first."""
        return tuple(self.steps[step][key] for step in sorted(self.steps) if key in self.steps[step])
