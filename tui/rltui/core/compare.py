"""Runs beside each other: the config keys in which they differ, their metrics and evaluations. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rltui.core import hints
from rltui.core.config_data import Leaves, replaced
from rltui.core.evals import Difference, Evaluation, difference
from rltui.core.levels import LEVEL_STEPS, Level, best_level, level_of
from rltui.core.markdown import table
from rltui.core.metric_names import CONCEPTS, MetricConcept, concept_of, find, find_all
from rltui.core.run_columns import column_of
from rltui.core.runs import RunRow
from rltui.core.secrets import MASK, OTHER_MASK, masked
from rltui.core.series import NO_STEP, Series, SeriesKey, SeriesSource
from rltui.core.text import did_you_mean, figure, shown_unit, value_text
from rltui.core.toml.values import TomlValue, same_value
from rltui.errors import UsageError

_USUAL = ("reward", "eval", "loss", "val_loss", "entropy", "kl", "seq_len", "step_time", "tokens_per_s")
"""Concepts that are compared unless a person names others: those of them that a run has."""
_OWN_FOLDER = "{folder}"
"""In place of a run's own folder in its values: each has another, and that is no difference."""

_OWN_KEY = "output_dir"
"""Last part of keys in which any two runs differ: no difference, as in `RunRow.changed`."""
BEST = " ▲"
"""Behind the figure of a run that is better than the one it was compared with, example by example."""
_MOST_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class ComparedKey:
    key: str
    values: tuple[Any, ...]
    """Of each run, in their order; `None` where one has none. Secrets are masked."""
    differs: bool


@dataclass(frozen=True, slots=True)
class MetricFigures:
    """What a metric of one run comes to; `None` where it is not known."""

    last: float | None = None
    best: float | None = None
    """In the direction that is good for it, as in `RunRow.metrics`; of a metric that has none, `None`."""
    common: float | None = None
    """At `ComparedMetric.common_step`, or the last value before."""
    level: Level | None = None
    """Over the last steps, of a metric that comes by batches."""
    common_level: Level | None = None
    """Over those up to `ComparedMetric.common_step`."""


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    id: str
    """Of its concept, else the name of the series."""
    title: str
    unit: str
    better: Literal["higher", "lower", ""]
    figures: tuple[MetricFigures, ...]
    """Of each run, in their order."""
    common_step: int | None
    """The last step that all runs which have it have come to; `None` where fewer than two have it."""


@dataclass(frozen=True, slots=True)
class ComparedEvals:
    env: str
    evaluations: tuple[Evaluation | None, ...]
    """Of each run, in their order."""
    differences: tuple[Difference | None, ...]
    """Of each run to the first one that has an evaluation, which has none itself."""


@dataclass(frozen=True, slots=True)
class Comparison:
    runs: tuple[RunRow, ...]
    keys: tuple[ComparedKey, ...]
    """All that any of them has, by name."""
    metrics: tuple[ComparedMetric, ...]
    evaluations: tuple[ComparedEvals, ...] = ()

    @property
    def remark(self) -> str:
        """What these figures cannot say, in words; empty where evaluations of the same examples say it."""
        gaps = [gap for each in self.evaluations for gap in each.differences if gap is not None]
        if any(gap.examples for gap in gaps) or len(self.runs) < 2:
            return ""
        what = f"evaluate them on the same examples: {hints.EVAL}"
        if gaps:
            seeds = any(each.key.rpartition(".")[2] == "seed" for each in self.differing)
            why = ", because their seeds differ" if seeds else ""
            return f"their evaluations asked other examples{why}: which run is better is not known"
        return f"± is the deviation of single steps; to know which run is better, {what}"

    @property
    def differing(self) -> tuple[ComparedKey, ...]:
        return tuple(each for each in self.keys if each.differs)

    def rows(self, *, all_keys: bool = False) -> tuple[ComparedRow, ...]:
        """As people read it: how each run did, the keys in which they differ, their metrics."""
        keys = self.keys if all_keys else self.differing
        return (
            *_run_rows(self.runs),
            *(
                ComparedRow(
                    "config",
                    each.key,
                    tuple(_NOTHING if value is None else value_text(value) for value in each.values),
                )
                for each in keys
            ),
            *(row for metric in self.metrics for row in _metric_rows(metric)),
            *(row for each in self.evaluations for row in _eval_rows(self.runs, each)),
        )

    def markdown(self, *, all_keys: bool = False) -> str:
        """Its rows as a table: a column for each run, or a row for each where there are many."""
        rows, names = self.rows(all_keys=all_keys), [run.name for run in self.runs]
        told = [
            [f"{cell}{BEST if at in row.best else ''}" for at, cell in enumerate(row.cells)] for row in rows
        ]
        labels = [row.label for row in rows]
        if len(names) <= _MOST_COLUMNS:
            rows_told = [[label, *cells] for label, cells in zip(labels, told, strict=True)]
            return table(["", *names], rows_told, figures=True)
        columns = zip(*told, strict=True)
        rows_told = [[name, *cells] for name, cells in zip(names, columns, strict=True)]
        return table(["", *labels], rows_told, figures=True)


