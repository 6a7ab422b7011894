from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rltui.base.text import duration, truncate
from rltui.core import hints
from rltui.core.experiment.states import Role
from rltui.core.runs.evals import Difference, EvalReport, Evaluation, QueuedEval, baseline, difference
from rltui.views.table import Cell, Column, Order, View

_LABEL_WIDTH = 28
"""Width of a label on the screen."""
_KINDS = ("base", "sft", "checkpoint", "model")
_OF_RUN = ("checkpoint", "now")
_ROLES: dict[str, Role] = {"▲": "good", "▼": "bad"}


@dataclass(frozen=True, slots=True)
class ComparedEvaluation:
    """An evaluation, and the one that it is compared with."""

    evaluation: Evaluation
    to: Evaluation | None
    """Itself, where a person chose it for the others to be compared with."""
    difference: Difference | None
    """`None`: there is nothing to compare it with, or they measure different things."""
    run: int
    """Number of the run whose weights it is of, from 1 on by their first evaluations; 0: of none."""
    is_only_run: bool

    @property
    def is_baseline(self) -> bool:
        return self.to == self.evaluation


def compared(
    evaluations: Sequence[Evaluation], reference: Evaluation | None = None
) -> list[ComparedEvaluation]:
    """Each with its difference to the chosen one, else to the one that suggests itself."""
    by_time = sorted(evaluations, key=lambda evaluation: evaluation.at)
    runs = [*dict.fromkeys(evaluation.run for evaluation in by_time if evaluation.run)]
    rows = []
    for evaluation in evaluations:
        compared_to = reference or baseline(evaluations, evaluation)
        gap = (
            difference(evaluation, compared_to)
            if compared_to is not None and compared_to != evaluation
            else None
        )
        run = runs.index(evaluation.run) + 1 if evaluation.run else 0
        rows.append(ComparedEvaluation(evaluation, compared_to, gap, run, is_only_run=len(runs) < 2))
    return rows


def _note_text(row: ComparedEvaluation, _: float) -> str:
    verdict, text = row.evaluation.verdict, row.evaluation.words
    if verdict == "ok":
        return text
    return f"{verdict}: {text}" if text else verdict


def _short_label(row: ComparedEvaluation, _: float) -> str:
    label = truncate(row.evaluation.label.rpartition("/")[2], _LABEL_WIDTH)
    return label if row.is_only_run or not row.run else f"{label} (run {row.run})"


def _standing(row: ComparedEvaluation, _: float) -> Cell:
    """The difference from the baseline, or the reason why there is none."""
    if not row.evaluation.is_sound:
        return Cell(f"⚠ {row.evaluation.verdict}")
    if row.is_baseline:
        return Cell("baseline")
    text = "" if row.difference is None else row.difference.words
    return Cell(text, _ROLES.get(text[-1:]))


def _by_kind(row: ComparedEvaluation) -> tuple[object, ...]:
    evaluation = row.evaluation
    kind = "checkpoint" if evaluation.kind in _OF_RUN else evaluation.kind
    return (evaluation.env, _KINDS.index(kind), row.run, evaluation.step or 0, evaluation.at)


VIEW: View[ComparedEvaluation] = View(
    key=lambda row: row.evaluation.id,
    columns=(
        Column("experiment", lambda row, _: row.evaluation.experiment, least=10, cut="middle"),
        Column("id", lambda row, _: row.evaluation.id),
        Column("what", lambda row, _: row.evaluation.label, least=12, cut="middle", brief=_short_label),
        Column(
            "env",
            lambda row, _: row.evaluation.env,
            least=12,
            goes=2,
            brief=lambda row, _: row.evaluation.env.rpartition("/")[2],
        ),
        Column(
            "examples",
            lambda row, _: f"{row.evaluation.num_examples} × {row.evaluation.rollouts_per_example}",
            goes=6,
        ),
        Column("reward", lambda row, _: row.evaluation.reward_text),
        Column(
            "std",
            lambda row, _: "" if row.evaluation.std is None else f"{row.evaluation.std:.3f}",
            is_right=True,
            goes=5,
        ),
        Column(
            "difference",
            lambda row, _: f"{row.difference.words} to {row.to.id}" if row.difference and row.to else "",
            brief=_standing,
        ),
        Column("cut off", lambda row, _: _share(row.evaluation.truncated_frac), is_right=True, goes=1),
        Column("failed", lambda row, _: _share(row.evaluation.failed_frac), is_right=True, goes=4),
        Column("when", lambda row, now: duration(now - row.evaluation.at), is_right=True, goes=3),
        Column("note", _note_text, least=12),
    ),
    orders={
        "kind": Order("from base to the last step", _by_kind),
        "newest": Order("newest first", lambda row: -row.evaluation.at),
        "best": Order(
            "highest first",
            lambda row: (
                row.evaluation.env,
                not row.evaluation.is_sound,
                -(row.evaluation.mean or 0.0),
                row.evaluation.at,
            ),
        ),
    },
)


