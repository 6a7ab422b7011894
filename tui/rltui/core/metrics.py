"""Metric rows folded into the progress of a run. Pure; rows come from a JSONL file."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltui.core.api import Alert, Progress
from rltui.core.config_report import DerivedValue
from rltui.core.kinds import is_number
from rltui.core.series import DownsampledSeries
from rltui.core.text import group_digits, join_some

_LARGE_STEP = 10.0
"""A learning rate that changes by more than this factor is seldom meant."""


def large_step(key: str, old: object, new: object) -> str | None:
    """A warning about a new learning rate that is far from the last one; `None` for any other change."""
    if key.rpartition(".")[2] not in ("lr", "learning_rate"):
        return None
    if not (is_number(old) and is_number(new) and 0 < old < math.inf and 0 < new < math.inf):
        return None
    factor = max(new / old, old / new)
    if factor <= _LARGE_STEP * (1 + 1e-9):
        return None
    direction = "higher" if new > old else "lower"
    return f"{new:g} is {factor:,.0f} times {direction} than {old:g}; is that intended?"


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
    reward_all: str = "train/agg/all/agent/reward/mean"
    """Mean that includes rollouts of which nothing could be learned, which are not trained on."""
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


def _number(value: float) -> float:
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
    _trainer_is_timed: bool = False
    """A row of the trainer has had its step time: those of other programs do not count."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one row. Rows without a step, and values that are no finite numbers, are ignored.

        A step whose loss is not finite is completed all the same.
        """
        number = row.get("step")
        if not isinstance(number, int) or abs(number) > LARGEST_STEP:
            return
        step = number - self.first_step + 1
        row_values = numbers(row)
        values = {key: value for key, value in row_values.items() if math.isfinite(value)}
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
        for old in sorted(self.steps)[:-HISTORY]:
            del self.steps[old]

    def rewind(self, step: int) -> None:
        """Go back: the run goes on after `step`, and the trainer's steps after it are void."""
        self.completed = min(self.completed, step)
        for void_step in [number for number in self.steps if number > step + 1]:
            del self.steps[void_step]
        self.curve.cut(step + 1)

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
        step_time = self.step_time_s
        remaining = min(max(0, max_steps - self.completed), LARGEST_STEP) if max_steps is not None else None
        eta_s = remaining * step_time if remaining is not None and step_time is not None else None
        return Progress(
            step=self.completed,
            max_steps=max_steps,
            reward=rewards[-1] if rewards else None,
            reward_all=None if reward_all in rewards[-1:] else reward_all,
            rewards=rewards,
            curve=self.curve.points(),
            tokens_per_s=self.newest(names.tokens_per_s),
            step_time_s=step_time,
            eta_s=eta_s if eta_s is not None and 0 <= eta_s < _LONGEST_RUN_S else None,
        )

    def _values(self, key: str) -> tuple[float, ...]:
        """Values of the steps that have it, oldest first."""
        return tuple(self.steps[step][key] for step in sorted(self.steps) if key in self.steps[step])


_NAMED_METRICS = 3
"""Number of metrics named in one alert; a diverged run has dozens at once."""

ADVICE = "Further training is likely wasted: go back to an earlier checkpoint with a lower learning rate"


@dataclass(frozen=True, slots=True)
class NonFinite:
    key: str
    value: float
    step: int | None
    component: str | None
    """The component that wrote the row, if known."""

    def __str__(self) -> str:
        step = f" at step {self.step}" if self.step is not None else ""
        component = f" ({self.component})" if self.component else ""
        return f"{self.key} is {self.value}{step}{component}"


@dataclass(slots=True)
class NonFiniteWatch:
    writer: Callable[[Mapping[str, Any]], str | None]
    """Returns the component that wrote a row."""
    now: dict[str, NonFinite] = field(default_factory=dict)
    """The metrics whose newest value is not finite."""
    _unreported: list[NonFinite] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        for key, value in numbers(row).items():
            if math.isfinite(value):
                self.now.pop(key, None)
            elif key not in self.now:
                step = row.get("step")
                step_ = step if isinstance(step, int) else None
                self.now[key] = NonFinite(key, value, step_, self.writer(row))
                self._unreported.append(self.now[key])

    def take(self) -> tuple[NonFinite, ...]:
        """The metrics that became non-finite since the last `take`, oldest first, even if they are finite
        again.
        """
        reported, self._unreported = tuple(self._unreported), []
        return reported


def non_finite_alerts(values: Iterable[NonFinite]) -> tuple[Alert, ...]:
    """One alert per component that has such a metric."""
    by_component: dict[str | None, list[NonFinite]] = {}
    for item in values:
        by_component.setdefault(item.component, []).append(item)
    return tuple(_alert(component, items) for component, items in by_component.items())


def _alert(component: str | None, items: Sequence[NonFinite]) -> Alert:
    text = join_some([*map(str, items)], _NAMED_METRICS)
    title = "a metric is not finite" if len(items) == 1 else f"{len(items)} metrics are not finite"
    return Alert(kind="metric", severity="error", title=title, text=f"{text}. {ADVICE}", component=component)


NAME = "estimated step time"


@dataclass(frozen=True, slots=True)
class StepSample:
    step: int
    """Number given by the framework."""
    seconds: float
    size: float | None
    """Amount of work, in the unit of the step to come; `None`: unknown."""


def estimate_step(samples: Sequence[StepSample], *, size: float | None, unit: str) -> DerivedValue | None:
    """The time of a step of `size` units, at the pace of the last measured steps, all of one size.

    `samples`: oldest first. `None` if they do not suffice. One way for every config: an edit that does not
    change the size does not change the estimate.
    """
    same_size = [sample for sample in samples if sample.size == samples[-1].size]
    if not same_size:
        return None
    old_size, seconds = same_size[-1].size, statistics.median(sample.seconds for sample in same_size)
    if seconds <= 0:
        return None
    if size == old_size:
        return _estimate(seconds, f"median of {_steps(same_size)}")
    if not size or not old_size:
        return None
    pace = f"{group_digits(old_size)} in {seconds:.3g} s, the median of {_steps(same_size)}"
    return _estimate(size * seconds / old_size, f"{group_digits(size)} {unit} per step at a pace of {pace}")


def _estimate(seconds: float, text: str) -> DerivedValue:
    return DerivedValue(name=NAME, value=float(f"{seconds:.3g}"), unit="s", text=text)


def _steps(samples: Sequence[StepSample]) -> str:
    first, last = samples[0].step, samples[-1].step
    return f"step {last}" if first == last else f"steps {first} to {last}"
