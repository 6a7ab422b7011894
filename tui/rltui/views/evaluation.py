"""Evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.core import hints
from rltui.core.text import duration

if TYPE_CHECKING:
    from rltui.core.evals import Difference, EvalReport, Evaluation


EVAL_HEAD = (
    "id", "what", "on", "asked", "reward", "spread", "difference", "cut off", "failed", "when", "note",
)  # fmt: skip
"""Above the columns of `eval_cells`."""


def eval_cells(
    evaluation: Evaluation, compared: Difference | None, to: Evaluation | None, now: float
) -> tuple[str, ...]:
    """`3`, `checkpoint 20`, `reverse-text`, `20 × 3`, `0.812 ± 0.021`, `0.110`, `+0.312 ± 0.041 ▲ to 1`,
    `2 %`, `0 %`, `12m`, and what is wrong with it.

    `compared`: with `to`, where there is a baseline.
    """
    note = evaluation.words
    if evaluation.verdict != "ok":
        note = f"{evaluation.verdict}: {note}" if note else evaluation.verdict
    return (
        evaluation.id,
        evaluation.label,
        evaluation.env,
        f"{evaluation.num_examples} × {evaluation.rollouts_per_example}",
        evaluation.reward_text,
        "" if evaluation.std is None else f"{evaluation.std:.3f}",
        f"{compared.words} to {to.id}" if compared is not None and to is not None else "",
        _share(evaluation.truncated_frac),
        _share(evaluation.failed_frac),
        duration(now - evaluation.at),
        note,
    )


def _share(frac: float) -> str:
    return f"{100 * frac:.0f} %" if frac else ""


def eval_summary(report: EvalReport) -> list[str]:
    """What runs and waits, and the standing order: a line each."""
    lines = [f"{each.id}: {each.label}: {each.words}" for each in report.queue]
    if report.every:
        which = "every checkpoint" if report.every == 1 else f"one of {report.every} checkpoints"
        lines.append(f"{which} is evaluated ({hints.EVAL_NEVER} ends that)")
    return lines
