"""A status as text and as JSON. Imports little: `rltui status` is measured beside the start of Python."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rltui.base.shorten import pick_evenly
from rltui.base.text import duration
from rltui.base.times import date_text
from rltui.cli.colour import style, style_line
from rltui.cli.output import print_json
from rltui.cli.table import Row, room, table_lines, view_cells, view_lines, view_shapes, wrap
from rltui.core import hints
from rltui.core.experiment.states import ALIVE_STATES, STALLED
from rltui.services.experiment.registry import name_if_needed
from rltui.views.component import LINK_SIGN, LOGS, VIEW, ListedComponent, is_long, server_text
from rltui.views.experiment import badge_of, folder_text, goal_text, status_cell, step_text
from rltui.views.orphan import orphan_text

if TYPE_CHECKING:
    from rltui.core.gpu.report import Remedy

_MOST_COMMANDS = 2
"""Number of commands shown that would help against an out-of-memory error."""
_COMPONENTS = VIEW.named(("component", "state", "for", "pid", "attempt", "port", "now"))
_LOGS = LOGS.named(("log", "state", "file"))
_POINTS = 20
"""Points of a curve in a document; the others are counted."""


def print_status(status: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(document(status))
    else:
        sys.stdout.write(as_text(status, width=room()))


def document(status: dict[str, Any]) -> dict[str, Any]:
    """The status for programs, with a few points of the curve."""
    fields = dict(status)
    if progress := status.get("progress"):
        rewards, curve = progress["rewards"], progress["curve"]
        shortened_lists = {"rewards": rewards[-_POINTS:], "curve": pick_evenly(curve, _POINTS)}
        left_out = {key: len(progress[key]) - len(shortened_lists[key]) for key in shortened_lists}
        fields["progress"] = {**progress, **shortened_lists}
        if any(left_out.values()):
            fields["progress"]["left_out"] = {**left_out, "all": str(hints.METRICS_JSON)}
    return fields


def head_line(status: dict[str, Any]) -> str:
    return f"{style(status['experiment'], 'head')} · {status['framework']} · {_progress(status)}"


def as_text(status: dict[str, Any], now: float | None = None, *, width: int | None = None) -> str:
    """The status for people: a line per component, below it what is long; a line for each other thing."""
    now = time.time() if now is None else now
    if problem := status.get("problem"):
        hint = f"    → {problem['hint']}\n" if problem["hint"] else ""
        return f"{status['experiment']} · {status_cell(status).text}\n  {problem['title']}\n{hint}"
    head = head_line(status)
    name = name_if_needed(status["experiment"])
    lines = _head_lines(status, name)
    rows = [row for component in status["components"] for row in _component_rows(component, now, name)]
    lines.extend(table_lines(view_shapes(_COMPONENTS), rows, width=width, indent="  "))
    lines.extend(style_line(f"  {server_text(server)}") for server in status.get("servers", ()))
    lines.extend(view_lines(_LOGS, status.get("logs", ()), now, width=width, indent="  "))
    lines.extend(
        style_line(f"  {LINK_SIGN} {link['title']}: {link['url']}") for link in status.get("links", ())
    )
    lines.extend(_eval_lines(status.get("evals", ())))
    still = [component["id"] for component in status["components"] if component["state"] in ALIVE_STATES]
    if status["state"] == "done" and still:
        lines.append(
            f"  still running: {', '.join(still)}; to stop all: {hints.DOWN(name=status['experiment'])}"
        )
    lines.extend(map(style_line, _orphan_lines(status.get("orphans", ()), name)))
    lines = [style(f"  {folder_text(status)}", "faint"), *lines]
    return "\n".join(part for line in [head, *lines] for part in wrap(line, width)) + "\n"


def _head_lines(status: dict[str, Any], name: str | None) -> list[str]:
    """Lines about the whole: its health, what is under way, why it ended, who shut it down."""
    state = status["state"]
    goes_on = status["alive"] and not badge_of(state).has_ended
    lines = [*map(style_line, _health_lines(status.get("progress", {}), name))] if goes_on else []
    if state in ("lost", "queued") and status["reason"]["text"]:
        lines.append(f"  {status['reason']['text']}")
    if agents := status.get("agents"):
        lines.append(f"  at work on it: {', '.join(f'agent {name}' for name in agents)}")
    if under_way := status.get("transaction"):
        lines.append(f"  {style('in progress:', 'busy')} {under_way}")
    elif (down := status.get("down")) and not status["alive"] and not down.get("idle"):
        lines.append(f"  shut down by {down['by']}, {date_text(down['at'])}")
        lines.extend(style_line(f"  ⚠ could not be ended: {what}") for what in down["left"])
    return lines


def _health_lines(progress: dict[str, Any], name: str | None) -> list[str]:
    """A line per concern; below those that began together, where to go back to; who waits for whom."""
    groups: dict[str, list[str]] = {}
    for concern in progress.get("concerns", ()):
        text = f"{concern['evidence']}; {concern['advice']}" if concern.get("evidence") else concern["text"]
        groups.setdefault(_way_back(concern, name), []).append(f"  ⚠ {concern['word']}: {text}")
    lines = [line for back, group in groups.items() for line in (*group, back) if line]
    if waits := progress.get("bottleneck"):
        lines.append(f"  ◌ {waits['text']}")
    return lines


def _way_back(concern: dict[str, Any], name: str | None) -> str:
    """The last good checkpoint, how to go back to it, and the edits since; empty where nothing is known."""
    parts = []
    if back := concern.get("back"):
        parts.append(hints.way_back(back["resume_step"], back["edit"], back["edits"], name=name))
    elif (step := concern.get("last_good")) is not None:
        parts.append(f"last good checkpoint {step}")
    if (edits := concern.get("edits")) and not (back and edits == [back["edit"]]):
        parts.append(f"edited since: {'; '.join(edits)}")
    return f"    {' · '.join(parts)}" if parts else ""


def _progress(status: dict[str, Any]) -> str:
    cell = status_cell(status)
    parts, progress = [style(cell.text, cell.role)], status.get("progress") or {}
    parts += ["observed"] if status.get("observed") else []
    if status["step"]:
        parts.append(f"step {step_text(status['step'], status['max_steps'])}")
    if goal := goal_text(status):
        of_all = progress.get("reward_all") if not progress.get("target") else None
        more = f" ({of_all:.3f} with the rollouts not trained on)" if of_all is not None else ""
        parts.append(f"{goal}{more}")
    if (served := progress.get("served")) is not None and status["state"] == "running":
        parts.append(f"engine serves v{served}")
    left_s = progress.get("eta_s")
    if left_s is not None and status["state"] == "running":
        parts.append(f"ETA {duration(left_s)}")
    return " · ".join(parts)


def _component_rows(component: dict[str, Any], now: float, name: str | None) -> list[Row]:
    below = _memory_lines(component, name)
    cells = view_cells(_COMPONENTS, [ListedComponent(component, has_reason=not below)], now)
    if (reason := component["reason"]) and not below and is_long(reason):
        below.append(f"      {reason}")
    if component.get("from_outside") and component["state"] == "failed":
        below.append(f"      → {hints.RESTART_KILLED(component=component['id'], name=name)}")
    if component["stalled"] and component.get("evidence"):
        below.append(f"      {STALLED.sign} {component['evidence']}")
    return [*cells, *map(style_line, below)]


def _memory_lines(component: dict[str, Any], name: str | None) -> list[str]:
    """Lines about an out-of-memory error, with figures and the commands that would help first.

    They stand in place of the reason, which has the same figures and general advice.
    """
    if not component.get("out_of_memory"):
        return []
    from rltui.core.experiment.api import ComponentStatus  # msgspec takes 20 ms
    from rltui.views.gpu.advice import failure_text

    status = ComponentStatus.from_plain(component)
    lines = [] if status.out_of_memory is None else [failure_text(status.out_of_memory)]
    lines.extend(f"→ {remedy_command(remedy, name)}" for remedy in status.remedies[:_MOST_COMMANDS])
    return [f"      {line}" for line in lines]


def remedy_command(remedy: Remedy, name: str | None = None) -> str:
    """A command that applies the remedy: `rltui set trainer.model.seq_len=2048 --restart`, or a restart that
    names components which read no such knob.
    """
    from rltui.core.config.knobs import display

    words = hints.edit_words(
        {key: None if value is None else display(value) for key, value in remedy.edits.items()}
    )
    if not remedy.components:
        return hints.SET_RESTART(words=words, name=name)
    restart = hints.APPLY(components=remedy.components, name=name)
    return f"{hints.SET_WORDS(words=words, name=name)} && {restart}"


def _eval_lines(evals: Sequence[dict[str, Any]]) -> list[str]:
    if not evals:
        return []
    from rltui.core.runs.evals import QueuedEval  # msgspec takes 20 ms
    from rltui.views.event import KINDS

    queued = map(QueuedEval.from_plain, evals)
    return [
        f"  {KINDS['eval'].text} evaluation {evaluation.id}: {evaluation.label} · {evaluation.words}"
        for evaluation in queued
    ]


def _orphan_lines(orphans: Sequence[dict[str, Any]], name: str | None) -> list[str]:
    if not orphans:
        return []
    from rltui.core.experiment.api import Orphan  # msgspec takes 20 ms

    lines = [f"  ⚠ leftover: {orphan_text(Orphan.from_plain(orphan))}" for orphan in orphans]
    return [*lines, f"    to end them: {hints.FREE_LEFTOVERS(name=name)}"]


def gist_of(component: Mapping[str, Any]) -> tuple[object, ...]:
    """State, attempt and reason, without figures that only tick, such as free memory; of failures all."""
    reason = component["reason"] or ""
    if component["state"] != "backoff":
        reason = re.sub(r"\d+\.\d+", "#", reason)
    host = component.get("host") or {}
    at_host = (host.get(key) for key in ("where", "phase", "reason", "starts", "lost_at"))
    return component["state"], component["attempt"], reason, *at_host
