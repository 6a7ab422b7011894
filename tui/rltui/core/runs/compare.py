"""Comparison of runs: the config keys in which they differ, their metrics and evaluations. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltui.base.secrets import MASK, OTHER_MASK, mask_value
from rltui.base.text import did_you_mean
from rltui.base.toml.values import TomlValue, same_value
from rltui.core.config.data import Leaves, replaced
from rltui.core.metrics.levels import MetricLevel, best_level, late_mean, level_of
from rltui.core.metrics.names import CONCEPTS, Better, MetricConcept, concept_of, find, find_all
from rltui.core.metrics.series import NO_STEP, Series, SeriesKey, SeriesSource
from rltui.core.runs.evals import Difference, Evaluation, difference
from rltui.core.runs.row import RunRow
from rltui.errors import UsageError

_DEFAULT_CONCEPTS = (
    "reward",
    "eval",
    "loss",
    "val_loss",
    "entropy",
    "kl",
    "seq_len",
    "step_time",
    "tokens_per_s",
)
"""Concepts that are compared by default, if a run has them."""
_OWN_FOLDER = "{folder}"
"""Stands in for a run's own folder in its values: each has another, and that is no difference."""

_OWN_KEY = "output_dir"
"""Last segment of keys in which any two runs differ: no difference, as in `RunRow.changed`."""


@dataclass(frozen=True, slots=True)
class ComparedKey:
    key: str
    values: tuple[Any, ...]
    """One per run, in their order; `None` if a run has none. Secrets are masked."""
    differs: bool


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """Summary of one metric of one run; `None` for unknown values."""

    last: float | None = None
    best: float | None = None
    """Best value in the good direction, as in `RunRow.metrics`; `None` for a metric without one."""
    common: float | None = None
    """Value at `ComparedMetric.common_step`, or the last one before it."""
    level: MetricLevel | None = None
    """Level over the last steps, for a metric that comes by batches."""
    common_level: MetricLevel | None = None
    """Level over the steps up to `ComparedMetric.common_step`."""
    common_mean: float | None = None
    """Mean over the last quarter of these steps."""


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    id: str
    """Id of its concept, else the name of the series."""
    title: str
    unit: str
    better: Better
    summaries: tuple[MetricSummary, ...]
    """One per run, in their order."""
    common_step: int | None
    """The last step that all runs with this metric have reached; `None` if fewer than two have it."""


@dataclass(frozen=True, slots=True)
class ComparedEvals:
    env: str
    evaluations: tuple[Evaluation | None, ...]
    """One per run, in their order."""
    differences: tuple[Difference | None, ...]
    """Difference of each run to the first one with an evaluation, which has none itself."""


@dataclass(frozen=True, slots=True)
class Comparison:
    runs: tuple[RunRow, ...]
    keys: tuple[ComparedKey, ...]
    """All keys that any run has, by name."""
    metrics: tuple[ComparedMetric, ...]
    evaluations: tuple[ComparedEvals, ...] = ()

    @property
    def differing(self) -> tuple[ComparedKey, ...]:
        return tuple(compared for compared in self.keys if compared.differs)


def comparison(
    runs: Sequence[RunRow],
    configs: Mapping[str, Leaves],
    metrics: Sequence[ComparedMetric] = (),
    evaluations: Sequence[ComparedEvals] = (),
) -> Comparison:
    """Compare runs. `configs`: run id → dotted key → value, as the index has them."""
    complete_configs = _with_defaults(runs, [configs.get(run.id, {}) for run in runs])
    flat: list[Leaves] = []
    for run, config in zip(runs, complete_configs, strict=True):
        own = {folder: _OWN_FOLDER for folder in (run.folder, run.run_dir) if len(folder) > 1}
        flat.append({key: replaced(value, own) for key, value in config.items()})
    keys = sorted({key for config in flat for key in config})
    return Comparison(
        runs=tuple(runs),
        keys=tuple(
            ComparedKey(
                key=key,
                values=_masked_values(key, [config.get(key) for config in complete_configs]),
                differs=key.rpartition(".")[2] != _OWN_KEY
                and not all(_are_alike(flat[0].get(key), config.get(key)) for config in flat[1:]),
            )
            for key in keys
        ),
        metrics=tuple(metrics),
        evaluations=tuple(evaluations),
    )


def _with_defaults(runs: Sequence[RunRow], configs: Sequence[Leaves]) -> list[Leaves]:
    """Configs completed by the defaults of keys that other runs set, as far as the index knows them: a run
    without a parent has the default in `changed`, or has set the default itself.
    """
    default_values: dict[tuple[str, str], dict[str, Any]] = {}
    for run, config in zip(runs, configs, strict=True):
        if run.framework and not run.parent:
            defaults = default_values.setdefault((run.framework, run.generation), {})
            for key, value in config.items():
                if key.rpartition(".")[2] != _OWN_KEY:
                    defaults.setdefault(key, run.changed.get(key, (value, value))[0])
    return [
        {**default_values.get((run.framework, run.generation), {}), **config}
        for run, config in zip(runs, configs, strict=True)
    ]


