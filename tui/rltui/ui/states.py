"""States of components and experiments are drawn with a symbol and a word always, and a colour on top."""

from __future__ import annotations

from textual.content import Content

from rltui.core.api import ComponentStatus, Status
from rltui.core.gpu.out_of_memory import verdict
from rltui.core.states import (
    ALIVE_STATES,
    COMPONENT_STATES,
    RUN_STATES,
    STALLED,
    AnyBadge,
    Badge,
    ComponentState,
)
from rltui.ui.actions import key_of
from rltui.ui.styles import FAINT, STYLES
from rltui.ui.text import clean_line
from rltui.views.component import component_state_text, concern_text, failed_text, host_texts, waited_for

SEPARATOR = (" · ", FAINT)
_SEVERITY_STYLES = {"error": "$text-error", "warning": STYLES["busy"]}
_MOST_CONCERNS = 1
"""Number of health issues below a log: one mostly brings others with it; `rltui status` has all."""


def _behind_state(state: ComponentState, reason: str) -> list[tuple[str, str]]:
    """The reason behind the state's word: `◌ waiting for inference`, `↻ backoff 12s · exited 1`."""
    if (waits_for := waited_for(state, reason)) is not None:
        return [(f" for {waits_for}", STYLES[COMPONENT_STATES[state].role])]
    return [SEPARATOR, (reason, "")]


def component_title(
    status: ComponentStatus, now: float, *, selected: bool, width: int | None = None
) -> tuple[Content, bool]:
    """The title of a component's pane, and whether it tells the whole reason.

    Most important first: the border cuts off what is beyond `width` cells. Of a reason that would be cut
    only the part before its first colon is told; that of a failure is always told below.
    """
    badge = COMPONENT_STATES[status.state]
    fragments: list[tuple[str, str]] = [
        ("▸ " if selected else "", "bold"),
        (status.id, "bold"),
        (" ", ""),
        (clean_line(component_state_text(status, now)), STYLES[badge.role]),
    ]
    if status.host is not None and status.state in ALIVE_STATES:
        for text in map(clean_line, host_texts(status.host.model_dump(), now)):
            style = STYLES[STALLED.role] if text.startswith(STALLED.sign) else ""
            fragments.extend([SEPARATOR, (text, style)])
    if status.stalled:
        fragments.extend([SEPARATOR, (f"{STALLED.sign} {STALLED.word}", STYLES[STALLED.role])])
    reason = clean_line(status.reason or "")
    is_told = not reason
    if reason and status.state is not ComponentState.FAILED:
        for text in (reason, reason.partition(": ")[0]):
            longer = [*fragments, *_behind_state(status.state, text)]
            if width is None or Content.assemble(*longer).cell_length <= width:
                fragments, is_told = longer, text == reason
                break
    has_port = status.port is not None and status.state in ALIVE_STATES
    texts = [f":{status.port}"] if has_port else []
    texts.extend(clean_line(fact) for fact in status.facts)
    for text in texts:
        fragments.extend([SEPARATOR, (text, FAINT if text.startswith(":") else "")])
    return Content.assemble(*fragments), is_told


def told_below(status: ComponentStatus, *, reason_is_told: bool) -> Content:
    """Lines below the log: the reason, unless the title has it, and signs of a stall."""
    badge = COMPONENT_STATES[status.state]
    lines = []
    if status.reason and not reason_is_told:
        lines.append(Content.styled(f"{badge.sign} {clean_line(status.reason)}", STYLES[badge.role]))
    if status.stalled and status.evidence:
        lines.append(Content.styled(f"{STALLED.sign} {clean_line(status.evidence)}", STYLES[STALLED.role]))
    lines.extend(
        Content.styled(
            f"{STALLED.sign} {clean_line(concern_text(concern))}", _SEVERITY_STYLES[concern.severity]
        )
        for concern in status.concerns[:_MOST_CONCERNS]
    )
    return Content("\n").join(lines)


TROUBLES = (COMPONENT_STATES[ComponentState.FAILED], COMPONENT_STATES[ComponentState.BACKOFF])


def experiment_badge(status: Status) -> AnyBadge:
    """One word for the whole experiment: what most needs a person's eye."""
    if status.observed:
        return Badge("◉", "observed", "key")
    if status.failed and not status.done:
        return COMPONENT_STATES[ComponentState.FAILED]._replace(word=clean_line(failed_text(status.failed)))
    match status.word:
        case "done":
            return RUN_STATES["done"]
        case "running":
            return RUN_STATES["running"]
        case word:
            by_word: dict[str, AnyBadge] = {badge.word: badge for badge in COMPONENT_STATES.values()}
            concerns = status.progress.concerns
            is_bad = bool(concerns) and status.word == concerns[0].word and concerns[0].severity == "error"
            return by_word.get(word, Badge(STALLED.sign, word, "bad" if is_bad else "busy"))


def told_of_memory(status: ComponentStatus, *, readonly: bool = False) -> Content:
    """The memory that ran out, with sizes and the first remedy with its key; empty where none ran out.

    It stands in place of the reason, which has the same figures and general advice.
    """
    if status.out_of_memory is None:
        return Content("")
    badge = COMPONENT_STATES[status.state]
    lines = [Content.styled(f"{badge.sign} {verdict(status.out_of_memory)}", STYLES[badge.role])]
    if status.remedies:
        first, *other_remedies = (clean_line(remedy.title) for remedy in status.remedies)
        key = "" if readonly else f" {key_of('component.fix')}"
        more = f" · or {len(other_remedies)} more" if other_remedies else ""
        lines.append(Content.assemble((f"→{key} ", "bold"), (first, ""), (more, FAINT)))
    return Content("\n").join(lines)