class ComparedRow(NamedTuple):
    part: Literal["run", "config", "metric", "eval"]
    label: str
    cells: tuple[str, ...]
    """Of each run, in their order."""
    best: frozenset[int] = frozenset()
    """Places of the runs that are better than the first, which only evaluations of the same examples say."""


def comparison(
    runs: Sequence[RunRow],
    configs: Mapping[str, Leaves],
    metrics: Sequence[ComparedMetric] = (),
    evaluations: Sequence[ComparedEvals] = (),
) -> Comparison:
    """`configs`: by id of a run, dotted key → value, as the index has them."""
    told = _with_defaults(runs, [configs.get(run.id, {}) for run in runs])
    flat: list[Leaves] = []
    for run, config in zip(runs, told, strict=True):
        own = {folder: _OWN_FOLDER for folder in (run.folder, run.run_dir) if len(folder) > 1}
        flat.append({key: replaced(value, own) for key, value in config.items()})
    keys = sorted({key for config in flat for key in config})
    return Comparison(
        runs=tuple(runs),
        keys=tuple(
            ComparedKey(
                key=key,
                values=_told(key, [config.get(key) for config in told]),
                differs=key.rpartition(".")[2] != _OWN_KEY
                and not all(_are_alike(flat[0].get(key), config.get(key)) for config in flat[1:]),
            )
            for key in keys
        ),
        metrics=tuple(metrics),
        evaluations=tuple(evaluations),
    )


def _with_defaults(runs: Sequence[RunRow], configs: Sequence[Leaves]) -> list[Leaves]:
    """What one run sets and another leaves to its default, as far as the index tells the default: a run
    without a parent has it in `changed`, or has set the default itself.
    """
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for run, config in zip(runs, configs, strict=True):
        if run.framework and not run.parent:
            defaults = known.setdefault((run.framework, run.generation), {})
            for key, value in config.items():
                if key.rpartition(".")[2] != _OWN_KEY:
                    defaults.setdefault(key, run.changed.get(key, (value, value))[0])
    return [
        {**known.get((run.framework, run.generation), {}), **config}
        for run, config in zip(runs, configs, strict=True)
    ]


def _told(key: str, values: Sequence[TomlValue]) -> tuple[Any, ...]:
    """Secrets are masked, and unlike the first one where they are."""
    shown = [masked(key, value) for value in values]
    return tuple(
        OTHER_MASK if each == MASK and value != values[0] else each
        for each, value in zip(shown, values, strict=True)
    )


def _are_alike(one: TomlValue, other: TomlValue) -> bool:
    """`1` and `1.0` train alike."""
    numbers = (int, float)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return isinstance(one, bool) == isinstance(other, bool) and one == other
    return same_value(one, other)


# --- metrics ----------------------------------------------------------------------------------------------


def compared_metrics(
    runs: Sequence[RunRow], sources: Sequence[SeriesSource | None], wanted: Sequence[str] = ()
) -> tuple[ComparedMetric, ...]:
    """Those that are `wanted` (ids of concepts, names of series), else the usual ones that a run has.

    `sources`: the series of each run; `None` where there are none, and only the row tells. Blocking.

    Raises:
        UsageError: if no run has one that is wanted.
    """
    names = wanted or [
        id_ for id_ in _USUAL if any(_has(*each, id_) for each in zip(runs, sources, strict=True))
    ]
    return tuple(_compared(name, runs, sources) for name in names)


def _has(run: RunRow, source: SeriesSource | None, id_: str) -> bool:
    return id_ in run.metrics or (source is not None and find(id_, source.keys()) is not None)


def _compared(name: str, runs: Sequence[RunRow], sources: Sequence[SeriesSource | None]) -> ComparedMetric:
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
        figures=tuple(
            _figures(run, name, line, step, by_batch=concept is None or concept.by_batch, better=better)
            for run, line in zip(runs, lines, strict=True)
        ),
        common_step=step,
    )


def _line(source: SeriesSource, name: str, concept: MetricConcept | None) -> Series | None:
    """The line that counts, without what is no number."""
    keys = source.keys()
    if concept is not None:
        key = find(concept.id, keys)
    else:
        key = next((key for key in keys if name in (key.name, f"{key.source}:{key.name}")), None)
    if key is None:
        return None
    line, _ = source.read(key).lines(source.rewinds())
    kept = Series()
    for step, at, value in zip(line.steps, line.times, line.values, strict=True):
        if math.isfinite(value):
            kept.add(step, at, value)
    return kept


