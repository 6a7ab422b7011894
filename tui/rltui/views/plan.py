"""The effects and costs of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltui.base.text import count_text, duration, join_words, steps_text
from rltui.views.knob import figure_text
from rltui.views.orphan import brief_orphan, by_attempt, orphan_count, orphan_details, owner_text

if TYPE_CHECKING:
    from rltui.core.experiment.api import Lost, Plan


_LABEL_WIDTH = 11
"""Width of the labels of a plan."""


def plan_rows(plan: Plan) -> list[tuple[str, str]]:
    """Labels with their texts: every step, losses, the time it takes, and reasons.

    Labels: `end`, `end first`, `stop`, `start`, `keep`, `lose`, `set aside`, `time`, `memory`, `because`;
    none where a row goes on with what the one before began.
    """
    rows = _ended_rows(plan)
    rows.append(("stop", " → ".join(plan.stop)))
    rows.append(("start", " → ".join(plan.start)))
    rows.append(("keep", f"{join_words(plan.keep)} (not touched)" if plan.keep else ""))
    rows.append(("lose", lost_text(plan.lost)))
    rows.extend(_labelled("set aside", _archived_texts(plan)))
    rows.append(("time", estimate_text(plan)))
    # What will not fit is among the problems.
    rows.extend(_labelled("memory", [verdict.text for verdict in plan.memory if not verdict.is_bad]))
    rows.extend(_labelled("because", plan.reasons))
    return [(label, text) for label, text in rows if text]


def plan_text(plan: Plan) -> str:
    """A plan in lines; ends with a newline unless there is nothing to say."""
    lines = plan.diff.rstrip("\n").split("\n") if plan.diff else []  # only line feeds end a line
    lines.extend(f"{label:<{_LABEL_WIDTH}}{text}" for label, text in plan_rows(plan))
    lines.extend(figure_text(value) for value in plan.derived)
    for problem in plan.problems:
        command = f": {problem.mended_by}" if problem.mended_by else ""
        lines.append(f"{problem.severity}: {problem.text}{command}")
    return "\n".join(lines) + "\n" if lines else ""


def _ended_rows(plan: Plan) -> list[tuple[str, str]]:
    """A question about processes shows all facts; elsewhere a process has one line."""
    if plan.action == "free":
        return [row for orphan in plan.free for row in _labelled("end", orphan_details(orphan))]
    lines: list[str] = []
    for group in by_attempt(plan.free):
        lines.append(f"{orphan_count(group)} of {owner_text(group[0])}:")
        lines.extend(map(brief_orphan, group))
    return _labelled("end first", lines)


def _archived_texts(plan: Plan) -> list[str]:
    """`checkpoints 430 to 500 (8), rollouts 421 to 512 (92)`, and where they are kept."""
    if not plan.archived:
        return []
    texts = [f"{archived.folder} {steps_text(archived.steps)}".rstrip() for archived in plan.archived]
    return [", ".join(texts), f"moved to {plan.archive}"]


def rows_text(rows: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{label:<{_LABEL_WIDTH}}{text}".rstrip() + "\n" for label, text in rows)


def _labelled(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [("" if position else label, text) for position, text in enumerate(texts)]


def lost_text(loss: Lost) -> str:
    """The steps and rollouts lost, and the step that the run resumes at; empty where it loses nothing."""
    thrown_away = []
    if loss.steps:
        thrown_away.append(count_text(loss.steps, "step"))
    if loss.rollouts:
        thrown_away.append(f"{count_text(loss.rollouts, 'rollout')} in flight")
    goes_on = ""
    if loss.resume_step is not None:
        step = loss.resume_step
        goes_on = f"from the newest checkpoint ({step} now)" if loss.newest else f"resumes after step {step}"
    elif loss.steps:
        goes_on = "starts at step 0"
    if goes_on and not thrown_away:
        return f"nothing · {goes_on}"
    return " · ".join(filter(None, (" and ".join(thrown_away), goes_on)))


def estimate_text(plan: Plan) -> str:
    """The duration, by earlier ones; empty where none is known."""
    if plan.estimate_s is None or not (plan.start or plan.stop):
        return ""
    time = f"about {duration(plan.estimate_s)}" if plan.estimate_s >= 1 else "a moment"
    return f"{'ready' if plan.start else 'done'} in {time}, as before"
