"""Runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.core.text import size_text

if TYPE_CHECKING:
    from rltui.core.forks import ForkPlan


def fork_lines(plan: ForkPlan) -> list[str]:
    """What a fork comes to, a line for each thing, then the diff of its config."""
    lines = [f"{plan.name}, a fork of {plan.parent}, in {plan.folder}"]
    if plan.step is None:
        lines.append("  begins at the beginning")
    else:
        lines.append(f"  begins with checkpoint {plan.step}, a copy of {size_text(plan.copied_bytes)}")
        lines += [f"    {name}" for name in plan.copied]
    lines += [f"  {note}" for note in plan.notes]
    return [*lines, *(plan.diff.splitlines() or ["  with the config as it is"])]
