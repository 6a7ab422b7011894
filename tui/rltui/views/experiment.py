"""Experiments: a status as a whole, as `rltui status` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.base.text import duration, format_number
from rltui.core.experiment.states import RUN_STATES, Reason, RunBadge
from rltui.core.runs.state import NO_ANSWER, state_text
from rltui.errors import ExitCode
from rltui.views.table import Cell, Column, View


def badge_of(state: str) -> RunBadge:
    """The badge of a run's state; of one that only a newer rltui knows, its name."""
    return next(
        (badge for badge in RUN_STATES.values() if badge.word == state), RunBadge("?", state, "faint", "")
    )


def state_cell(state: str, reason: Reason) -> Cell:
    """`● running`, `✗ failed: trainer`, `✓ done · inference still up`: the same on every place."""
    badge = badge_of(state)
    return Cell(f"{badge.sign} {state_text(state, reason)}", badge.role)


def status_cell(status: Mapping[str, Any]) -> Cell:
    """The cell of a status, as JSON has it."""
    return state_cell(status["state"], Reason.parse(status["reason"]))


def exit_code(state: str, reason: Reason = Reason()) -> int:  # noqa: B008 - frozen
    """Exit code of `rltui status` for a run in this state."""
    if reason.code == NO_ANSWER:
        return int(ExitCode.FAILED)
    return int(ExitCode.COMPONENT_FAILED if badge_of(state).is_failure else ExitCode.DONE)


def step_text(step: int | None, max_steps: int | None) -> str:
    """Progress such as `83/200`; empty where no step is known."""
    if step is None:
        return ""
    return f"{step}/{max_steps}" if max_steps else str(step)


def _age_text(status: Mapping[str, Any], now: float) -> str:
    """The age of its newest attempt, or of the experiment."""
    times = [status["created_at"], *(component["started_at"] for component in status["components"])]
    start_time = max((time for time in times if time is not None), default=None)
    return "" if start_time is None else duration(now - start_time)


def folder_text(status: Mapping[str, Any]) -> str:
    """The output folder; of an observed run its own."""
    return (status.get("run_dir") if status.get("observed") else status["output_dir"]) or ""


def goal_text(status: Mapping[str, Any]) -> str:
    """Say `reward 0.620`, or what a run learns by that has none: `teacher KL 0.031`; empty: unknown."""
    target = (status.get("progress") or {}).get("target")
    if target and target["points"]:
        return f"{target['title']} {format_number(target['points'][-1][1])}"
    return "" if status["reward"] is None else f"reward {status['reward']:.3f}"


VIEW: View[Mapping[str, Any]] = View(
    key=lambda status: str(status["experiment"]),
    columns=(
        Column("name", lambda status, _: str(status["experiment"]), least=12, cut="middle"),
        Column("state", lambda status, _: status_cell(status), least=9),
        Column(
            "step",
            lambda status, _: step_text(status["step"] or None, status["max_steps"]),
            is_right=True,
            goes=1,
        ),
        Column("reward", lambda status, _: goal_text(status).removeprefix("reward "), is_right=True),
        Column("age", _age_text, is_right=True),
        Column("framework", lambda status, _: status["framework"] or "", goes=3),
        Column("output folder", lambda status, _: folder_text(status), least=14, cut="start", goes=2),
    ),
)
"""Rows are the JSON of `Status`, with `created_at`."""
