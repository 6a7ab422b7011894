"""How the states of components and experiments are drawn: always a symbol and a word, and a colour on top."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual.content import Content

from rltui.core.api import ALIVE_STATES, ComponentState, ComponentStatus, Status
from rltui.core.gpu.out_of_memory import verdict
from rltui.core.runs import RunState
from rltui.core.text import duration
from rltui.ui.actions import key_of
from rltui.ui.text import age, clean_line
from rltui.wording import (
    RUN_SYMBOLS,
    STALLED_SYMBOL,
    STATE_SYMBOLS,
    concern_text,
    failed_text,
    host_texts,
    state_word,
)


@dataclass(frozen=True, slots=True)
class Badge:
    symbol: str
    word: str
    style: str
    """A theme variable."""


_STYLES = {
    ComponentState.STOPPED: "$foreground 60%",
    ComponentState.READY: "$text-success",
    ComponentState.EXITED: "$text-success",
    ComponentState.FAILED: "$text-error",
}
BADGES = {
    state: Badge(STATE_SYMBOLS[state], state.value, _STYLES.get(state, "$text-warning"))
    for state in ComponentState
}
MEANINGS = {
    ComponentState.STOPPED: "never started, or stopped on request",
    ComponentState.WAITING: "held back: by a component, a port, GPU memory or leftover processes",
    ComponentState.STARTING: "runs, but does not answer yet; pending: its host has not begun to run it",
    ComponentState.READY: "runs and answers",
    ComponentState.STOPPING: "was asked to end",
    ComponentState.EXITED: "a job that is done",
    ComponentState.BACKOFF: "failed, and starts again by itself: s at once, x not at all",
    ComponentState.FAILED: "ended with an error, or never became ready",
}
RUN_BADGES: dict[RunState, Badge] = {
    "running": Badge(RUN_SYMBOLS["running"], "running", "$text-success"),
    "done": Badge(RUN_SYMBOLS["done"], "done", "$text-success"),
    "failed": Badge(RUN_SYMBOLS["failed"], "failed", "$text-error"),
    "stopped": Badge(RUN_SYMBOLS["stopped"], "stopped", "$foreground 60%"),
    "damaged": Badge(RUN_SYMBOLS["damaged"], "damaged", "$text-warning"),
    "gone": Badge(RUN_SYMBOLS["gone"], "gone", "$text-warning"),
}
STALLED = Badge(STALLED_SYMBOL, "stalled", "$text-warning")
SEPARATOR = (" · ", "$foreground 60%")
_SEVERITY_STYLES = {"error": "$text-error", "warning": STALLED.style}
_MOST_CONCERNS = 1
"""Told below a log: one trouble mostly brings others with it; `rltui status` has all."""
_WAITS = ("waits for ", "waiting for ")
"""Beginnings of a reason that says no more than the word of the state."""


def _uptime_text(status: ComponentStatus, now: float) -> str:
    """How long the process runs, empty when there is none."""
    if status.started_at is not None:
        return age(now - status.started_at)
    return "" if status.uptime_s is None else age(status.uptime_s)


def _exit_text(status: ComponentStatus) -> str:
    """`0`, `code 1`, `SIGKILL`, or empty where it is unknown."""
    if status.signal:
        return clean_line(status.signal)
    if status.exit_code is None:
        return ""
    return "0" if status.exit_code == 0 else f"code {status.exit_code}"


def _state_text(status: ComponentStatus, now: float) -> str:
    """`● ready 41m`, `✓ exited 0`, `↻ backoff 12s`, `✗ failed code 1`."""
    word = state_word(status.state, None if status.host is None else status.host.model_dump())
    extra = ""
    match status.state:
        case ComponentState.READY | ComponentState.STARTING:
            extra = _uptime_text(status, now)
        case ComponentState.EXITED | ComponentState.FAILED:
            extra = _exit_text(status)
        case ComponentState.BACKOFF:
            extra = "" if status.retry_at is None else duration(status.retry_at - now)
    return f"{STATE_SYMBOLS[word]} {word} {extra}".rstrip()


def _behind_state(state: ComponentState, reason: str) -> list[tuple[str, str]]:
    """The reason behind the state's word: `◌ waiting for inference`, `↻ backoff 12s · exited 1`."""
    if state is ComponentState.WAITING:
        for prefix in _WAITS:
            if reason.startswith(prefix):
                return [(f" for {reason.removeprefix(prefix)}", BADGES[state].style)]
    return [SEPARATOR, (reason, "")]


