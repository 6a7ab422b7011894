"""The verdict on two groups of runs, by their evaluations or their reward. Pure.

The steps of one run are no sample: they depend on each other, and all of them on its seed. So a run is one
score, runs of one seed are one together, and one run on each side proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from rltui.base.text import join_first
from rltui.core import hints
from rltui.core.runs.compare import Comparison, MetricSummary
from rltui.core.runs.scores import ScoreVerdict, compare_scores

Ground = Literal["eval", "reward"]
"""`eval`: the newest evaluation of trained weights; `reward`: the last quarter of the steps that all have."""


def verdict_of(comparison: Comparison, baseline_count: int, on: Ground | None = None) -> ScoreVerdict:
    """Judge the runs of a comparison after the first `baseline_count` against those.

    `on`: by default evaluations if every run has one of the same environment, else the reward.
    """
    label, scores = _evals(comparison)
    if on == "reward" or (on is None and None in scores):
        label, scores = _rewards(comparison)
    units, cut = _units(comparison), baseline_count
    verdict = compare_scores(_by_unit(scores[cut:], units[cut:]), _by_unit(scores[:cut], units[:cut]))
    missing = [run.name for run, score in zip(comparison.runs, scores, strict=True) if score is None]
    if missing:
        cure = f": {hints.EVAL_CHECKPOINT(name=missing[0])}" if label.startswith("eval") else ""
        verdict = verdict.replace(next=f"no {label.split()[0]} of {join_first(missing, 3)}{cure}")
    return verdict.replace(on=label)


def _evals(comparison: Comparison) -> tuple[str, list[float | None]]:
    """The mean of each run in the environment that most of them have."""
    columns = {
        f"eval {compared.env}": [None if found is None else found.mean for found in compared.evaluations]
        for compared in comparison.evaluations
    }
    nothing: tuple[str, list[float | None]] = ("eval", [None] * len(comparison.runs))
    return min(columns.items(), key=lambda column: column[1].count(None), default=nothing)


def _rewards(comparison: Comparison) -> tuple[str, list[float | None]]:
    """Means over the last quarter of the steps that all have; of runs without series, their last levels."""
    for metric in comparison.metrics:
        if metric.id == "reward":
            step = "" if metric.common_step is None else f" to step {metric.common_step}"
            return f"reward{step}", [_late(summary) for summary in metric.summaries]
    return "reward", [None] * len(comparison.runs)


def _late(summary: MetricSummary) -> float | None:
    return summary.level.mean if summary.common_mean is None and summary.level else summary.common_mean


def _units(comparison: Comparison) -> list[object]:
    """Key of the sample that each run belongs to: its seeds; without any in the configs, the run itself."""
    seeds = [key.values for key in comparison.keys if key.key.rpartition(".")[2] == "seed"]
    if not seeds:
        return [run.id for run in comparison.runs]
    return [
        values if any(value is not None for value in values) else run.id
        for run, values in zip(comparison.runs, zip(*seeds, strict=True), strict=True)
    ]


def _by_unit(scores: Sequence[float | None], units: Sequence[object]) -> list[float]:
    """The mean score of each unit."""
    by_unit: dict[object, list[float]] = {}
    for score, unit in zip(scores, units, strict=True):
        if score is not None:
            by_unit.setdefault(unit, []).append(score)
    return [fmean(group) for group in by_unit.values()]
