"""States of components, runs and entries of the queue: one table for each, which every place reads.

A state has a value, which files, sockets and `--json` have and which stays; a word, as people read it; a sign
before the word; and a role, of which the command line makes a colour and the screen a style.
Tuples, and no msgspec: `rltui status` imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, NamedTuple

Role = Literal["good", "busy", "bad", "faint", "key", "head", "added", "removed"]
"""The meaning of a text, from which command line and screen choose a style."""
ComponentKind = Literal["service", "job"]
HostPhase = Literal["pending", "running", "ended"]
"""State of a component that another host runs, as that host tells it; `pending`: it was not begun there."""


class SeverityBadge(NamedTuple):
    sign: str
    word: str
    role: Role


SEVERITIES: Mapping[str, SeverityBadge] = {
    "error": SeverityBadge("✗", "error", "bad"),
    "warning": SeverityBadge("⚠", "warning", "busy"),
    "hint": SeverityBadge("·", "", "faint"),
}
"""Severities of problems, the worst first. What is none, in alerts and messages, is `information`."""


# --- components -------------------------------------------------------------------------------------------


class ComponentState(StrEnum):
    """Lifecycle state of a component; `core/experiment/lifecycle.py` holds the transitions."""

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
    """A state as it is shown: always a sign and a word, and a colour on top."""

    sign: str
    word: str
    role: Role
    meaning: str
    """The sentence of the help page `states`."""
    is_alive: bool = False
    """A process exists."""


COMPONENT_STATES: Mapping[ComponentState, ComponentBadge] = {
    ComponentState.STOPPED: ComponentBadge("○", "stopped", "faint", "never started, or stopped on request"),
    ComponentState.WAITING: ComponentBadge(
        "◌", "waiting", "busy", "for a component, a port, GPU memory, or leftover processes"
    ),
    ComponentState.STARTING: ComponentBadge(
        "◐",
        "starting",
        "busy",
        "running, but not ready yet",
        is_alive=True,
    ),
    ComponentState.READY: ComponentBadge("●", "ready", "good", "a service that is up", is_alive=True),
    ComponentState.STOPPING: ComponentBadge(
        "◑", "stopping", "busy", "being stopped on request", is_alive=True
    ),
    ComponentState.EXITED: ComponentBadge("✓", "exited", "good", "a job that finished without an error"),
    ComponentState.BACKOFF: ComponentBadge(
        "↻", "backoff", "busy", "failed, and restarts automatically (s: now, x: never)"
    ),
    ComponentState.FAILED: ComponentBadge("✗", "failed", "bad", "ended with an error, or never became ready"),
}
RUNNING_JOB = ComponentBadge("●", "running", "good", "a job that has not finished yet", is_alive=True)
"""Shown in place of `ready`, which only a service can be."""
LOST = ComponentBadge("?", "lost", "bad", "ended, but how is unknown")
"""Shown in place of `failed`."""
PENDING = ComponentBadge("◌", "pending", "busy", "accepted by its host, but not started there yet")
"""The badge that is shown then, whatever the state is."""
STALLED = ComponentBadge("⚠", "stalled", "busy", "alive, but making no progress", is_alive=True)
"""Shown beside the state of a component; its sign is before everything that needs a person's eye."""
SHOWN_COMPONENT_STATES = (*COMPONENT_STATES.values(), LOST, RUNNING_JOB, PENDING, STALLED)
"""All that people read of a component."""
ALIVE_STATES = frozenset(state for state, badge in COMPONENT_STATES.items() if badge.is_alive)


