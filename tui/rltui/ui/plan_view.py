"""A plan in words and colours. Pure functions."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from textual.content import Content

from rltui.core.api import Lost, Orphan, Plan
from rltui.core.config_report import DerivedValue, PendingKnob, Problem
from rltui.core.gpu.report import MemoryVerdict
from rltui.core.text import duration, grouped
from rltui.ui.orphans import brief, by_attempt, count_text, details, owner_text
from rltui.ui.text import clean, clean_line, listed, value_text

_LABEL_WIDTH = 11
_TEXT_WIDTH = 58
"""Fits a dialog on 80 columns."""
_PROBLEM_LOOKS = {
    "error": ("✗", "$text-error"),
    "warning": ("⚠", "$text-warning"),
    "hint": ("·", "$foreground 60%"),
}


def _row(label: str, text: str, style: str = "") -> Content:
    """A label and its text, whose further lines hang under the first."""
    lines = textwrap.wrap(text, _TEXT_WIDTH) or [""]
    hanging = f"\n{' ' * _LABEL_WIDTH}".join(lines)
    return Content.assemble((label.ljust(_LABEL_WIDTH), "$foreground 60%"), (hanging, style))


def lost_text(lost: Lost) -> str:
    """What is thrown away, and where it goes on."""
    goes_on = (
        "starts from the beginning" if lost.resume_step is None else f"resumes after step {lost.resume_step}"
    )
    thrown_away = []
    if lost.steps:
        thrown_away.append(f"{lost.steps} step{'s' if lost.steps > 1 else ''}")
    if lost.rollouts:
        thrown_away.append(f"{lost.rollouts} rollout{'s' if lost.rollouts > 1 else ''} in flight")
    if thrown_away:
        return f"{' and '.join(thrown_away)} · {goes_on}"
    return "" if lost.resume_step is None else f"nothing · {goes_on}"


def estimate_text(plan: Plan) -> str:
    """How long it will take, by how long it took before; empty where that is not known."""
    if plan.estimate_s is None:
        return ""
    time = f"about {duration(plan.estimate_s)}" if plan.estimate_s >= 1 else "a moment"
    return f"{'ready' if plan.start else 'done'} in {time}, as before"


def _orphan_rows(plan: Plan) -> list[Content]:
    """In a question about them, all that is known of each; elsewhere, a line for each."""
    if plan.action == "free":
        return [row for orphan in plan.free for row in _orphan_in_detail(orphan)]
    rows: list[Content] = []
    for group in by_attempt(plan.free):
        rows.append(_row("" if rows else "end first", f"{count_text(group)} of {owner_text(group[0])}:"))
        rows.extend(_row("", brief(orphan)) for orphan in group)
    return rows


def _orphan_in_detail(orphan: Orphan) -> list[Content]:
    name, *facts = details(orphan)
    return [_row("end", name, "bold"), *(_row("", fact) for fact in facts if fact)]


def plan_steps(plan: Plan) -> list[Content]:
    """Who is ended, stops, starts, stays, what is lost, how long it takes: a line each."""
    lines = _orphan_rows(plan)
    if plan.stop:
        lines.append(_row("stop", " → ".join(map(clean_line, plan.stop)), "bold"))
    if plan.start:
        lines.append(_row("start", " → ".join(map(clean_line, plan.start)), "bold"))
    if plan.keep:
        lines.append(_row("keep", f"{listed(tuple(map(clean_line, plan.keep)))} (not touched)"))
    if text := lost_text(plan.lost):
        lines.append(_row("lose", text, "bold $text-warning" if plan.lost.steps else ""))
    if text := estimate_text(plan):
        lines.append(_row("time", text))
    lines.extend(
        _row("" if position else "memory", clean_line(verdict.text))
        for position, verdict in enumerate(good_verdicts(plan))
    )
    lines.extend(
        _row("because" if position == 0 else "", clean_line(reason))
        for position, reason in enumerate(plan.reasons)
    )
    return lines


def good_verdicts(plan: Plan) -> tuple[MemoryVerdict, ...]:
    """What will fit, or cannot be told; what will not is among the problems."""
    return tuple(verdict for verdict in plan.memory if not verdict.is_bad)


def figures(derived: Iterable[DerivedValue], before: Iterable[DerivedValue] = ()) -> list[Content]:
    """`prompts per step 4 → 8`: each with what it was before, where that was something else."""
    old = {item.name: item.value for item in before}
    lines = []
    for item in derived:
        unit = "" if _says(item.name, item.unit) else f" {clean_line(item.unit)}"
        changed = item.name in old and old[item.name] != item.value
        was = f"{_figure(old[item.name])} → " if changed else ""
        value = (f"{was}{_figure(item.value)}{unit}", "bold" if changed else "")
        lines.append(Content.assemble((f"{clean_line(item.name)} ", "$foreground 60%"), value))
    return lines


def _says(name: str, unit: str) -> bool:
    """The unit is a word of the name: `prompts per step` needs no `prompts` behind it."""
    return unit in name.split()


def _figure(value: float | str | None) -> str:
    if value is None:
        return "—"
    return clean_line(value) if isinstance(value, str) else grouped(value)


def derived_lines(derived: Sequence[DerivedValue], before: Iterable[DerivedValue] = ()) -> list[Content]:
    """As `figures`, with the arithmetic."""
    return [
        line + Content.styled(f"  {clean_line(item.text)}" if item.text else "", "$foreground 60%")
        for line, item in zip(figures(derived, before), derived, strict=True)
    ]


def pending_lines(pending: Iterable[PendingKnob]) -> list[Content]:
    """What will still run with another value than the file's."""
    return [
        Content.assemble(
            (f"{clean_line(knob.key)} ", ""),
            (f"{value_text(knob.running)} → {value_text(knob.value)}", "bold $text-warning"),
            (f"  {listed(tuple(map(clean_line, knob.readers)))}" if knob.readers else "", "$foreground 60%"),
        )
        for knob in pending
    ]


