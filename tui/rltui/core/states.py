"""States of components, runs and entries of the queue: one table for each, which every place reads.

A state has a value, which files, sockets and `--json` have and which stays; a word, as people read it; a sign
before the word; and a role, of which the command line makes a colour and the screen a style.
Tuples, and no pydantic: `rltui status` imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple

Role = Literal["good", "busy", "bad", "faint", "key", "head", "added", "removed"]
"""The meaning of a text, from which command line and screen choose a style."""
ComponentKind = Literal["service", "job"]
HostPhase = Literal["pending", "running", "ended"]
"""State of a component that another host runs, as that host tells it; `pending`: it was not begun there."""


class Badge(NamedTuple):
    """A state as it is shown: always a sign and a word, and a colour on top."""

    sign: str
    word: str
    role: Role


STALLED = Badge("⚠", "stalled", "busy")
"""Badge of a component that is alive and does nothing, and of everything that needs a person's eye."""


# --- components -------------------------------------------------------------------------------------------


class ComponentState(StrEnum):
    """Lifecycle state of a component; `core/lifecycle.py` holds the transitions."""

    STOPPED = "stopped"
    WAITING = "waiting"
    """Requested to run, but blocked: `reason` names the blocker (a dependency, a port)."""
    STARTING = "starting"
    """The process runs, its readiness probe has not succeeded yet."""
    READY = "ready"
    STOPPING = "stopping"
    EXITED = "exited"
    """A job that exited with code 0."""
    BACKOFF = "backoff"
    """Failed, and is started again by its restart policy: `retry_at` says when."""
    FAILED = "failed"
    """Exited by itself with an error, never became ready, or could not be started."""


class ComponentBadge(NamedTuple):
    sign: str
    word: str
    role: Role
    meaning: str
    """For the page of help."""
    is_alive: bool = False
    """A process exists."""


COMPONENT_STATES: Mapping[ComponentState, ComponentBadge] = {
    ComponentState.STOPPED: ComponentBadge("○", "stopped", "faint", "never started, or stopped on request"),
    ComponentState.WAITING: ComponentBadge(
        "◌", "waiting", "busy", "held back: by a component, a port, GPU memory or leftover processes"
    ),
    ComponentState.STARTING: ComponentBadge(
        "◐",
        "starting",
        "busy",
        "runs, but does not answer yet; pending: its host has not begun to run it",
        is_alive=True,
    ),
    ComponentState.READY: ComponentBadge("●", "ready", "good", "runs and answers", is_alive=True),
    ComponentState.STOPPING: ComponentBadge("◑", "stopping", "busy", "was asked to end", is_alive=True),
    ComponentState.EXITED: ComponentBadge("✓", "exited", "good", "a job that is done"),
    ComponentState.BACKOFF: ComponentBadge(
        "↻", "backoff", "busy", "failed, and starts again by itself: s at once, x not at all"
    ),
    ComponentState.FAILED: ComponentBadge("✗", "failed", "bad", "ended with an error, or never became ready"),
}
PENDING = Badge("◌", "pending", "busy")
"""Accepted by a host that has not begun to run it: what is shown then, whatever the state is."""
ALIVE_STATES = frozenset(state for state, badge in COMPONENT_STATES.items() if badge.is_alive)


def component_badge(state: str, host: Mapping[str, Any] | None) -> AnyBadge:
    """The displayed badge of a component. `host`: its `HostStatus` as JSON has it, if it runs on another
    host.
    """
    is_pending = host is not None and host["phase"] == "pending"
    if is_pending and state in (ComponentState.STARTING, ComponentState.READY):
        return PENDING
    if state not in COMPONENT_STATES:  # of a newer supervisor
        return Badge("?", state, "faint")
    return COMPONENT_STATES[ComponentState(state)]


# --- runs -------------------------------------------------------------------------------------------------

RunState = Literal["running", "done", "failed", "stopped", "damaged", "gone"]
"""A row of `RUN_STATES` each."""


class RunBadge(NamedTuple):
    sign: str
    word: str
    role: Role
    is_running: bool = False
    has_ended: bool = False
    """It ran, nothing of it runs now, and its folder can be read."""

    @property
    def is_unreadable(self) -> bool:
        """True if its folder cannot be read; the row holds what the index had."""
        return not (self.is_running or self.has_ended)


RUN_STATES: Mapping[RunState, RunBadge] = {
    "running": RunBadge("●", "running", "good", is_running=True),
    "done": RunBadge("✓", "done", "good", has_ended=True),
    "failed": RunBadge("✗", "failed", "bad", has_ended=True),
    # It did not come to its end.
    "stopped": RunBadge("○", "stopped", "faint", has_ended=True),
    # Its folder cannot be understood, `problem` says why.
    "damaged": RunBadge("⚠", "damaged", "busy"),
    # Its folder is not there.
    "gone": RunBadge("?", "gone", "busy"),
}
"""In the order in which they are counted where several are."""


# --- entries of the queue ---------------------------------------------------------------------------------

EntryState = Literal["waiting", "starting", "running", "ending", "done", "failed", "stopped"]
"""A row of `ENTRY_STATES` each."""


class EntryBadge(NamedTuple):
    sign: str
    word: str
    role: Role
    is_open: bool = False
    """Something is still to be done."""
    holds_devices: bool = False
    """It has devices, or a place among those that run at once."""
    can_be_retried: bool = False
    rank: int = 0
    """Open entries are sorted by it, the lowest first."""


ENTRY_STATES: Mapping[EntryState, EntryBadge] = {
    "waiting": EntryBadge("◌", "waiting", "busy", is_open=True, can_be_retried=True, rank=2),
    "starting": EntryBadge("◐", "starting", "busy", is_open=True, holds_devices=True, rank=1),
    "running": EntryBadge("●", "running", "good", is_open=True, holds_devices=True),
    # What it will be is known (`outcome`), and what still runs of it is being ended.
    "ending": EntryBadge("◑", "ending", "busy", is_open=True, holds_devices=True),
    "done": EntryBadge("✓", "done", "good"),
    "failed": EntryBadge("✗", "failed", "bad", can_be_retried=True),
    # By a rule, or somebody took it down.
    "stopped": EntryBadge("■", "stopped", "faint", can_be_retried=True),
}

AnyBadge = Badge | ComponentBadge | RunBadge | EntryBadge
