"""What several commands print: plans, JSON documents, questions."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from rltui.core.api import Plan, Value


def print_json(value: Value | Sequence[Value]) -> None:
    """One document on stdout."""
    if isinstance(value, Value):
        print(value.model_dump_json())
    else:
        print(json.dumps([item.model_dump(mode="json") for item in value], ensure_ascii=False))


def plan_text(plan: Plan) -> str:
    """A plan for people; ends with a newline unless there is nothing to say."""
    lines = plan.diff.splitlines()
    for word, names in (
        ("stop", plan.stop),
        ("start", plan.start),
        ("keep", plan.keep),
    ):
        if names:
            lines.append(f"{word:<6} {', '.join(names)}")
    lines.extend(f"  because {reason}" for reason in plan.reasons)
    if plan.start and (plan.lost.steps or plan.lost.resume_step is not None):
        lines.append(f"  {lost_text(plan)}")
    lines.extend(f"{problem.severity}: {problem.text}" for problem in plan.problems)
    return "\n".join(lines) + "\n" if lines else ""


def lost_text(plan: Plan) -> str:
    """What is thrown away and where it goes on."""
    steps = plan.lost.steps
    if plan.lost.resume_step is None:
        point = "goes on from the beginning"
    else:
        point = f"goes on from checkpoint {plan.lost.resume_step}"
    return f"{point}; {steps} completed step{'' if steps == 1 else 's'} will be repeated"


def confirm(question: str) -> bool:
    """Ask on the terminal. Without one there is nobody to ask: the command itself was the consent."""
    if not sys.stdin.isatty():
        return True
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