def placed_text(diff: str) -> str:
    """Where a new line goes: `new in line 12 of rl.toml`; empty where no line is only added."""
    name, number, removed = "", 0, False
    for line in diff.splitlines():
        if line.startswith("+++"):
            name = clean_line(line[4:].split("\t")[0].rpartition("/")[2])
        elif line.startswith("@@"):
            number = int(line.split("+")[1].split(" ")[0].split(",")[0]) - 1
        elif line.startswith("---"):
            continue
        elif line.startswith("-"):
            removed = True
        else:
            number += 1
            if line.startswith("+") and not removed and line[1:].strip() and not line.startswith("+["):
                return f"new in line {number} of {name}"
    return ""


def problem_lines(problems: tuple[Problem, ...]) -> list[Content]:
    """Every problem in full, errors first."""
    lines = []
    for problem in sorted(problems, key=lambda item: list(_PROBLEM_LOOKS).index(item.severity)):
        mark, style = _PROBLEM_LOOKS[problem.severity]
        where = ""
        if problem.file:
            where = f" ({clean_line(problem.file.rpartition('/')[2])}"
            where += f", line {problem.line})" if problem.line else ")"
        lines.append(
            Content.assemble((f"{mark} {clean_line(problem.message)}", style), (where, "$foreground 60%"))
        )
    return lines


def diff_lines(diff: str) -> list[Content]:
    """A unified diff: signs and colours; of the file headers only the name."""
    lines = []
    for line in clean(diff).splitlines():
        if line.startswith("---"):
            continue
        if line.startswith("+++"):
            name = line[4:].split("\t")[0].strip().rpartition("/")[2]
            lines.append(Content.styled(f"─ {name} ─", "$foreground 60%"))
        elif line.startswith("+"):
            lines.append(Content.styled(line, "$text-success"))
        elif line.startswith("-"):
            lines.append(Content.styled(line, "$text-error"))
        elif line.startswith("@@"):
            lines.append(Content.styled("@@ " + line.strip("@ ").split(" @@")[0] + " @@", "$foreground 60%"))
        else:
            lines.append(Content(line))
    return lines


def changed_lines(diff: str) -> list[Content]:
    """As `diff_lines`, without the unchanged lines around."""
    return [line for line in diff_lines(diff) if line.plain.startswith(("+", "-", "─"))]


def plan_content(plan: Plan) -> Content:
    """The whole plan, its parts with a blank line between."""
    parts = [
        problem_lines(plan.problems),
        plan_steps(plan),
        derived_lines(plan.derived),
        diff_lines(plan.diff),
    ]
    return Content("\n\n").join([Content("\n").join(lines) for lines in parts if lines])
