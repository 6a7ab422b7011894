"""Requests of keys: when they make sense, and the texts that ask for and report them. No screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from rltui.base.text import join_words
from rltui.client.experiment import Experiment
from rltui.core.experiment.api import ComponentStatus, Plan, Request, RollbackOffer, Status
from rltui.core.experiment.states import ALIVE_STATES, ComponentState
from rltui.frameworks.roles import COMPONENTS
from rltui.ui.actions import key_of
from rltui.ui.text import clean_line

READONLY_TEXT = "Read-only: nothing can be changed from here. Open it without --readonly to do so."
OBSERVED_TEXT = "Observed: rltui did not start this run and cannot start, stop or edit it."
OPENS_AGAIN = ("command", ("components.request", "start-all"))
"""The action that opens a finished run with a supervisor."""
_STOPPABLE = ALIVE_STATES | {ComponentState.WAITING, ComponentState.BACKOFF}
"""States in which there is something to stop, be it a start to come."""
_RESTARTABLE = ALIVE_STATES | {ComponentState.FAILED, ComponentState.BACKOFF, ComponentState.EXITED}


@dataclass
class OpenRunRequested(Message):
    """A person wants to look at another run, or at this one with a supervisor."""

    id: str
    again: bool = False
    """The argument of `Runs.open` with this name."""
    screen: str = ""
    """The screen to open; empty: the overview."""


def component_of_role(role: str, ids: Sequence[str]) -> str | None:
    """The id of the component that a key for `role` selects: of that name, else one that begins like it."""
    if role in ids:
        return role
    return next((id_ for id_ in ids if id_.startswith(COMPONENTS[role])), None)


def is_all_stopped(status: Status) -> bool:
    """True if nothing was started yet, or all was stopped before its end."""
    return status.state != "done" and all(item.state is ComponentState.STOPPED for item in status.components)


def finished_text() -> str:
    opens = key_of("component.start-all")
    return f"This run is not running; it is shown from its files. {opens} opens it with a supervisor."


def readonly_text(experiment: Experiment, *, all_readonly: bool) -> str:
    """The reason why `experiment` cannot be changed; empty where it can.

    `all_readonly`: nor can anything else.
    """
    if not experiment.readonly:
        return ""
    if experiment.finished and not all_readonly:
        return finished_text()
    return OBSERVED_TEXT if experiment.observed else READONLY_TEXT


def access_text(experiment: Experiment, *, all_readonly: bool) -> str:
    """The header of the overview shows it where this client may only look; else it is empty."""
    if experiment.finished and not all_readonly:
        return f"read-only; {key_of('component.start-all')} opens it to start"
    return "read-only" if experiment.readonly and not experiment.observed else ""


@dataclass(frozen=True, slots=True)
class ConfirmableRequest:
    request: Request
    heading: str
    verb: str = ""
    """The button's label; empty: the default label."""
    danger: bool = False
    """Always asked about, with *no* as the default."""


def request_for(
    verb: str, status: Status | None, component: ComponentStatus | None
) -> ConfirmableRequest | None:
    """`None` where the key does not apply. `component` is the selected one."""
    names = () if component is None else (component.id,)
    name = "".join(names)
    match verb:
        case "start-all":
            return ConfirmableRequest(Request(action="start"), "Start everything?")
        case "stop-all":
            return ConfirmableRequest(Request(action="stop"), "Stop everything?", danger=True)
        case "free-orphans" if status is not None and status.orphans:
            pids = tuple(orphan.pid for orphan in status.orphans)  # just those that are shown now
            request = Request(action="free", pids=pids)
            return ConfirmableRequest(request, "End these leftover processes?", verb="End them", danger=True)
        case "start" | "stop" | "restart" if names:
            return ConfirmableRequest(Request(action=verb, components=names), f"{verb.capitalize()} {name}?")
        case "kill" if names:
            request = Request(action="stop", components=names, kill=True)
            heading = f"Kill {name} and all its processes?"
            return ConfirmableRequest(request, heading, verb="Kill", danger=True)
        case _:
            return None


def makes_sense(verb: str, status: Status | None, component: ComponentStatus | None) -> bool:
    state = component.state if component is not None else None
    states = [item.state for item in status.components] if status is not None else []
    match verb:
        case "start":
            return state is not None and state not in ALIVE_STATES and state is not ComponentState.WAITING
        case "stop":
            return state in _STOPPABLE
        case "kill":
            return state in ALIVE_STATES
        case "restart":
            return state in _RESTARTABLE
        case "stop-all":
            return any(item in _STOPPABLE for item in states)
        case _:
            return any(item not in ALIVE_STATES for item in states)


def done_text(plan: Plan, *, restarts: bool = True) -> str:
    match plan.action:
        case "start":
            return f"Starting {join_words(plan.start)}"
        case "stop":
            return f"Stopping {join_words(plan.stop)}"
        case "restart":
            return f"Restarting {join_words(plan.start or plan.stop)}"
        case "free":
            return f"Ending {join_words(tuple(f'pid {orphan.pid}' for orphan in plan.free))}"
        case "set" | "write" | "undo" | "redo":
            return f"Written. Restarting {join_words(plan.start)}" if restarts and plan.start else "Written"


def nothing_text(plan: Plan) -> str:
    if plan.action == "free":
        return "No leftover process is running"
    reasons = "; ".join(clean_line(reason) for reason in plan.reasons)
    return f"Nothing to {plan.action}{': ' + reasons if reasons else ''}"


def is_same_rollback(offer: RollbackOffer, previous: RollbackOffer | None) -> bool:
    """The metrics of an offer may have gone on since it was made."""
    if previous is None or offer.resume_step is None:
        return False
    return (previous.edit, previous.resume_step) == (offer.edit, offer.resume_step)


def rollback_text(offer: RollbackOffer) -> str:
    """The effect of an edit, and the key that takes it back."""
    key = key_of("knob.roll-back")
    if offer.resume_step is None:
        reason = f"{clean_line(offer.component)} ended right after: {clean_line(offer.edit)}"
        return f"{reason}. {key} undoes this edit"
    edits = ", ".join(f"{name} = {value}" for name, value in offer.edits.items())
    back = f" and undoes: {offer.edit}" if offer.edit else f" with {edits}" if edits else ""
    return clean_line(f"{offer.reason}. {key} goes back to checkpoint {offer.resume_step}{back}")
