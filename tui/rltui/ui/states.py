"""How a component's state looks: always a symbol and a word, and a colour on top."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from rltui.core.api import ComponentState, ComponentStatus, Status
from rltui.ui.text import age, clean_line


@dataclass(frozen=True, slots=True)
class Look:
    """Symbol, word and style of a state."""

    symbol: str
    word: str
    style: str
    """A theme variable."""


LOOKS = {
    ComponentState.STOPPED: Look("○", "stopped", "$foreground 60%"),
    ComponentState.WAITING: Look("◌", "waiting", "$text-warning"),
    ComponentState.STARTING: Look("◐", "starting", "$text-warning"),
    ComponentState.READY: Look("●", "ready", "$text-success"),
    ComponentState.STOPPING: Look("◑", "stopping", "$text-warning"),
    ComponentState.EXITED: Look("✓", "exited", "$text-success"),
    ComponentState.FAILED: Look("✗", "failed", "$text-error"),
}
MEANINGS = {
    ComponentState.STOPPED: "never started, or stopped on request",
    ComponentState.WAITING: "held back: by a component that is not ready, or a busy port",
    ComponentState.STARTING: "runs, but does not answer yet",
    ComponentState.READY: "runs and answers",
    ComponentState.STOPPING: "was asked to end",
    ComponentState.EXITED: "a job that is done",
    ComponentState.FAILED: "ended with an error, or never became ready",
}
STALLED = Look("⚠", "stalled", "$text-warning")
SEPARATOR = (" · ", "$foreground 60%")


def uptime_text(status: ComponentStatus, now: float) -> str:
    """How long the process runs, empty when there is none."""
    if status.started_at is not None:
        return age(now - status.started_at)
    return "" if status.uptime_s is None else age(status.uptime_s)


def exit_text(status: ComponentStatus) -> str:
    """`0`, `code 1`, `SIGKILL`, or empty where it is unknown."""
    if status.signal:
        return clean_line(status.signal)
    if status.exit_code is None:
        return ""
    return "0" if status.exit_code == 0 else f"code {status.exit_code}"


def state_text(status: ComponentStatus, now: float) -> str:
    """`● ready 41m`, `✓ exited 0`, `✗ failed code 1`."""
    look = LOOKS[status.state]
    extra = ""
    if status.state in (ComponentState.READY, ComponentState.STARTING):
        extra = uptime_text(status, now)
    elif status.state in (ComponentState.EXITED, ComponentState.FAILED):
        extra = exit_text(status)
    return f"{look.symbol} {look.word} {extra}".rstrip()


def component_title(status: ComponentStatus, now: float, *, selected: bool) -> Content:
    """The title of a component's pane, most important first: the border cuts the end off."""
    look = LOOKS[status.state]
    parts: list[tuple[str, str]] = [
        ("▸ " if selected else "", "bold"),
        (status.id, "bold"),
        (" ", ""),
        (state_text(status, now), look.style),
    ]
    if status.stalled:
        parts.extend([SEPARATOR, (f"{STALLED.symbol} {STALLED.word}", STALLED.style)])
    is_told_below = status.state is ComponentState.FAILED
    texts = [] if status.reason is None or is_told_below else [clean_line(status.reason)]
    if status.port is not None and status.pid is not None:
        texts.append(f":{status.port}")
    texts.extend(clean_line(fact) for fact in status.facts)
    for text in texts:
        parts.extend([SEPARATOR, (text, "$foreground 60%" if text.startswith(":") else "")])
    return Content.assemble(*parts)


def experiment_look(status: Status) -> Look:
    """One word for the whole experiment."""
    states = [component.state for component in status.components]
    if status.done:
        return Look("✓", "done", "$text-success")
    if ComponentState.FAILED in states:
        return Look("✗", "failed", "$text-error")
    for state in (ComponentState.STOPPING, ComponentState.STARTING, ComponentState.WAITING):
        if state in states:
            return LOOKS[state]
    if any(component.stalled for component in status.components):
        return STALLED
    if ComponentState.READY in states:
        return Look("●", "running", "$text-success")
    return LOOKS[ComponentState.STOPPED]
