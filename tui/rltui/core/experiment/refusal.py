"""Refuses what must not be done: the one place that says why an edit, a start or a stop is not made."""

from __future__ import annotations

from collections.abc import Sequence

from rltui.base.toml.values import format_value
from rltui.core.config.knobs import display
from rltui.core.config.report import FileConflict, KeyConflict, Problem, config_error
from rltui.core.experiment.api import Plan, Request
from rltui.core.experiment.consent import loss_of_plan
from rltui.errors import ConfigError, ConflictError, UsageError

SERVER = "server"
"""Key of problems with a server that another party runs."""
_OUTSIDE = ("port", SERVER)
"""Keys of problems outside the config."""


def refuse(plan: Plan, request: Request) -> None:
    """Raise unless `plan`, made for `request`, may be executed.

    Raises:
        ConflictError: if a file is not what the person saw, or as `refuse_blocked`.
        ConfigError: as `refuse_blocked`.
        UsageError: if the plan costs more than the person has agreed to; the details say what is lost.
    """
    refuse_conflicts(plan.conflicts, request.action)
    refuse_blocked(plan)
    if loss_of_plan(plan, request) > request.accepts:
        lost = [f"{plan.lost.steps} steps are lost"] if plan.lost.steps else []
        raise UsageError(
            f"this {request.action} would cost more than was confirmed",
            details=[*lost, *(problem.text for problem in plan.problems), *plan.reasons],
            hint="nothing was done; review the plan, and confirm again",
            code="costs_more",
        )


def refuse_blocked(plan: Plan) -> None:
    """Raise if an error forbids the plan.

    Raises:
        ConflictError: if only ports, or servers elsewhere, are in the way.
        ConfigError: for any other error.
    """
    errors = [problem for problem in plan.problems if problem.is_error]
    if not errors:
        return
    if all(problem.key in _OUTSIDE for problem in errors):
        lines = [problem.text for problem in errors]
        is_port = errors[0].key == "port"
        hint = (
            "choose another port in the config, or end that process if it is yours"
            if is_port
            else "nothing was started"
        )
        raise ConflictError(lines[0], details=lines[1:], hint=hint, code=errors[0].code)
    raise config_error(errors, "nothing was written or started")


def refuse_errors(problems: Sequence[Problem], *, hint: str = "nothing was written") -> None:
    """Raises ConfigError if an edit breaks a rule."""
    errors = [problem for problem in problems if problem.is_error]
    if errors:
        first, *more = (problem.text for problem in errors)
        raise ConfigError(first, details=more, hint=hint, code=errors[0].code)


def refuse_conflicts(conflicts: Sequence[FileConflict], action: str) -> None:
    """Raises ConflictError if files have changed since a person looked; the details are the three sides."""
    if not conflicts:
        return
    details: list[str] = []
    for conflict in conflicts:
        details.extend(f"{key.key}: {_sides(key)}" for key in conflict.keys)
        if conflict.theirs:
            details.extend(("changed by someone else:", *conflict.theirs.splitlines()))
        if conflict.yours:
            details.extend(("your edit:", *conflict.yours.splitlines()))
    if any(conflict.keys for conflict in conflicts):
        advice = "compare both sides and decide"
    elif action in ("undo", "redo"):
        advice = "its keys have been changed again; set them by hand"
    else:
        advice = "the edit still applies to the new content: review the change, then repeat the edit"
    raise ConflictError(
        f"{_files(conflicts)} has changed since you opened it",
        details=details,
        hint=f"nothing was written; {advice}",
        code="file_changed",
    )


def refuse_undo(conflicts: Sequence[FileConflict]) -> None:
    """Raises ConflictError if the newest edit cannot be undone or redone, before a person has decided."""
    if conflicts:
        keys = [key.key for conflict in conflicts for key in conflict.keys]
        raise ConflictError(
            f"{_files(conflicts)} changed after that edit",
            details=[f"keys with other values now: {', '.join(keys)}"] if keys else (),
            hint=f"nothing was written; {'set the keys' if keys else 'edit the file'} by hand",
            code="file_changed",
        )


def _files(conflicts: Sequence[FileConflict]) -> str:
    return " and ".join(conflict.file for conflict in conflicts)


def _sides(key: KeyConflict) -> str:
    base, theirs, yours = (
        "not set" if value is None else display(value) if isinstance(value, dict) else format_value(value)
        for value in (key.base, key.theirs, key.yours)
    )
    return f"was {base}, is {theirs} now; your edit: {yours}"
