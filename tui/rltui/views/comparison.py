"""Comparisons of runs: rows of the runs themselves, of the config keys, metrics and evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from rltui.base.markdown import table
from rltui.base.text import count_text, display_unit, format_number, value_text
from rltui.core import hints
from rltui.core.metrics.levels import LEVEL_STEPS, MetricLevel
from rltui.core.runs.compare import ComparedEvals, ComparedMetric, Comparison
from rltui.core.runs.row import RunRow
from rltui.core.runs.scores import ScoreVerdict
from rltui.frameworks import packages
from rltui.views.run import column_of

BEST = " ▲"
"""Suffix of the value of a run that is better than the one it was compared with, example by example."""
_MOST_COLUMNS = 8
_NOTHING = "—"
_ALWAYS = ("state", "step", "duration", "gpu_hours")
_WHERE_DIFFERENT = (
    *("tags", "parent", "framework", "generation", "commit"),
    *packages.LISTED,
    *("driver", "host", "gpus"),
)
"""Columns of a list of runs."""


class ComparedRow(NamedTuple):
    part: Literal["run", "config", "metric", "eval"]
    label: str
    cells: tuple[str, ...]
    """One per run, in their order."""
    best: frozenset[int] = frozenset()
    """Indices of the runs that are better than the first, known only from evaluations of the same
    examples.
    """


def remark_text(comparison: Comparison) -> str:
    """The limits of these numbers in words; empty if evaluations of the same examples settle it."""
    gaps = [gap for evals in comparison.evaluations for gap in evals.differences if gap is not None]
    if any(gap.examples for gap in gaps) or len(comparison.runs) < 2:
        return ""
    what = f"evaluate them on the same examples: {hints.EVAL}"
    if gaps:
        seeds = any(evals.key.rpartition(".")[2] == "seed" for evals in comparison.differing)
        reason = ", because their seeds differ" if seeds else ""
        return f"their evaluations used different examples{reason}; which run is better is unknown"
    return f"± is the std over steps; to know which run is better, {what}"


def verdict_text(verdict: ScoreVerdict) -> str:
    """`worse: -0.031 (95 %: -0.041 to -0.021), reward to step 200, 3 seeds a side` …"""
    if verdict.diff is None:
        text = "unknown"
    else:
        bounds = verdict.ci95
        interval = "" if bounds is None else f" (95 %: {bounds[0]:+.3g} to {bounds[1]:+.3g})"
        seeds = count_text(verdict.seeds, "seed")
        text = f"{verdict.verdict}: {verdict.diff:+.3g}{interval}, {verdict.on}, {seeds} a side"
    return f"{text}\n{verdict.next}" if verdict.next else text


def compared_rows(comparison: Comparison, *, all_keys: bool = False) -> tuple[ComparedRow, ...]:
    """Rows for people: state of each run, the keys in which they differ, their metrics."""
    keys = comparison.keys if all_keys else comparison.differing
    return (
        *_run_rows(comparison.runs),
        *(
            ComparedRow(
                "config",
                compared.key,
                tuple(_NOTHING if value is None else value_text(value) for value in compared.values),
            )
            for compared in keys
        ),
        *(row for metric in comparison.metrics for row in _metric_rows(metric)),
        *(row for compared in comparison.evaluations for row in _eval_rows(comparison.runs, compared)),
    )


def markdown_table(comparison: Comparison, *, all_keys: bool = False) -> str:
    """The rows as a table: a column per run, or a row per run if there are many."""
    rows, names = compared_rows(comparison, all_keys=all_keys), [run.name for run in comparison.runs]
    texts = [
        [f"{cell}{BEST if index in row.best else ''}" for index, cell in enumerate(row.cells)] for row in rows
    ]
    labels = [row.label for row in rows]
    if len(names) <= _MOST_COLUMNS:
        body = [[label, *cells] for label, cells in zip(labels, texts, strict=True)]
        return table(["", *names], body, numeric=True)
    columns = zip(*texts, strict=True)
    body = [[name, *cells] for name, cells in zip(names, columns, strict=True)]
    return table(["", *labels], body, numeric=True)


def _run_rows(runs: Sequence[RunRow]) -> Iterator[ComparedRow]:
    """State, steps, time and GPU hours; all other columns only if they differ."""
    names: dict[str, str] = {run.id: run.name for run in runs}
    for id_ in (*_ALWAYS, *_WHERE_DIFFERENT):
        column = column_of(id_)
        texts = [column.text(run, now=0.0, names=names) for run in runs]
        if any(texts) and (id_ in _ALWAYS or len(set(texts)) > 1):
            yield ComparedRow("run", column.heading, tuple(text or _NOTHING for text in texts))


def _metric_rows(metric: ComparedMetric) -> Iterator[ComparedRow]:
    unit, step = display_unit(metric.unit), metric.common_step
    unit = f" ({unit})" if unit else ""
    by_batch = any(summary.level is not None for summary in metric.summaries)
    labels = {"last": "last", "level": f"last {LEVEL_STEPS}"}
    if step is not None:
        labels["common_level" if by_batch else "common"] = f"{'to' if by_batch else 'at'} step {step}"
    for field, label in labels.items():
        cells = [_value_cell(getattr(summary, field), metric.unit) for summary in metric.summaries]
        if any(cells):
            texts = tuple(cell or _NOTHING for cell in cells)
            yield ComparedRow("metric", f"{metric.id} {label}{unit}", texts)


def _value_cell(value: float | MetricLevel | None, unit: str) -> str:
    if value is None:
        return ""
    return value.text(unit) if isinstance(value, MetricLevel) else format_number(value, unit)


def _eval_rows(runs: Sequence[RunRow], compared: ComparedEvals) -> Iterator[ComparedRow]:
    labels = tuple(
        _NOTHING if evaluation is None else evaluation.label for evaluation in compared.evaluations
    )
    yield ComparedRow("eval", f"{compared.env}, weights", labels)
    rewards = tuple(
        _NOTHING if evaluation is None else evaluation.reward_text for evaluation in compared.evaluations
    )
    yield ComparedRow("eval", f"{compared.env}, reward", rewards)
    if any(gap is not None for gap in compared.differences):
        first = next(index for index, evaluation in enumerate(compared.evaluations) if evaluation is not None)
        gaps = ["" if gap is None else gap.words.removesuffix(BEST) for gap in compared.differences]
        better = {index for index, gap in enumerate(compared.differences) if gap and gap.standing == "better"}
        label = f"{compared.env}, against {runs[first].name}"
        yield ComparedRow("eval", label, tuple(gap or _NOTHING for gap in gaps), frozenset(better))