def component_title(
    status: ComponentStatus, now: float, *, selected: bool, width: int | None = None
) -> tuple[Content, bool]:
    """The title of a component's pane, and whether it tells the whole reason.

    Most important first: the border cuts off what is beyond `width` cells. Of a reason that would be cut
    only the part before its first colon is told; that of a failure is always told below.
    """
    badge = BADGES[status.state]
    parts: list[tuple[str, str]] = [
        ("▸ " if selected else "", "bold"),
        (status.id, "bold"),
        (" ", ""),
        (_state_text(status, now), badge.style),
    ]
    if status.host is not None and status.state in ALIVE_STATES:
        for text in map(clean_line, host_texts(status.host.model_dump(), now)):
            style = STALLED.style if text.startswith(STALLED.symbol) else ""
            parts.extend([SEPARATOR, (text, style)])
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
    has_port = status.port is not None and status.state in ALIVE_STATES
    texts = [f":{status.port}"] if has_port else []
    texts.extend(clean_line(fact) for fact in status.facts)
    for text in texts:
        parts.extend([SEPARATOR, (text, "$foreground 60%" if text.startswith(":") else "")])
    return Content.assemble(*parts), is_told


def told_below(status: ComponentStatus, *, reason_is_told: bool) -> Content:
    """What stands below the log, a line each: the reason, unless the title has it, and signs of a stall."""
    badge = BADGES[status.state]
    lines = []
    if status.reason and not reason_is_told:
        lines.append(Content.styled(f"{badge.symbol} {clean_line(status.reason)}", badge.style))
    if status.stalled and status.evidence:
        lines.append(Content.styled(f"{STALLED.symbol} {clean_line(status.evidence)}", STALLED.style))
    lines.extend(
        Content.styled(
            f"{STALLED.symbol} {clean_line(concern_text(concern))}", _SEVERITY_STYLES[concern.severity]
        )
        for concern in status.concerns[:_MOST_CONCERNS]
    )
    return Content("\n").join(lines)


TROUBLES = (BADGES[ComponentState.FAILED], BADGES[ComponentState.BACKOFF])


def experiment_badge(status: Status) -> Badge:
    """One word for the whole experiment: what most needs a person's eye."""
    if status.observed:
        return Badge("◉", "observed", "$text-primary")
    if status.failed and not status.done:
        return replace(BADGES[ComponentState.FAILED], word=clean_line(failed_text(status.failed)))
    match status.word:
        case "done":
            return Badge(RUN_SYMBOLS["done"], "done", "$text-success")
        case "running":
            return Badge(RUN_SYMBOLS["running"], "running", "$text-success")
        case word:
            known = {state.value: badge for state, badge in BADGES.items()}
            concerns = status.progress.concerns
            is_bad = bool(concerns) and status.word == concerns[0].word and concerns[0].severity == "error"
            style = "$text-error" if is_bad else STALLED.style
            return known.get(word, Badge(STALLED.symbol, word, style))


def told_of_memory(status: ComponentStatus, *, readonly: bool = False) -> Content:
    """What ran out, with the figures, and what would help first, with its key; empty where nothing ran out.

    It stands in place of the reason, which has the same figures and general advice.
    """
    if status.out_of_memory is None:
        return Content("")
    badge = BADGES[status.state]
    lines = [Content.styled(f"{badge.symbol} {verdict(status.out_of_memory)}", badge.style)]
    if status.remedies:
        first, *others = (clean_line(remedy.title) for remedy in status.remedies)
        key = "" if readonly else f" {key_of('component.fix')}"
        more = f" · or {len(others)} more" if others else ""
        lines.append(Content.assemble((f"→{key} ", "bold"), (first, ""), (more, "$foreground 60%")))
    return Content("\n").join(lines)
