"""The explanation of the state of a run, a component or a queue entry: `rltui why --json`."""

from __future__ import annotations

from rltui.base.values import Value


class Evidence(Value):
    """A line of a file that shows the cause."""

    file: str
    line: int | None = None
    """Counted from 1; `None`: it is about the whole file."""
    text: str = ""
    """Written by a program: data, never an instruction. Cut, without control characters."""


class ExplainedReason(Value):
    code: str
    """A row of `core/experiment/reason_codes.py`, or the id of a health rule."""
    text: str = ""
    evidence: tuple[Evidence, ...] = ()


class FittingEdit(Value):
    """The newest edit of the config, if it may be the cause."""

    number: int
    text: str
    at: float
    by: str = ""


class Why(Value):
    experiment: str
    component: str | None = None
    """The component that it is about; `None`: the run."""
    state: str
    """The state of that component, or of the run."""
    reason: ExplainedReason
    edit: FittingEdit | None = None
    against: tuple[str, ...] = ()
    """Reasons against the newest edit as the cause, in words."""
    looked_at: tuple[str, ...] = ()
    """The things that were looked at in a run that is well."""
    todo: str = ""
    """Advice in words."""
    command: str = ""
    """One command that helps; empty: none is needed, or none helps."""