def _figures(
    run: RunRow, name: str, line: Series | None, step: int | None, *, by_batch: bool, better: str
) -> MetricFigures:
    """By its series; where there are none, as the index has them."""
    if line is None or not len(line):
        last, best = run.metrics.get(name, (None, None))
        return MetricFigures(last, best, level=run.levels.get(name))
    values = line.values
    if by_batch or not better:
        best = best_level(values, better)
    else:
        best = max(values) if better == "higher" else min(values)
    place = 0 if step is None else bisect_right(line.steps, step)
    return MetricFigures(
        last=values[-1],
        best=best,
        common=values[place - 1] if place else None,
        level=level_of(values) if by_batch else None,
        common_level=level_of(values[:place]) if by_batch else None,
    )


def _unknown(name: str, sources: Sequence[SeriesSource | None]) -> UsageError:
    keys = set[SeriesKey]().union(*(source.keys() for source in sources if source is not None))
    if not keys:
        return UsageError(f"none of these runs has {name}", hint="no series of theirs is there any more")
    there = [concept.id for concept in CONCEPTS if find_all(concept.id, keys)]
    guess = did_you_mean(name, [*there, *(key.name for key in keys)])
    return UsageError(
        f"no metric of these runs is called {name!r}", hint=f"{guess} they have: {', '.join(there)}".strip()
    )


def compared_evals(evaluations: Sequence[Sequence[Evaluation]]) -> tuple[ComparedEvals, ...]:
    """Of the evaluations of each run, oldest first, by environment: the newest of weights that it trained."""
    newest = [
        {each.env: each for each in own if each.is_sound and each.kind in ("checkpoint", "now")}
        for own in evaluations
    ]
    found = []
    for env in dict.fromkeys(env for own in newest for env in own):
        of_runs = tuple(own.get(env) for own in newest)
        first = next(each for each in of_runs if each is not None)
        gaps = tuple(None if each is None or each is first else difference(each, first) for each in of_runs)
        found.append(ComparedEvals(env, of_runs, gaps))
    return tuple(found)


# --- text -------------------------------------------------------------------------------------------------

_NOTHING = "—"
_ALWAYS = ("state", "step", "duration", "gpu_hours")
_WHERE_DIFFERENT = ("tags", "parent", "framework", "generation", "commit", "prime-rl", "verifiers", "vllm",
                    "torch", "driver", "host", "gpus")  # fmt: skip
"""Columns of a list of runs."""


def _run_rows(runs: Sequence[RunRow]) -> Iterator[ComparedRow]:
    """State, steps, time and GPU hours; of all else only that in which they differ."""
    names: dict[str, str] = {run.id: run.name for run in runs}
    for id_ in (*_ALWAYS, *_WHERE_DIFFERENT):
        column = column_of(id_)
        texts = [column.text(run, now=0.0, names=names) for run in runs]
        if any(texts) and (id_ in _ALWAYS or len(set(texts)) > 1):
            yield ComparedRow("run", column.heading, tuple(text or _NOTHING for text in texts))


def _metric_rows(metric: ComparedMetric) -> Iterator[ComparedRow]:
    unit, step = shown_unit(metric.unit), metric.common_step
    unit = f" ({unit})" if unit else ""
    by_batch = any(each.level is not None for each in metric.figures)
    labels = {"last": "last", "level": f"last {LEVEL_STEPS}"}
    if step is not None:
        labels["common_level" if by_batch else "common"] = f"{'to' if by_batch else 'at'} step {step}"
    for field, label in labels.items():
        cells = [_figure_cell(getattr(figures, field), metric.unit) for figures in metric.figures]
        if any(cells):
            texts = tuple(cell or _NOTHING for cell in cells)
            yield ComparedRow("metric", f"{metric.id} {label}{unit}", texts)


def _figure_cell(value: float | Level | None, unit: str) -> str:
    if value is None:
        return ""
    return value.text(unit) if isinstance(value, Level) else figure(value, unit)


def _eval_rows(runs: Sequence[RunRow], found: ComparedEvals) -> Iterator[ComparedRow]:
    labels = tuple(_NOTHING if each is None else each.label for each in found.evaluations)
    yield ComparedRow("eval", f"{found.env}, weights", labels)
    rewards = tuple(_NOTHING if each is None else each.reward_text for each in found.evaluations)
    yield ComparedRow("eval", f"{found.env}, reward", rewards)
    if any(gap is not None for gap in found.differences):
        first = next(at for at, each in enumerate(found.evaluations) if each is not None)
        gaps = ["" if gap is None else gap.words.removesuffix(BEST) for gap in found.differences]
        better = {at for at, gap in enumerate(found.differences) if gap and gap.standing == "better"}
        label = f"{found.env}, against {runs[first].name}"
        yield ComparedRow("eval", label, tuple(gap or _NOTHING for gap in gaps), frozenset(better))
