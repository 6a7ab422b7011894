"""The checkpoints of a run as clients see them, and rules for pruning them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import force_setattr

from rltui.base.values import Value
from rltui.core.metrics.levels import MetricLevel, level_of


class Checkpoint(Value):
    step: int
    at: float | None = None
    """Time at which the last of its files was written."""
    size_bytes: int | None = None
    """Size on disk; `None` while it is being added up."""
    complete: bool = False
    """A run can continue from it."""
    parts: tuple[str, ...] = ()
    """Existing parts: `trainer`, `orchestrator`, the marker `STABLE`, `weights` …"""
    missing: tuple[str, ...] = ()
    attempt: int | None = None
    """Attempt of the program that wrote it, counted from 1; `None` if unknown."""
    path: str = ""
    reward: float | None = None
    """Mean over the steps up to it, at most `WINDOW`."""
    reward_std: float | None = None
    """Standard deviation of these steps; `None` if there is but one."""
    reward_after: float | None = None
    """Mean over the steps after it, at most `WINDOW`; `None` if there are none yet."""
    evals: dict[str, float] = field(default_factory=dict)
    """Newest score of each evaluation up to its step and after that of the previous checkpoint."""
    notes: tuple[str, ...] = ()
    """Reasons why it is of interest: `highest reward`, `being written` …"""


WINDOW = 8
"""Number of steps for the mean reward around a checkpoint."""
NAMED = "named in the config"
BEING_WRITTEN = "being written"
NEWEST = "default for resume"
HIGHEST = "highest reward"
"""Judged by the mean of some steps, whose deviation is displayed with it; `best` on the command line."""
GOOD = "last good before the drop"


class SetAside(Value):
    """Files that one restart moved aside: `rltui checkpoints restore NAME` brings them back."""

    name: str
    """Name of its folder: the time of the move."""
    steps: tuple[int, ...] = ()
    """Steps of the checkpoints among it, ascending."""
    size_bytes: int = 0


class CheckpointReport(Value):
    """`rltui checkpoints --json`."""

    experiment: str
    folder: str = ""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Sorted by step, ascending."""
    step: int | None = None
    """Steps that the run has completed."""
    total_bytes: int = 0
    free_bytes: int | None = None
    """Bytes that this user may still write there."""
    fits: int | None = None
    """Number of further checkpoints that fit on the disk; `None` if there is none to judge by."""
    to_come: int | None = None
    """Number that the run has yet to write; `None` if unknown."""
    archive: str = ""
    """The folder of files that restarts moved aside."""
    archive_bytes: int = 0
    set_aside: tuple[SetAside, ...] = ()
    """The moved files by restart, the oldest first."""
    problem: str = ""
    """Reason why the report may be incomplete, in words."""
    archived_steps: tuple[int, ...] = ()
    """Steps of the checkpoints that restarts moved aside, ascending: always those of `set_aside`."""

    def __post_init__(self) -> None:
        steps = {step for archive in self.set_aside for step in archive.steps}
        force_setattr(self, "archived_steps", tuple(sorted(steps)))

    @property
    def complete(self) -> tuple[Checkpoint, ...]:
        """The checkpoints that a run can continue from, ascending."""
        return tuple(checkpoint for checkpoint in self.checkpoints if checkpoint.complete)

    def of(self, step: int) -> Checkpoint | None:
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.step == step), None)


class Retention(Value):
    """The checkpoints to keep: all that match any of these fields."""

    keep_last: Annotated[int, Meta(ge=1)] = 3
    """Number of the newest complete ones to keep."""
    keep_every: Annotated[int, Meta(ge=1)] | None = None
    """Keep the steps that are multiples of it."""
    keep: tuple[int, ...] = ()
    archive: bool = False
    """True to delete the files, too, that restarts moved aside."""


class KeptCheckpoint(Value):
    step: int
    why: str


class PrunePlan(Value):
    """Result of `rltui checkpoints prune --json`: the checkpoints to delete, or deleted ones."""

    delete: tuple[Checkpoint, ...] = ()
    """Sorted by step, ascending."""
    keep: tuple[KeptCheckpoint, ...] = ()
    archive: str = ""
    """The folder whose content is deleted too; empty: it stays."""
    frees_bytes: int = 0
    done: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.delete or self.archive)


def prune_plan(
    report: CheckpointReport, retention: Retention, only: Collection[int] | None = None
) -> PrunePlan:
    """The checkpoints outside of `retention`, limited to the steps in `only` if set: those that a person saw.

    Never deleted: the newest complete one, those with a note, and those newer than the newest complete one,
    since somebody may be writing them.
    """
    complete = [checkpoint.step for checkpoint in report.complete]
    newest = set(complete[-retention.keep_last :])
    keep: list[KeptCheckpoint] = []
    delete: list[Checkpoint] = []
    for checkpoint in report.checkpoints:
        reason = checkpoint.notes[0] if checkpoint.notes else ""
        if not reason:
            reason = _keep_reason(checkpoint, retention, newest, complete[-1] if complete else None)
        if not reason and only is not None and checkpoint.step not in only:
            reason = "saved after the plan"
        if reason:
            keep.append(KeptCheckpoint(step=checkpoint.step, why=reason))
        else:
            delete.append(checkpoint)
    archive = report.archive if retention.archive and report.archive_bytes else ""
    freed = sum(checkpoint.size_bytes or 0 for checkpoint in delete) + (
        report.archive_bytes if archive else 0
    )
    return PrunePlan(delete=tuple(delete), keep=tuple(keep), archive=archive, frees_bytes=freed)


def _keep_reason(
    checkpoint: Checkpoint, retention: Retention, newest: Collection[int], newest_step: int | None
) -> str:
    if checkpoint.step in retention.keep:
        return "named"
    if not checkpoint.complete:
        is_old = newest_step is not None and checkpoint.step < newest_step
        return "" if is_old else "possibly still being written"
    if checkpoint.step in newest:
        return f"one of the newest {retention.keep_last}"
    if retention.keep_every and checkpoint.step % retention.keep_every == 0:
        return f"a multiple of {retention.keep_every}"
    return ""


def levels_around(
    values: Iterable[tuple[int, float]], step: int
) -> tuple[MetricLevel | None, MetricLevel | None]:
    """Levels over at most `WINDOW` of `values`, by completed steps: up to `step`, and after it."""
    points = sorted(values)
    earlier = [value for number, value in points if number <= step][-WINDOW:]
    later = [value for number, value in points if number > step][:WINDOW]
    return level_of(earlier), level_of(later)
