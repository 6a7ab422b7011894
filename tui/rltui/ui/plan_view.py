"""A plan in words and colours. Pure functions."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from textual.content import Content

from rltui.base.text import join_words
from rltui.core.config.report import DerivedValue, PendingKnob, Problem
from rltui.core.experiment.api import Plan
from rltui.ui.paragraphs import blocks
from rltui.ui.styles import FAINT, SEVERITY_MARKS
from rltui.ui.text import clean, clean_line, file_name, value_text
from rltui.views.knob import figure_unit, figure_value
from rltui.views.plan import plan_rows

_LABEL_WIDTH = 11
_TEXT_WIDTH = 58
"""Fits a dialog on 80 columns."""


def plan_row(label: str, text: str, style: str = "") -> Content:
    lines = textwrap.wrap(text, _TEXT_WIDTH) or [""]
    hanging = f"\n{' ' * _LABEL_WIDTH}".join(lines)
    return Content.assemble((label.ljust(_LABEL_WIDTH), FAINT), (hanging, style))


def plan_steps(plan: Plan) -> list[Content]:
    """One row for every step, for losses, the time it takes and reasons."""
    styles = {"end": "bold", "stop": "bold", "start": "bold"}
    if plan.lost.steps:
        styles["lose"] = "bold $text-warning"
    return [plan_row(label, clean_line(text), styles.get(label, "")) for label, text in plan_rows(plan)]


def effect_lines(plan: Plan, key: str = "ctrl+r") -> list[Content]:
    """The steps of a restart that makes an edit count, below the `key` for it."""
    heading = [Content.styled(f"Takes effect after a restart ({key}):", FAINT)] if plan.start else []
    return [*heading, *plan_steps(plan)]


def figures(derived: Iterable[DerivedValue], before: Iterable[DerivedValue] = ()) -> list[Content]:
    """`prompts per step 4 → 8`: each with what it was before, where that was something else."""
    old = {item.name: item.value for item in before}
    lines = []
    for item in derived:
        is_changed = item.name in old and old[item.name] != item.value
        was = f"{figure_value(old[item.name])} → " if is_changed else ""
        value = f"{was}{figure_value(item.value)}{figure_unit(item)}"
        lines.append(
            Content.assemble(
                (f"{clean_line(item.name)} ", FAINT), (clean(value), "bold" if is_changed else "")
            )
        )
    return lines


def derived_lines(derived: Sequence[DerivedValue], before: Iterable[DerivedValue] = ()) -> list[Content]:
    """`figures` with the arithmetic."""
    return [
        line + Content.styled(f"  {clean_line(item.text)}" if item.text else "", FAINT)
        for line, item in zip(figures(derived, before), derived, strict=True)
    ]


def pending_lines(pending: Iterable[PendingKnob]) -> list[Content]:
    return [
        Content.assemble(
            (f"{clean_line(knob.key)} ", ""),
            (f"{value_text(knob.running)} → {value_text(knob.value)}", "bold $text-warning"),
            (
                f"  {join_words(tuple(map(clean_line, knob.readers)))}" if knob.readers else "",
                FAINT,
            ),
        )
        for knob in pending
    ]


def placed_text(diff: str) -> str:
    """The line of a new key: `new in line 12 of rl.toml`; empty unless lines are only added."""
    name, number, has_removals = "", 0, False
    for line in diff.splitlines():
        if line.startswith("+++"):
            name = file_name(line[4:].split("\t")[0])
        elif line.startswith("@@"):
            number = int(line.split("+")[1].split(" ")[0].split(",")[0]) - 1
        elif line.startswith("---"):
            continue
        elif line.startswith("-"):
            has_removals = True
        else:
            number += 1
            if line.startswith("+") and not has_removals and line[1:].strip() and not line.startswith("+["):
                return f"new in line {number} of {name}"
    return ""


def problem_lines(problems: tuple[Problem, ...]) -> list[Content]:
    """Errors first."""
    lines = []
    for problem in sorted(problems, key=lambda item: list(SEVERITY_MARKS).index(item.severity)):
        mark, style = SEVERITY_MARKS[problem.severity]
        where = ""
        if problem.file:
            where = f" ({file_name(problem.file)}"
            where += f", line {problem.line})" if problem.line else ")"
        lines.append(Content.assemble((f"{mark} {clean_line(problem.message)}", style), (where, FAINT)))
    return lines


def diff_lines(diff: str) -> list[Content]:
    """A unified diff: signs and colours; of the file headers only the name."""
    lines = []
    for line in clean(diff).splitlines():
        if line.startswith("---"):
            continue
        if line.startswith("+++"):
            name = line[4:].split("\t")[0].strip().rpartition("/")[2]
            lines.append(Content.styled(f"─ {name} ─", FAINT))
        elif line.startswith("+"):
            lines.append(Content.styled(line, "$text-success"))
        elif line.startswith("-"):
            lines.append(Content.styled(line, "$text-error"))
        elif line.startswith("@@"):
            lines.append(Content.styled("@@ " + line.strip("@ ").split(" @@")[0] + " @@", FAINT))
        else:
            lines.append(Content(line))
    return lines


def changed_lines(diff: str) -> list[Content]:
    """`diff_lines` without the unchanged lines around."""
    return [line for line in diff_lines(diff) if line.plain.startswith(("+", "-", "─"))]


def plan_content(plan: Plan) -> Content:
    return blocks(
        problem_lines(plan.problems), plan_steps(plan), derived_lines(plan.derived), diff_lines(plan.diff)
    )