def component_badge(component: Mapping[str, Any]) -> ComponentBadge:
    """The displayed badge of a component. `component`: its `ComponentStatus` as JSON has it."""
    state, host = component["state"], component.get("host")
    is_pending = host is not None and host["phase"] == "pending"
    if is_pending and state in (ComponentState.STARTING, ComponentState.READY):
        return PENDING
    if state == ComponentState.READY and component.get("kind") == "job":
        return RUNNING_JOB
    if state == ComponentState.FAILED and component.get("lost"):
        return LOST
    if state not in COMPONENT_STATES:  # of a newer supervisor
        return ComponentBadge("?", state, "faint", "")
    return COMPONENT_STATES[ComponentState(state)]


# --- runs -------------------------------------------------------------------------------------------------

RunState = Literal[
    "queued", "starting", "running", "stalled", "stopping", "stopped", "done", "failed", "lost"
]
"""A row of `RUN_STATES` each. `core/runs/state.py` says which one a run has, and why."""


class RunBadge(NamedTuple):
    sign: str
    word: str
    role: Role
    meaning: str
    """The sentence of the help page `states`."""
    has_ended: bool = False
    """True if nothing more happens in it without a request."""
    is_failure: bool = False
    """True if `rltui status` exits with the code of a failed component."""


RUN_STATES: Mapping[RunState, RunBadge] = {
    "queued": RunBadge("◌", "queued", "busy", "waits in the queue"),
    "starting": RunBadge(
        "◐", "starting", "busy", "a component is starting, waiting, or about to restart"
    ),
    "running": RunBadge("●", "running", "good", "its jobs are running, or their inputs are being prepared"),
    "stalled": RunBadge("⚠", "stalled", "busy", "a component is alive, but makes no progress"),
    "stopping": RunBadge("◑", "stopping", "busy", "a component is being stopped on request"),
    "stopped": RunBadge(
        "○", "stopped", "faint", "never started, or stopped on request before its last step", has_ended=True
    ),
    "done": RunBadge("✓", "done", "good", "all its steps are done; services may still be up", has_ended=True),
    "failed": RunBadge(
        "✗", "failed", "bad", "a component ended with an error, or never became ready",
        has_ended=True, is_failure=True,
    ),
    "lost": RunBadge(
        "?", "lost", "bad",
        "its end was not recorded (reboot, kill), or its folder is gone",
        has_ended=True, is_failure=True,
    ),
}  # fmt: skip
"""In the order of a run's life, in which they are counted where several are."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for the state of a run."""

    code: str = ""
    """Stable, for programs."""
    text: str = ""
    """A sentence for people; empty where the state says it all."""
    components: tuple[str, ...] = ()
    """Ids of the components that it is about."""

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Reason:
        """The reason from its JSON."""
        return cls(values["code"], values["text"], tuple(values["components"])) if values else cls()


# --- entries of the queue ---------------------------------------------------------------------------------

EntryState = Literal["queued", "starting", "running", "stopping", "done", "failed", "stopped", "lost"]
"""The states of a run that an entry of the queue can have: a row of `ENTRY_STATES` each."""


class EntryTraits(NamedTuple):
    is_open: bool = False
    """Something is still to be done."""
    holds_devices: bool = False
    """It has devices, or a place among those that run at once."""
    can_be_retried: bool = False
    rank: int = 0
    """Open entries are sorted by it, the lowest first."""


RETRYING = "retrying"
"""Last word of the reason of an entry that is started again after a pause."""
ENTRY_STATES: Mapping[EntryState, EntryTraits] = {
    "queued": EntryTraits(is_open=True, can_be_retried=True, rank=2),
    "starting": EntryTraits(is_open=True, holds_devices=True, rank=1),
    "running": EntryTraits(is_open=True, holds_devices=True),
    # What it will be is known (`outcome`), and what still runs of it is being ended.
    "stopping": EntryTraits(is_open=True, holds_devices=True),
    "done": EntryTraits(),
    "failed": EntryTraits(can_be_retried=True),
    # By a rule, or somebody took it down.
    "stopped": EntryTraits(can_be_retried=True),
    "lost": EntryTraits(can_be_retried=True),
}

AnyBadge = ComponentBadge | RunBadge
