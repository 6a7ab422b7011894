"""The journal entries that belong on a chart: edits, restarts, crashes, checkpoints, evaluations, notes …"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # msgspec takes 20 ms, which `rltui events` need not pay
    from rltui.core.experiment.journal import JournalEntry


class AnnotationKind(StrEnum):
    """Reasons why the curve may look different from here on, the most important first."""

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
    """Time in seconds since 1970."""
    step: int | None
    """Steps that the run had completed then; for a resume, the step it goes on after. `None`: unknown, so
    the times of a series must tell.
    """
    kind: AnnotationKind
    text: str
    """Text of the journal: to be sanitised before it is displayed."""
    component: str | None = None
    """Subject; `None`: the run."""
    line_step: int | None = None
    """Step on the line that counts, if the run has gone back since: an edit, and the restart that went back,
    count from there on. `None`: unchanged.
    """
    is_abandoned: bool = False
    """The run has gone back to before it: by step it has no position any more."""


_UNMARKED_ALERTS = ("crash", "recovered", "finished")
"""Alerts that have an entry of their own, or need none."""


def annotations_of(journal: Iterable[JournalEntry]) -> tuple[Annotation, ...]:
    """The annotations of a whole journal, in its order, which is that of time."""
    annotations: list[Annotation] = []
    has_started = False
    for entry in journal:
        kind = annotation_kind(entry.kind, entry.data)
        if kind is AnnotationKind.RESUME and not has_started:
            has_started = True
            if entry.step is None:  # it begins, and nothing was before
                continue
        if kind is AnnotationKind.RESUME:
            annotations = _after_rewind(annotations, entry.step)
        if kind is not None:
            annotations.append(Annotation(entry.at, entry.step, kind, _text(entry, kind), entry.component))
    return tuple(annotations)


def _after_rewind(annotations: Sequence[Annotation], step: int | None) -> list[Annotation]:
    """The run continues after `step`; `None`: it begins anew, and nothing before has a place on its line."""
    if step is None:
        return [replace(annotation, is_abandoned=True) for annotation in annotations]
    restart = next(
        (annotation for annotation in reversed(annotations) if annotation.kind is AnnotationKind.RESTART),
        None,
    )
    newest = 0
    """The step of an annotation, or of the last one before that has a step."""
    moved: list[Annotation] = []
    for annotation in annotations:
        place = annotation.step if annotation.line_step is None else annotation.line_step
        newest = newest if place is None or annotation.is_abandoned else place
        if newest <= step:
            moved.append(annotation)
        elif annotation.kind is AnnotationKind.EDIT or (
            annotation is restart and not annotation.is_abandoned
        ):
            moved.append(replace(annotation, line_step=step))
        else:
            moved.append(replace(annotation, is_abandoned=True))
    return moved


def annotation_kind(kind: str, data: Mapping[str, Any]) -> AnnotationKind | None:
    """The kind of annotation for an entry of that kind and data; `None`: none."""
    match kind:
        case "edit" | "note" | "checkpoint" | "resume":
            return AnnotationKind(kind)
        case "eval" if "verdict" in data:
            return AnnotationKind.EVAL
        case "exit" if data.get("failed"):
            return AnnotationKind.CRASH
        case "plan" if data.get("start") and (data.get("stop") or data.get("action") == "restart"):
            return AnnotationKind.RESTART
        case "alert" if data.get("severity") != "information" and data.get("alert") not in _UNMARKED_ALERTS:
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
