"""How a component's state looks: always a symbol and a word, and a colour on top."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from rltui.core.api import ComponentState, ComponentStatus, Status
from rltui.core.text import duration
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
    ComponentState.BACKOFF: Look("↻", "backoff", "$text-warning"),
    ComponentState.FAILED: Look("✗", "failed", "$text-error"),
}
MEANINGS = {
    ComponentState.STOPPED: "never started, or stopped on request",
    ComponentState.WAITING: "held back: by a component, a port, GPU memory or leftover processes",
    ComponentState.STARTING: "runs, but does not answer yet",
    ComponentState.READY: "runs and answers",
    ComponentState.STOPPING: "was asked to end",
    ComponentState.EXITED: "a job that is done",
    ComponentState.BACKOFF: "failed, and starts again by itself: s at once, x not at all",
    ComponentState.FAILED: "ended with an error, or never became ready",
}
STALLED = Look("⚠", "stalled", "$text-warning")
SEPARATOR = (" · ", "$foreground 60%")
_WAITS = ("waits for ", "waiting for ")
"""Beginnings of a reason that says no more than the word of the state."""


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


def retry_text(status: ComponentStatus, now: float) -> str:
    """How long until it starts again, to the second; empty where nobody said when."""
    return "" if status.retry_at is None else duration(status.retry_at - now)


def state_text(status: ComponentStatus, now: float) -> str:
    """`● ready 41m`, `✓ exited 0`, `↻ backoff 12s`, `✗ failed code 1`."""
    look = LOOKS[status.state]
    extra = ""
    match status.state:
        case ComponentState.READY | ComponentState.STARTING:
            extra = uptime_text(status, now)
        case ComponentState.EXITED | ComponentState.FAILED:
            extra = exit_text(status)
        case ComponentState.BACKOFF:
            extra = retry_text(status, now)
    return f"{look.symbol} {look.word} {extra}".rstrip()


def _behind_state(state: ComponentState, reason: str) -> list[tuple[str, str]]:
    """The reason behind the state's word: `◌ waiting for inference`, `↻ backoff 12s · exited 1`."""
    if state is ComponentState.WAITING:
        for prefix in _WAITS:
            if reason.startswith(prefix):
                return [(f" for {reason.removeprefix(prefix)}", LOOKS[state].style)]
    return [SEPARATOR, (reason, "")]


def component_title(
    status: ComponentStatus, now: float, *, selected: bool, width: int | None = None
) -> tuple[Content, bool]:
    """The title of a component's pane, and whether it tells the whole reason.

    Most important first: the border cuts off what is beyond `width` cells. Of a reason that would be cut
    only the part before its first colon is told; that of a failure is always told below.
    """
    look = LOOKS[status.state]
    parts: list[tuple[str, str]] = [
        ("▸ " if selected else "", "bold"),
        (status.id, "bold"),
        (" ", ""),
        (state_text(status, now), look.style),
    ]
    if status.stalled:
        parts.extend([SEPARATOR, (f"{STALLED.symbol} {STALLED.word}", STALLED.style)])
    reason = clean_line(status.reason or "")
    is_told = not reason
    if reason and status.state is not ComponentState.FAILED:
        for text in (reason, reason.partition(": ")[0]):
            longer = [*parts, *_behind_state(status.state, text)]
            if width is None or Content.assemble(*longer).cell_length <= width:
                parts, is_told = longer, text == reason
                break
    texts = [f":{status.port}"] if status.port is not None and status.pid is not None else []
    texts.extend(clean_line(fact) for fact in status.facts)
    for text in texts:
        parts.extend([SEPARATOR, (text, "$foreground 60%" if text.startswith(":") else "")])
    return Content.assemble(*parts), is_told


def told_below(status: ComponentStatus, *, reason_is_told: bool) -> Content:
    """What stands below the log, a line each: the reason, unless the title has it, and signs of a stall."""
    look = LOOKS[status.state]
    lines = []
    if status.reason and not reason_is_told:
        lines.append(Content.styled(f"{look.symbol} {clean_line(status.reason)}", look.style))
    if status.stalled and status.evidence:
        lines.append(Content.styled(f"{STALLED.symbol} {clean_line(status.evidence)}", STALLED.style))
    return Content("\n").join(lines)


TROUBLES = (LOOKS[ComponentState.FAILED], LOOKS[ComponentState.BACKOFF])


def experiment_look(status: Status) -> Look:
    """One word for the whole experiment: what most needs a person's eye."""
    if status.observed:
        return Look("◉", "observed", "$text-primary")
    match status.word:
        case "done":
            return Look("✓", "done", "$text-success")
        case "running":
            return Look("●", "running", "$text-success")
        case word:
            known = {state.value: look for state, look in LOOKS.items()}
            return known.get(word, Look(STALLED.symbol, word, STALLED.style))