def _masked_values(key: str, values: Sequence[TomlValue]) -> tuple[Any, ...]:
    """Values with secrets masked; a secret that differs from the first run's gets `OTHER_MASK`."""
    masked_values = [mask_value(key, value) for value in values]
    return tuple(
        OTHER_MASK if masked_value == MASK and value != values[0] else masked_value
        for masked_value, value in zip(masked_values, values, strict=True)
    )


def _are_alike(one: TomlValue, other: TomlValue) -> bool:
    """Whether both train alike: `1` and `1.0` do."""
    numbers = (int, float)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return isinstance(one, bool) == isinstance(other, bool) and one == other
    return same_value(one, other)


# --- metrics ----------------------------------------------------------------------------------------------


def compared_metrics(
    runs: Sequence[RunRow], sources: Sequence[SeriesSource | None], requested: Sequence[str] = ()
) -> tuple[ComparedMetric, ...]:
    """The `requested` metrics (ids of concepts, names of series), else the default ones that a run has.

    `sources`: the series of each run; `None` if there are none, and only the row tells. Blocking.

    Raises:
        UsageError: if no run has a requested one.
    """
    names = requested or [
        id_
        for id_ in _DEFAULT_CONCEPTS
        if any(
            id_ in run.metrics or (source is not None and find(id_, source.keys()) is not None)
            for run, source in zip(runs, sources, strict=True)
        )
    ]
    return tuple(_compare_metric(name, runs, sources) for name in names)


def _compare_metric(
    name: str, runs: Sequence[RunRow], sources: Sequence[SeriesSource | None]
) -> ComparedMetric:
    concept = concept_of(name)
    lines = [None if source is None else _line(source, name, concept) for source in sources]
    if all(line is None for line in lines) and not any(name in run.metrics for run in runs):
        raise _unknown(name, sources)
    ends = [line.steps[-1] for line in lines if line is not None and len(line) and line.steps[-1] != NO_STEP]
    step = min(ends) if len(ends) > 1 else None
    better = "" if concept is None else concept.better
    return ComparedMetric(
        id=name,
        title=name if concept is None else concept.title,
        unit="" if concept is None else concept.unit,
        better=better,
        summaries=tuple(
            _summary(run, name, line, step, by_batch=concept is None or concept.by_batch, better=better)
            for run, line in zip(runs, lines, strict=True)
        ),
        common_step=step,
    )


def _line(source: SeriesSource, name: str, concept: MetricConcept | None) -> Series | None:
    """The line that counts, without values that are not finite."""
    keys = source.keys()
    if concept is not None:
        key = find(concept.id, keys)
    else:
        key = next((key for key in keys if name in (key.name, f"{key.source}:{key.name}")), None)
    if key is None:
        return None
    line, _ = source.read(key).lines(source.rewinds())
    finite = Series()
    for step, time, value in zip(line.steps, line.times, line.values, strict=True):
        if math.isfinite(value):
            finite.add(step, time, value)
    return finite


def _summary(
    run: RunRow, name: str, line: Series | None, step: int | None, *, by_batch: bool, better: str
) -> MetricSummary:
    """Summary from its series; without one, as the index has it."""
    if line is None or not len(line):
        last, best = run.metrics.get(name, (None, None))
        return MetricSummary(last, best, level=run.levels.get(name))
    values = line.values
    if by_batch or not better:
        best = best_level(values, better)
    else:
        best = max(values) if better == "higher" else min(values)
    stop = 0 if step is None else bisect_right(line.steps, step)
    return MetricSummary(
        last=values[-1],
        best=best,
        common=values[stop - 1] if stop else None,
        level=level_of(values) if by_batch else None,
        common_level=level_of(values[:stop]) if by_batch else None,
        common_mean=late_mean(values[:stop]) if by_batch else None,
    )


def _unknown(name: str, sources: Sequence[SeriesSource | None]) -> UsageError:
    keys = set[SeriesKey]().union(*(source.keys() for source in sources if source is not None))
    if not keys:
        return UsageError(f"no metric {name} in these runs", hint="the metrics of these runs were deleted")
    available_ids = [concept.id for concept in CONCEPTS if find_all(concept.id, keys)]
    guess = did_you_mean(name, [*available_ids, *(key.name for key in keys)])
    return UsageError(
        f"unknown metric: {name}",
        hint=f"{guess} available: {', '.join(available_ids)}".strip(),
    )


def compared_evals(evaluations: Sequence[Sequence[Evaluation]]) -> tuple[ComparedEvals, ...]:
    """The newest evaluation of trained weights for each run and environment, from those of each run, oldest
    first.
    """
    newest = [
        {
            evaluation.env: evaluation
            for evaluation in evals_of_run
            if evaluation.is_sound and evaluation.kind in ("checkpoint", "now")
        }
        for evals_of_run in evaluations
    ]
    compared = []
    for env in dict.fromkeys(env for evals_of_run in newest for env in evals_of_run):
        of_runs = tuple(evals_of_run.get(env) for evals_of_run in newest)
        first = next(evaluation for evaluation in of_runs if evaluation is not None)
        gaps = tuple(
            None if evaluation is None or evaluation is first else difference(evaluation, first)
            for evaluation in of_runs
        )
        compared.append(ComparedEvals(env, of_runs, gaps))
    return tuple(compared)
