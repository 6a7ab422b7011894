"""What a component key asks for, and whether it makes sense now. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from rltui.core.api import ALIVE_STATES, ComponentState, ComponentStatus, Request, Status

STOPPABLE = ALIVE_STATES | {ComponentState.WAITING, ComponentState.BACKOFF}
"""States in which there is something to stop, be it a start to come."""
RESTARTABLE = ALIVE_STATES | {ComponentState.FAILED, ComponentState.BACKOFF, ComponentState.EXITED}


@dataclass(frozen=True, slots=True)
class Wish:
    """A request, and how a person is asked about it."""

    request: Request
    heading: str
    verb: str = ""
    """On the button; empty for the usual word."""
    danger: bool = False
    """Always asked about, with *no* as the default."""


def wish(action: str, status: Status | None, component: ComponentStatus | None) -> Wish | None:
    """What `action` asks for, `None` where it does not apply. `component` is the selected one."""
    match action:
        case "start_all":
            return Wish(Request(action="start"), "Start everything?")
        case "stop_all":
            return Wish(Request(action="stop"), "Stop everything?", danger=True)
        case "free_orphans" if status is not None and status.orphans:
            pids = tuple(orphan.pid for orphan in status.orphans)  # just those that are shown now
            request = Request(action="free", pids=pids)
            return Wish(request, "End these leftover processes?", verb="End them", danger=True)
        case _:
            return None if component is None else _of_component(action, component.id)


def _of_component(action: str, name: str) -> Wish | None:
    match action:
        case "start_component":
            return Wish(Request(action="start", components=(name,)), f"Start {name}?")
        case "stop_component":
            return Wish(Request(action="stop", components=(name,)), f"Stop {name}?")
        case "restart_component":
            return Wish(Request(action="restart", components=(name,)), f"Restart {name}?")
        case "kill_component":
            request = Request(action="stop", components=(name,), kill=True)
            return Wish(request, f"Kill {name} and all its processes at once?", verb="Kill", danger=True)
        case _:
            return None


def makes_sense(action: str, status: Status | None, component: ComponentStatus | None) -> bool | None:
    """Whether the state of things allows `action`; `None` where that does not depend on it."""
    state = component.state if component is not None else None
    states = [item.state for item in status.components] if status is not None else []
    match action:
        case "start_component":
            return state is not None and state not in ALIVE_STATES and state is not ComponentState.WAITING
        case "stop_component":
            return state in STOPPABLE
        case "kill_component" | "attach_component":
            return state in ALIVE_STATES
        case "restart_component":
            return state in RESTARTABLE
        case "restart_menu":
            return state is not None
        case "fix_component":
            return component is not None and bool(component.remedies)
        case "free_orphans":
            return status is not None and bool(status.orphans)
        case "stop_all":
            return any(item in STOPPABLE for item in states)
        case "start_all":
            return any(item not in ALIVE_STATES for item in states)
        case _:
            return None
