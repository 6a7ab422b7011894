"""What a run has measured of its config: the time of a step, and the tokens of a rollout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rltui.core import hints
from rltui.core.batch import Way, convert, other_way
from rltui.core.config_report import Conversion, DerivedValue, KnobTable
from rltui.core.metrics import MetricSeries, StepSample, estimate_step
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFiles, Framework, values_of
from rltui.services.config.files import load_snapshot
from rltui.services.runs.experiment_files import ControlFolder

_TOKENS, _ROLLOUTS = "tokens", "rollouts"


class StepTimes:
    def __init__(
        self, framework: Framework, control: ControlFolder, series: Callable[[], MetricSeries]
    ) -> None:
        self._framework = framework
        self._control = control
        self._series = series
        self._configs: dict[int, ConfigFiles] = {}
        """By step, counted from 1."""
        self._snapshot: tuple[Path | None, ConfigFiles] = (None, {})

    def look(self) -> None:
        """Steps that are new were measured with the config that ran last. To be called when one ends."""
        measured = [step for step, _ in self._series().recent(self._framework.metrics.step_time)]
        if any(step not in self._configs for step in measured):
            ran = self._ran_last()
            self._configs = {step: self._configs.get(step, ran) for step in measured}

    def derive(self, files: ConfigFiles) -> tuple[DerivedValue, ...]:
        """The framework's figures, and the time of a step where steps were measured."""
        figures = self._framework.derive(files)
        self.look()
        series = self._series()
        names = self._framework.batch_knobs(files)
        measured = series.mean(names.token_metric) if names is not None else None
        mean = measured.value if measured is not None else None
        size, unit = self._size(files, figures, mean)
        if size is None and self._batch_values(files) is not None:
            return figures  # the batch cannot be read
        samples = [
            StepSample(
                step=step + series.first_step - 1,
                seconds=values[self._framework.metrics.step_time],
                size=self._size_then(self._configs.get(step, {}), unit, mean),
            )
            for step, values in series.recent(self._framework.metrics.step_time)
        ]
        found = estimate_step(samples, size=size, unit=unit)
        return figures if found is None else (*figures, found)

    def _ran_last(self) -> ConfigFiles:
        folders = [folder / "config" for folder in self._control.newest_attempts()]
        newest = max(
            (folder for folder in folders if folder.is_dir()),
            key=lambda folder: folder.stat().st_mtime,
            default=None,
        )
        if newest is not None and newest != self._snapshot[0]:
            try:
                self._snapshot = (newest, load_snapshot(newest, self._framework))
            except ConfigError:  # damaged: nothing is known of the config then
                self._snapshot = (newest, {})
        return self._snapshot[1]

    def _size_then(self, files: ConfigFiles, unit: str, mean: float | None) -> float | None:
        if not files:
            return None
        size, same_unit = self._size(files, self._framework.derive(files), mean)
        return size if same_unit == unit else None

    def _size(
        self, files: ConfigFiles, figures: tuple[DerivedValue, ...], mean: float | None
    ) -> tuple[float | None, str]:
        """What a step works through: tokens, or rollouts where nobody knows their tokens."""
        values = self._batch_values(files)
        if values is None:
            return next(
                (_number(item.value) for item in figures if item.name == "tokens per step"), None
            ), _TOKENS
        tokens, rollouts = values
        if tokens is not None or rollouts is None:
            return tokens, _TOKENS
        return (rollouts * mean, _TOKENS) if mean is not None else (rollouts, _ROLLOUTS)

    def _batch_values(self, files: ConfigFiles) -> tuple[float | None, float | None] | None:
        """Tokens and rollouts of a batch, as configured; `None` for a run without rollouts."""
        names = self._framework.batch_knobs(files)
        if names is None:
            return None
        values = values_of(self._framework.knobs(files), files, self._framework)
        tokens = values.get(names.token_batch_size)
        return _number(tokens), _number(values[names.batch_size])


def _number(value: object) -> float | None:
    """A number above 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value > 0 else None  # type: ignore[arg-type,operator]


def conversion(
    framework: Framework,
    files: ConfigFiles,
    table: KnobTable,
    series: MetricSeries,
    *,
    to: Way | None = None,
    mean_tokens: float | None = None,
) -> Conversion:
    """The batch of `files`, with this knob table, counted the other way; with `to`, only if it is that way.

    Without `mean_tokens`, the tokens of a mean accepted rollout, those of the recent steps in `series` count;
    where they say nothing, the result has no edits.

    Raises:
        ConfigError: if the batch cannot be counted otherwise, or a knob of it has a wrong value.
    """
    names = framework.batch_knobs(files)
    rows = {knob.key: knob for knob in table.knobs}
    way = other_way(names, rows)
    if names is None or way is None:
        raise ConfigError(
            f"{framework.title} counts a batch in one way only, at least in these files",
            hint="there is nothing to convert",
        )
    if to is not None and to != way:
        raise ConfigError(
            f"the batch is counted in {to} already",
            hint=f"{hints.CONVERT(way=way)} does the opposite",
        )
    measured = series.mean(names.token_metric)
    mean = mean_tokens if mean_tokens is not None else measured.value if measured is not None else None
    if mean is None:
        return Conversion(to=way)
    origin = str(measured) if mean_tokens is None else None
    try:
        return convert(names, rows, mean_tokens=mean, measured=origin)
    except ValueError as error:
        raise ConfigError(str(error), hint="nothing was converted") from error
