"""What of the journal belongs on a chart: edits, restarts, crashes, checkpoints, evaluations, notes …"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltui.core.api import JournalEntry  # pydantic takes 60 ms, which `rltui events` need not pay


class AnnotationKind(StrEnum):
    """Why the curve may look different from here on; what a person should read first stands first."""

    CRASH = "crash"
    ALERT = "alert"
    EDIT = "edit"
    NOTE = "note"
    RESUME = "resume"
    RESTART = "restart"
    CHECKPOINT = "checkpoint"
    EVAL = "eval"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A moment of a run that explains its curves."""

    at: float
    """Seconds since 1970."""
    step: int | None
    """Steps that the run had completed then; of a resume, the step it goes on after. `None`: not known, so
    the times of a series must tell."""
    kind: AnnotationKind
    text: str
    """As the journal has it: to be cleaned before it is shown."""
    component: str | None = None
    """Whom it is about; `None`: the run."""
    line_step: int | None = None
    """Where it stands on the line that counts, when the run has gone back since: an edit, and the restart
    that went back, count from there on. `None`: where it was."""
    is_abandoned: bool = False
    """The run has gone back to before it: by step it has no place any more."""


_TOLD_OTHERWISE = ("crash", "recovered", "finished")
"""Alerts whose matter has an entry of its own, or is none."""


def marks(journal: Iterable[JournalEntry]) -> tuple[Annotation, ...]:
    """Those of a whole journal, in its order, which is that of time."""
    found: list[Annotation] = []
    has_begun = False
    for entry in journal:
        kind = mark_kind(entry.kind, entry.data)
        if kind is AnnotationKind.RESUME and not has_begun:
            has_begun = True
            if entry.step is None:  # it begins, and nothing was before
                continue
        if kind is AnnotationKind.RESUME:
            found = _gone_back(found, entry.step or 0)
        if kind is not None:
            found.append(Annotation(entry.at, entry.step, kind, _text(entry, kind), entry.component))
    return tuple(found)


def _gone_back(known: Sequence[Annotation], step: int) -> list[Annotation]:
    """Those marks once the run goes on after `step`."""
    restart = next((mark for mark in reversed(known) if mark.kind is AnnotationKind.RESTART), None)

    def moved(mark: Annotation) -> Annotation:
        place = mark.step if mark.line_step is None else mark.line_step
        if place is None or place <= step:
            return mark
        if mark.kind is AnnotationKind.EDIT or (mark is restart and not mark.is_abandoned):
            return replace(mark, line_step=step)
        return replace(mark, is_abandoned=True)

    return [*map(moved, known)]


def mark_kind(kind: str, data: Mapping[str, Any]) -> AnnotationKind | None:
    """What an entry of that kind and data is on a chart; `None`: nothing."""
    match kind:
        case "edit" | "note" | "checkpoint" | "resume":
            return AnnotationKind(kind)
        case "eval" if "verdict" in data:
            return AnnotationKind.EVAL
        case "exit" if data.get("failed"):
            return AnnotationKind.CRASH
        case "plan" if data.get("start") and (data.get("stop") or data.get("action") == "restart"):
            return AnnotationKind.RESTART
        case "alert" if data.get("severity") != "information" and data.get("alert") not in _TOLD_OTHERWISE:
            return AnnotationKind.ALERT
        case _:
            return None


def _text(entry: JournalEntry, kind: AnnotationKind) -> str:
    stopped, started = entry.data.get("stop"), entry.data.get("start")
    if kind is AnnotationKind.RESUME:
        return f"resumed {entry.text}"
    if (
        kind is AnnotationKind.RESTART
        and isinstance(stopped, list | tuple)
        and isinstance(started, list | tuple)
    ):
        names = ", ".join(map(str, started))
        if set(map(str, stopped)) == set(map(str, started)):
            return f"restart {names}"
    return entry.text
