"""Benches, and the ledger of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rltui.base.text import count_text, duration, format_number
from rltui.core import hints
from rltui.core.experiment.states import Role
from rltui.views.table import Cell, Column, View

if TYPE_CHECKING:
    from rltui.core.runs.bench import Bench, BenchTrial

_ROLES: Mapping[str, Role] = {
    "waiting": "faint",
    "running": "busy",
    "baseline": "key",
    "kept": "good",
    "crashed": "bad",
    "stopped": "bad",
    "void": "bad",
}


def _score_text(trial: BenchTrial, _: float) -> str:
    return "" if trial.score is None else f"{format_number(trial.score)} ({len(trial.scores)})"


def _difference_text(trial: BenchTrial, _: float) -> str:
    verdict = trial.verdict
    if verdict is None or verdict.diff is None or verdict.ci95 is None:
        return ""
    low, high = map(format_number, verdict.ci95)
    return f"{verdict.diff:+.3g} ({low} to {high})"


def _cost_text(trial: BenchTrial, _: float) -> str:
    gpu = f" · {trial.gpu_s / 3600:.2g} GPU h" if trial.gpu_s else ""
    return f"{duration(trial.wall_s)}{gpu}" if trial.wall_s else ""


LEDGER: View[BenchTrial] = View(
    key=lambda trial: str(trial.number),
    columns=(
        Column("trial", lambda trial, _: str(trial.number), heading="#", is_right=True),
        Column("change", lambda trial, _: trial.change, least=14),
        Column("who", lambda trial, _: trial.by.short, least=6, goes=4),
        Column("score", _score_text, is_right=True),
        Column("difference", _difference_text, is_right=True, goes=2),
        Column("verdict", lambda trial, _: Cell(trial.state, _ROLES.get(trial.state))),
        Column("cost", _cost_text, is_right=True, goes=3),
        Column("why", lambda trial, _: trial.why or trial.by.reason, least=14),
    ),
)

BENCHES: View[Bench] = View(
    key=lambda bench: bench.name,
    columns=(
        Column("bench", lambda bench, _: bench.name, least=10, cut="middle"),
        Column("state", lambda bench, _: bench.state),
        Column("metric", lambda bench, _: bench.metric, least=6),
        Column("trials", lambda bench, _: f"{len(bench.tried)}/{len(bench.trials) - 1}", is_right=True),
        Column("kept", lambda bench, _: str(_kept(bench)), is_right=True),
        Column("best", lambda bench, _: _score_text(bench.trials[bench.best], 0), is_right=True),
        Column("change", lambda bench, _: bench.winning_change, least=10, goes=1),
    ),
)


def _kept(bench: Bench) -> int:
    return sum(trial.state == "kept" for trial in bench.trials)


def bench_notices(bench: Bench) -> list[str]:
    """What a bench is, does and has found, in sentences."""
    gpu = f", {bench.gpu_s / 3600:.2g} GPU hours" if bench.gpu_s else ""
    arrow = "↑" if bench.better == "higher" else "↓"
    seeds = f"{bench.seeds} seeds ({bench.seed_key})" if bench.seed_key else f"{bench.seeds} repeats"
    tried = (
        f"{len(bench.tried)} of {count_text(len(bench.trials) - 1, 'trial')} tried, {_kept(bench)} kept{gpu}"
    )
    facts = (bench.state, f"{bench.metric} {arrow}", seeds, tried, f"budget {bench.budget.text}")
    lines = [f"{bench.name}: {' · '.join(facts)}"]
    lines += [f"ended: {bench.ended}"] if bench.ended else []
    if bench.state == "idle":
        lines.append(f"waits for trials: {hints.BENCH_TRY(name=bench.name)}")
    if bench.best:
        promote = hints.BENCH_PROMOTE(run=bench.trials[bench.best].runs[0].name)
        lines.append(f"best: {bench.winning_change} (trial {bench.best}); to write it down: {promote}")
    return lines


def bench_hint() -> str:
    return f"No bench yet: {hints.BENCH}"


def trial_details(trial: BenchTrial) -> list[tuple[str, str]]:
    """What the ledger has no room for: labels with texts."""
    results = (
        "…" if run.state != "ended" else run.why or format_number(run.score or 0) for run in trial.runs
    )
    scores = ", ".join(f"{run.name} {result}" for run, result in zip(trial.runs, results, strict=True))
    built_on = f"trial {trial.base}" if trial.base else "the baseline"
    return [
        ("change", trial.change),
        ("reason", trial.by.reason),
        ("why", trial.why),
        ("who", trial.by.text),
        ("builds on", built_on if trial.number and trial.runs else ""),
        ("difference", _difference_text(trial, 0)),
        ("runs", scores),
    ]


def bench_document(bench: Bench) -> dict[str, Any]:
    """The bench for programs, without what starts its runs."""
    document = bench.to_plain()
    for key in ("request", "surroundings", "options", "id"):
        del document[key]
    for trial, shown in zip(bench.trials, document["trials"], strict=True):
        del shown["files"]
        shown |= {"score": trial.score, "wall_s": trial.wall_s, "gpu_s": trial.gpu_s}
    return {**document, "state": bench.state, "winning_edits": bench.winning_edits}


def ledger_rows(bench: Bench, now: float) -> list[list[str]]:
    """The ledger as texts, its headings first, for files."""
    rows = [[column.cell(trial, now).text for column in LEDGER.columns] for trial in bench.trials]
    return [[column.title for column in LEDGER.columns], *rows]
