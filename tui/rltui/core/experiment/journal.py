"""Entries of the journal: the one place that says what an entry holds and makes it of the facts.

`services/experiment/journal.py` writes them. `core/experiment/events.py` has their filter and
`views/event.py` their kinds, without msgspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import field

from rltui.base.values import Value
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.states import ComponentState

if TYPE_CHECKING:
    from rltui.core.experiment.lifecycle import Lifecycle


class JournalEntry(Value):
    """A line of `journal.jsonl`."""

    at: float
    kind: str
    """`start`, `ready`, `exit`, `stop`, `edit`, `plan`, `resume`, `checkpoint`, `link`, `alert`, `note`,
    `supervisor` …"""
    text: str
    component: str | None = None
    attempt: int | None = None
    step: int | None = None
    """Steps that the run had completed then; for a `resume`, the checkpoint it goes on from; for a
    `checkpoint`, its own.
    """
    data: dict[str, Any] = field(default_factory=dict)
    by: Actor | None = None
    """Who did it, or what it follows from. Entries of earlier versions have a text in `data` instead."""

    @classmethod
    def of(
        cls,
        kind: str,
        text: str,
        *,
        at: float,
        step: int | None,
        component: str | None = None,
        attempt: int | None = None,
        data: Mapping[str, Any],
        by: Actor | None = None,
    ) -> JournalEntry:
        """Make an entry of an event and its facts; a `step` in `data` is the event's own."""
        step = data.get("step", step)
        return cls(
            at=at,
            kind=kind,
            text=text,
            component=component,
            attempt=attempt,
            step=step if isinstance(step, int) else None,
            data=dict(data),
            by=by,
        )


_STATE_KINDS = {
    ComponentState.STARTING: "start",
    ComponentState.READY: "ready",
    ComponentState.STOPPING: "stop",
    ComponentState.EXITED: "exit",
    ComponentState.BACKOFF: "exit",
    ComponentState.FAILED: "exit",
    ComponentState.STOPPED: "exit",
}
"""Kind of the entry for entering a state; waiting is not journaled."""


class StateEntry(NamedTuple):
    kind: str
    text: str
    data: dict[str, Any]


def state_entry(
    component: str,
    lifecycle: Lifecycle,
    *,
    pid: int | None,
    took_s: float | None,
    now: float,
    gpus: int = 0,
) -> StateEntry | None:
    """The entry for a component that has entered a state; `None` for one that is not journaled.

    `took_s`: duration of the start or stop that this completes; `None` if its beginning was not seen.
    `gpus`: number of its devices.
    """
    state, exit_info = lifecycle.state, lifecycle.exit
    if state not in _STATE_KINDS:
        return None
    data: dict[str, Any] = {
        "pid": pid,
        "exit_code": exit_info.code if exit_info else None,
        "signal": exit_info.signal if exit_info else None,
    }
    if took_s is not None:
        data["took_s"] = round(took_s, 3)
    match state:
        case ComponentState.STARTING | ComponentState.READY if gpus:
            data["gpus"] = gpus
        case ComponentState.STOPPED if took_s is not None:
            data["stopped"] = True
        case ComponentState.FAILED:
            data["failed"] = True
        case ComponentState.BACKOFF if lifecycle.retry_at is not None:
            data["retry_in_s"] = round(max(0.0, lifecycle.retry_at - now), 3)
            data["failed"] = bool(lifecycle.failures)
    reason = f": {lifecycle.reason}" if lifecycle.reason else ""
    return StateEntry(_STATE_KINDS[state], f"{component} {lifecycle.word}{reason}", data)
