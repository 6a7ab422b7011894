"""Measurements that belong to a config: the time of a step, and the tokens of a rollout."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui.base.kinds import is_number
from rltui.base.text import group_digits
from rltui.core import hints
from rltui.core.config.batch import convert, other_way
from rltui.core.config.report import BatchUnit, Conversion, DerivedValue, KnobTable
from rltui.core.metrics.progress import MetricSeries
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.config.files import read_snapshot, snapshot_dir
from rltui.services.experiment.files import ControlFolder

_TOKENS, _ROLLOUTS = "tokens", "rollouts"


class StepTimes:
    def __init__(
        self, framework: Framework, control: ControlFolder, series: Callable[[], MetricSeries]
    ) -> None:
        self._framework = framework
        self._control = control
        self._series = series
        self._configs: dict[int, ConfigFiles] = {}
        """Step, counted from 1 → the config it ran with."""
        self._snapshot: tuple[Path | None, ConfigFiles] = (None, {})

    def update(self) -> None:
        """Assign new steps to the config that ran last. Call it when a config's last process ends."""
        steps = [step for step, _ in self._series().recent(self._framework.progress.names.step_time)]
        if any(step not in self._configs for step in steps):
            ran = self._newest_snapshot()
            self._configs = {step: self._configs.get(step, ran) for step in steps}

    def derive(self, files: ConfigFiles) -> tuple[DerivedValue, ...]:
        """The framework's derived values, and the time of a step if steps were measured."""
        derived = self._framework.config.derive(files)
        self.update()
        series = self._series()
        names = self._framework.config.batch_knobs(files)
        mean_rollout = series.mean(names.token_metric) if names is not None else None
        mean = mean_rollout.value if mean_rollout is not None else None
        size, unit = self._size(files, derived, mean)
        if size is None and self._batch_values(files) is not None:
            return derived  # the batch cannot be read
        samples = [
            StepSample(
                step=step + series.first_step - 1,
                seconds=values[self._framework.progress.names.step_time],
                size=self._recorded_size(self._configs.get(step, {}), unit, mean),
            )
            for step, values in series.recent(self._framework.progress.names.step_time)
        ]
        estimate = estimate_step(samples, size=size, unit=unit)
        return derived if estimate is None else (*derived, estimate)

    def _newest_snapshot(self) -> ConfigFiles:
        attempts = [attempt for attempt in self._control.newest_attempts() if snapshot_dir(attempt).is_dir()]
        newest = max(attempts, key=lambda attempt: snapshot_dir(attempt).stat().st_mtime, default=None)
        if newest is not None and newest != self._snapshot[0]:
            try:
                self._snapshot = (newest, read_snapshot(newest, self._framework))
            except ConfigError:  # damaged: nothing is known of the config then
                self._snapshot = (newest, {})
        return self._snapshot[1]

    def _recorded_size(self, files: ConfigFiles, unit: str, mean: float | None) -> float | None:
        if not files:
            return None
        size, same_unit = self._size(files, self._framework.config.derive(files), mean)
        return size if same_unit == unit else None

    def _size(
        self, files: ConfigFiles, derived: tuple[DerivedValue, ...], mean: float | None
    ) -> tuple[float | None, str]:
        """Work of one step and its unit: tokens, or rollouts where their tokens are unknown."""
        values = self._batch_values(files)
        if values is None:
            return next(
                (_number(item.value) for item in derived if item.name == "tokens per step"), None
            ), _TOKENS
        tokens, rollouts = values
        if tokens is not None or rollouts is None:
            return tokens, _TOKENS
        return (rollouts * mean, _TOKENS) if mean is not None else (rollouts, _ROLLOUTS)

    def _batch_values(self, files: ConfigFiles) -> tuple[float | None, float | None] | None:
        """Tokens and rollouts of a batch, as configured; `None` for a run without rollouts."""
        names = self._framework.config.batch_knobs(files)
        if names is None:
            return None
        values = self._framework.config.values_of(self._framework.config.knobs(files), files)
        tokens = values.get(names.token_batch_size)
        return _number(tokens), _number(values[names.batch_size])


def _number(value: object) -> float | None:
    """`None` unless it is above 0."""
    return float(value) if is_number(value) and value > 0 else None


def conversion(
    framework: Framework,
    files: ConfigFiles,
    table: KnobTable,
    series: MetricSeries,
    *,
    to: BatchUnit | None = None,
    mean_tokens: float | None = None,
) -> Conversion:
    """Count the batch of `files`, with this knob table, the other way; with `to`, only if it is that way.

    `mean_tokens` is the mean number of tokens of an accepted rollout, by default that of the recent steps in
    `series`; without any the result has no edits.

    Raises:
        ConfigError: if the batch cannot be counted otherwise, or a knob of it has a wrong value.
    """
    names = framework.config.batch_knobs(files)
    rows = {knob.key: knob for knob in table.knobs}
    way = other_way(names, rows)
    if names is None or way is None:
        raise ConfigError(
            f"these files of {framework.title} have only one unit for the batch",
            hint="nothing to convert",
        )
    if to is not None and to != way:
        raise ConfigError(
            f"the batch is already given in {to}",
            hint=f"{hints.CONVERT(way=way)} converts back",
        )
    mean_rollout = series.mean(names.token_metric)
    mean = (
        mean_tokens if mean_tokens is not None else mean_rollout.value if mean_rollout is not None else None
    )
    if mean is None:
        return Conversion(to=way)
    evidence = str(mean_rollout) if mean_tokens is None else None
    try:
        return convert(names, rows, mean_tokens=mean, measured=evidence)
    except ValueError as error:
        raise ConfigError(str(error), hint="nothing was converted") from error


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
    return DerivedValue(name="estimated step time", value=float(f"{seconds:.3g}"), unit="s", text=text)


def _steps(samples: Sequence[StepSample]) -> str:
    first, last = samples[0].step, samples[-1].step
    return f"step {last}" if first == last else f"steps {first} to {last}"
