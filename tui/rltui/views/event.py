"""Events: entries of the journal, and the annotations that some of them are on a chart."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rltui.base.text import duration
from rltui.base.times import clock_text
from rltui.core.experiment.events import author_text, first_line
from rltui.core.experiment.states import Role
from rltui.core.metrics.annotations import AnnotationKind
from rltui.views.component import LINK_SIGN
from rltui.views.table import Cell, Column, View

_PLAIN = Cell("·")
KINDS: Mapping[str, Cell] = {
    "start": _PLAIN,
    "ready": _PLAIN,
    "stop": _PLAIN,
    "exit": _PLAIN,
    "crash": Cell("✗", "bad"),
    "plan": _PLAIN,
    "restart": Cell("↻", "head"),
    "resume": Cell("↻", "head"),
    "checkpoint": Cell("◆", "good"),
    "prune": _PLAIN,
    "restore": _PLAIN,
    "promote": _PLAIN,
    "run": _PLAIN,
    "eval": Cell("✦"),
    "edit": Cell("≡", "key"),
    "config": _PLAIN,
    "alert": Cell("⚠", "busy"),
    "note": Cell("»", "head"),
    "proposal": Cell("?", "busy"),
    "link": Cell(LINK_SIGN),
    "health": _PLAIN,
    "stall": Cell("⚠", "busy"),
    "server": _PLAIN,
    "orphan": _PLAIN,
    "call": _PLAIN,
    "notice": _PLAIN,
    "supervisor": _PLAIN,
}
"""Sign and role by kind, as people see it (`display_kind`): in the journal's file a `crash` is an `exit`, a
`restart` a `plan`.
"""


class AnnotationBadge(NamedTuple):
    sign: str
    word: str
    plural: str
    is_alarm: bool = False


ANNOTATIONS: Mapping[AnnotationKind, AnnotationBadge] = {
    AnnotationKind.CRASH: AnnotationBadge("✗", "crash", "crashes", is_alarm=True),
    AnnotationKind.ALERT: AnnotationBadge("!", "alert", "alerts", is_alarm=True),
    AnnotationKind.EDIT: AnnotationBadge("e", "edit", "edits"),
    AnnotationKind.NOTE: AnnotationBadge("n", "note", "notes"),
    AnnotationKind.RESUME: AnnotationBadge("↻", "resume", "resumes"),
    AnnotationKind.RESTART: AnnotationBadge("r", "restart", "restarts"),
    AnnotationKind.CHECKPOINT: AnnotationBadge("▴", "checkpoint", "checkpoints"),
    AnnotationKind.EVAL: AnnotationBadge("v", "evaluation", "evaluations"),
}
"""Annotations on a chart, where a sign has but one cell and no word beside it."""
_LONGEST_S = 1e10
"""Longer times were never measured."""


@dataclass(frozen=True, slots=True)
class Event:
    """An entry of the journal, as its document or its model has it."""

    at: float
    kind: str
    """The result of `display_kind`."""
    text: str
    step: int | None = None
    component: str | None = None
    attempt: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    """The result of `author`."""
    who: str = ""
    """The result of `author_name`."""


def event_look(event: Event) -> Cell:
    """Sign and role: good news do not look like trouble."""
    if event.kind == "alert" and event.data.get("severity") == "information":
        return Cell("✓", "good")
    return KINDS.get(event.kind, _PLAIN)


def _kind(event: Event, _: float) -> Cell:
    role: Role | None = "good" if event.kind == "ready" else KINDS.get(event.kind, _PLAIN).role
    return Cell(event.kind, role)


VIEW: View[Event] = View(
    key=lambda event: f"{event.at}",
    columns=(
        Column(
            "when",
            lambda event, _: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at)),
            brief=lambda event, _: clock_text(event.at),
        ),
        Column("step", lambda event, _: "" if event.step is None else str(event.step), is_right=True),
        Column("kind", _kind),
        Column("who", lambda event, _: event.who, least=7, cut="start", goes=1),
        Column("what", lambda event, _: first_line(event.text), least=30),
    ),
)


def event_details(event: Event, *, has_step: bool) -> list[str]:
    """Short texts of further facts; the step only where it has no column."""
    texts = [] if event.step is None or has_step else [f"step {event.step}"]
    if event.component:
        attempt = "" if event.attempt is None else f" attempt {event.attempt}"
        texts.append(f"{event.component}{attempt}")
    for name, label in (("took_s", "took"), ("plan_s", "took"), ("retry_in_s", "restarts in")):
        if isinstance(seconds := event.data.get(name), int | float) and 0 <= seconds < _LONGEST_S:
            texts.append(f"{label} {duration(seconds)}")
    if isinstance(suppressed := event.data.get("suppressed"), int) and suppressed:
        texts.append(f"{suppressed} similar suppressed")
    return [*texts, *filter(None, [author_text(event.text, event.by)])]