def evaluation_details(row: ComparedEvaluation) -> list[tuple[str, str]]:
    """All that is known of one, as labels and texts."""
    evaluation = row.evaluation
    size = f"{evaluation.num_examples} examples"
    rows = [
        ("because", evaluation.words),
        ("compared", _comparison_text(row)),
        ("model", evaluation.model),
        ("rewards", _rewards_text(evaluation)),
        ("env", f"{size} of {evaluation.env}, {evaluation.rollouts_per_example} rollouts each"),
        ("took", duration(evaluation.seconds) if evaluation.seconds else ""),
        ("samples", evaluation.results),
        ("command", shlex.join(evaluation.command)),
    ]
    return [(label, text) for label, text in rows if text]


def _comparison_text(row: ComparedEvaluation) -> str:
    reference = row.to
    if reference is None or row.is_baseline or not row.evaluation.is_sound:
        return ""
    if row.difference is None:
        return f"not comparable with {reference.label}, evaluated on {reference.env}"
    examples = row.difference.examples
    method = f"paired over {examples} examples" if examples else "unpaired"
    return f"with {reference.label} (#{reference.id}): {row.difference.words}, {method}"


def _rewards_text(evaluation: Evaluation) -> str:
    if evaluation.mean is None:
        return ""
    std = "" if evaluation.std is None else f", std {evaluation.std:.3f}"
    rates = ((evaluation.truncated_frac, "cut off"), (evaluation.failed_frac, "failed"))
    bad = "".join(f", {100 * rate:.0f} % {label}" for rate, label in rates if rate)
    return f"mean {evaluation.mean:.3f} of {evaluation.rollouts}{std}{bad}"


def queued_text(queued: QueuedEval, now: float) -> str:
    """`◐ checkpoint 20 · 24/60 rollouts · asked for by eval_every · 31s`."""
    is_running = queued.state == "running"
    since = queued.started_at if is_running else queued.at
    facts = [queued.label, queued.words]
    who = queued.actor.short if queued.actor is not None and queued.actor.is_agent else queued.by
    facts += [f"requested by {who}"] if who != "you" else []
    facts += [duration(max(0.0, now - since))] if since else []
    return f"{'◐' if is_running else '◌'} {' · '.join(filter(None, facts))}"


_SHOWN = 4
"""Number of the newest evaluations of the run itself that are listed for an environment."""


def training_lines(report: EvalReport) -> list[str]:
    """Tell those of the run itself, a line for each environment, the newest first: `reverse-text while
    training: 0.412 at step 50, cancelled at 25`.
    """
    lines = []
    for env in dict.fromkeys(evaluation.env for evaluation in report.training):
        newest = [evaluation for evaluation in report.training if evaluation.env == env][-_SHOWN:]
        first, *others = (
            ("cancelled" if evaluation.mean is None else f"{evaluation.mean:.3f}", evaluation.step)
            for evaluation in reversed(newest)
        )
        texts = [f"{first[0]} at step {first[1]}", *(f"{result} at {step}" for result, step in others)]
        lines.append(f"{env} while training: {', '.join(texts)}")
    return lines


def _share(frac: float) -> str:
    return f"{100 * frac:.0f} %" if frac else ""


def order_text(every: int) -> str:
    return "every checkpoint" if every == 1 else f"1 in {every} checkpoints"


def eval_summary(report: EvalReport, name: str | None = None) -> list[str]:
    """Lines about running and waiting evaluations, and the standing order.

    `name`: of the run, where a command has to name it.
    """
    lines = [f"{queued.id}: {queued.label}: {queued.words}" for queued in report.queue]
    if report.every:
        never = hints.EVAL_NEVER(name=name)
        lines.append(f"{order_text(report.every)} is evaluated automatically (turn off: {never})")
    return [*lines, *training_lines(report)]
