"""Metric rows folded into the figures of a run. Pure; rows come from a JSONL file."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rltui.core.api import Progress
from rltui.core.run_health import collapse, dead_entropy, held_level, no_signal

HISTORY = 200
"""Steps kept for the sparkline."""
LONGEST_RUN_S = 1e10
"""Some 300 years: no estimate."""
LARGEST_STEP = 2**53
"""What is more is no step."""
RECENT = 10
"""Steps that the step time and the time left are estimated from."""


@dataclass(frozen=True, slots=True)
class MetricNames:
    """Keys of the headline figures in the metrics file."""

    reward: str = "train/agg/effective/agent/reward/mean"
    trainer_step: str = "loss/mean"
    """A key that only the trainer's row of a completed step has."""
    tokens_per_s: str = "perf/throughput"
    step_time: str = "time/step"
    rollouts: str = "progress/rollouts"
    """Rollouts of a step: how much its means weigh."""
    entropy: str = "entropy/all/mean"
    gradient: str = "optim/grad_norm"


@dataclass(frozen=True, slots=True)
class Measured:
    """A mean over the recent steps that have a metric."""

    value: float
    first: int
    last: int
    """Steps, as the framework numbers them."""

    def __str__(self) -> str:
        return (
            f"mean of steps {self.first} to {self.last}" if self.first != self.last else f"step {self.last}"
        )


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The metrics in a row: its numbers, finite or not, without step and time."""
    return {
        key: _number(value)
        for key, value in row.items()
        if key not in ("step", "time") and isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _number(value: float) -> float:
    """An integer that is too large for a float is as good as infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@dataclass(slots=True)
class MetricSeries:
    """Last value per (step, key): after a resume, repeated steps overwrite the earlier ones.

    A row whose step lies before the newest means that the run resumed: what lies beyond it is void.
    """

    names: MetricNames
    first_step: int = 1
    """Number that the framework gives to the first step."""
    steps: dict[int, dict[str, float]] = field(default_factory=dict)
    """By number, counted from 1 whatever the framework does."""
    completed: int = 0
    """Steps that the trainer has completed."""
    best_reward: float | None = None
    """The highest level that the reward has held, also before the steps that are kept."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Take in one row. Rows without a step, and values that are no finite numbers, are ignored.

        A step whose loss is not finite is completed all the same.
        """
        number = row.get("step")
        if not isinstance(number, int) or abs(number) > LARGEST_STEP:
            return
        step = number - self.first_step + 1
        found = numbers(row)
        values = {key: value for key, value in found.items() if math.isfinite(value)}
        if self.names.trainer_step in found:
            if step <= self.completed:
                self.rewind(step)
            self.completed = step
        self.steps.setdefault(step, {}).update(values)
        if self.names.reward in values and (level := held_level(self._values(self.names.reward))) is not None:
            self.best_reward = max(level, self.best_reward or level)
        for old in sorted(self.steps)[:-HISTORY]:
            del self.steps[old]

    def rewind(self, step: int) -> None:
        """The run goes on behind `step`. What the trainer had completed after it is void."""
        self.completed = min(self.completed, step)
        for later in [known for known in self.steps if known > step + 1]:
            del self.steps[later]
        levels = self._values(self.names.reward)
        held = [level for end in range(len(levels)) if (level := held_level(levels[: end + 1])) is not None]
        self.best_reward = max(held, default=None)

    def newest(self, key: str) -> float | None:
        """Value of the highest step that has it."""
        for step in sorted(self.steps, reverse=True):
            if (value := self.steps[step].get(key)) is not None:
                return value
        return None

    def recent(self, *keys: str) -> list[tuple[int, dict[str, float]]]:
        """Number, counted from 1, and values of the newest steps that have all `keys`, oldest first."""
        having = [step for step in sorted(self.steps) if all(key in self.steps[step] for key in keys)]
        return [(step, self.steps[step]) for step in having[-RECENT:]]

    @property
    def step_time_s(self) -> float | None:
        """Median of the recent steps."""
        times = [values[self.names.step_time] for _, values in self.recent(self.names.step_time)]
        return statistics.median(times) if times else None

    def mean(self, key: str) -> Measured | None:
        """Mean over the recent steps, by the rollouts in each where all of them say; `None`: none has it."""
        found = self.recent(key)
        if not found:
            return None
        weights = [values.get(self.names.rollouts, 0.0) for _, values in found]
        if min(weights) <= 0:
            weights = [1.0] * len(found)
        total = sum(values[key] * weight for (_, values), weight in zip(found, weights, strict=True))
        first, last = found[0][0], found[-1][0]
        shift = self.first_step - 1
        return Measured(total / sum(weights), first + shift, last + shift)

    def progress(self, max_steps: int | None) -> Progress:
        """The headline figures as of now."""
        head = self.names
        rewards = self._values(head.reward)
        found = (
            collapse(rewards, self.best_reward),
            dead_entropy(self._values(head.entropy), rewards, self.best_reward),
            no_signal(self._values(head.gradient)),
        )
        step_time = self.step_time_s
        left = min(max(0, max_steps - self.completed), LARGEST_STEP) if max_steps is not None else None
        eta_s = left * step_time if left is not None and step_time is not None else None
        return Progress(
            step=self.completed,
            max_steps=max_steps,
            reward=rewards[-1] if rewards else None,
            rewards=rewards,
            tokens_per_s=self.newest(head.tokens_per_s),
            step_time_s=step_time,
            eta_s=eta_s if eta_s is not None and 0 <= eta_s < LONGEST_RUN_S else None,
            concerns=tuple(concern for concern in found if concern is not None),
        )

    def _values(self, key: str) -> tuple[float, ...]:
        """Of the steps that have it, oldest first."""
        return tuple(self.steps[step][key] for step in sorted(self.steps) if key in self.steps[step])
