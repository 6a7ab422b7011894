"""What several commands print: plans, JSON documents, what ran out of memory."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from rltui.cli.status import orphan_text
from rltui.core.api import ComponentStatus, Plan
from rltui.core.config_report import DerivedValue
from rltui.core.gpu.out_of_memory import verdict
from rltui.core.gpu.report import Remedy
from rltui.core.knobs import shown
from rltui.core.text import duration, grouped
from rltui.core.values import Value

MOST_COMMANDS = 2
"""Of those that would help against an out-of-memory error."""


def print_json(value: Value | Sequence[Value]) -> None:
    """One document on stdout."""
    if isinstance(value, Value):
        print(value.model_dump_json())
    else:
        print(json.dumps([item.model_dump(mode="json") for item in value], ensure_ascii=False))


def plan_text(plan: Plan) -> str:
    """A plan for people; ends with a newline unless there is nothing to say."""
    lines = plan.diff.rstrip("\n").split("\n") if plan.diff else []  # only line feeds end a line
    verb = "end" if plan.action == "free" else "end first"
    for orphan in plan.free:
        adjective = "" if orphan.evidence == "gpu" else "leftover "
        lines.append(f"{verb:<6} {adjective}{orphan_text(orphan.model_dump())}")
    for word, names in (
        ("stop", plan.stop),
        ("start", plan.start),
        ("keep", plan.keep),
    ):
        if names:
            lines.append(f"{word:<6} {', '.join(names)}")
    lines.extend(f"  because {reason}" for reason in plan.reasons)
    if lost := lost_text(plan):
        lines.append(f"  {lost}")
    if plan.estimate_s is not None and (plan.start or plan.stop):
        lines.append(f"  {estimate_text(plan.estimate_s, ready=bool(plan.start))}")
    lines.extend(figure_text(figure) for figure in plan.derived)
    lines.extend(f"memory {verdict.text}" for verdict in plan.memory if not verdict.is_bad)
    lines.extend(f"{problem.severity}: {problem.text}" for problem in plan.problems)
    return "\n".join(lines) + "\n" if lines else ""


def figure_text(figure: DerivedValue) -> str:
    """`prompts per step: 8  (128 rollouts / 16 per example)`, or the words alone where it varies."""
    if figure.value is None:
        return f"{figure.name}: {figure.text}"
    value = figure.value if isinstance(figure.value, str) else grouped(figure.value)
    unit = "" if figure.unit in figure.name.split() else f" {figure.unit}"
    return f"{figure.name}: {value}{unit}" + (f"  ({figure.text})" if figure.text else "")


def lost_text(plan: Plan) -> str:
    """What is thrown away and where it goes on; empty where nothing is begun again or lost."""
    steps, rollouts, resume_step = plan.lost.steps, plan.lost.rollouts, plan.lost.resume_step
    parts = []
    if plan.start and (steps or resume_step is not None):
        point = "the beginning" if resume_step is None else f"checkpoint {resume_step}"
        parts.append(
            f"goes on from {point}; {steps} completed step{'' if steps == 1 else 's'} will be repeated"
        )
    if rollouts:
        parts.append(f"{rollouts} rollout{' in flight is' if rollouts == 1 else 's in flight are'} lost")
    return ", and ".join(parts)


def estimate_text(estimate_s: float, *, ready: bool) -> str:
    """How long it will take, by how long it took before."""
    time = f"about {duration(estimate_s)}" if estimate_s >= 1 else "a moment"
    return f"{'ready' if ready else 'done'} in {time}, as before"


def memory_lines(component: dict[str, Any]) -> list[str]:
    """The verdict, and a command for each of the first remedies. `component`: with `out_of_memory`."""
    status = ComponentStatus.model_validate(component)
    told = [] if status.out_of_memory is None else [verdict(status.out_of_memory)]
    return [*told, *(f"→ {command(remedy)}" for remedy in status.remedies[:MOST_COMMANDS])]


def command(remedy: Remedy) -> str:
    """`rltui set trainer.model.seq_len=2048 --restart`, or a restart that names what reads no such knob."""
    edits = [
        word
        for key, value in remedy.edits.items()
        for word in (["--unset", key] if value is None else [f"{key}={shown(value)}"])
    ]
    if not remedy.components:
        return shlex.join(["rltui", "set", *edits, "--restart"])
    restart = ["rltui", "restart", *remedy.components]
    return f"{shlex.join(['rltui', 'set', *edits])} && {shlex.join(restart)}"
