"""The checkpoints of a run as clients see them, and which of them may go. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pydantic import Field, computed_field

from rltui.core.levels import Level, level_of
from rltui.core.values import Value


class Checkpoint(Value):
    step: int
    at: float | None = None
    """When the last of its parts was written."""
    size_bytes: int | None = None
    """On the disk; `None` while it is being added up."""
    complete: bool = False
    """A run can continue from it."""
    parts: tuple[str, ...] = ()
    """What is there: `trainer`, `orchestrator`, the marker `STABLE`, `weights` beside it …"""
    missing: tuple[str, ...] = ()
    attempt: int | None = None
    """Of the program that wrote it, counted from 1; `None` where nobody knows."""
    path: str = ""
    reward: float | None = None
    """Mean over the steps up to it, at most `WINDOW`."""
    reward_std: float | None = None
    """Of these steps; `None` where there is but one."""
    reward_after: float | None = None
    """Mean over the steps behind it, at most `WINDOW`; `None` where there are none yet."""
    evals: dict[str, float] = Field(default_factory=dict)
    """Newest score of each evaluation up to its step and after that of the checkpoint before."""
    notes: tuple[str, ...] = ()
    """Why it is of interest: `highest reward`, `being written` …"""


WINDOW = 8
"""Steps that the reward around a checkpoint is the mean of."""
NAMED = "the config names it"
BEING_WRITTEN = "being written"
NEWEST = "a plain resume takes it"
HIGHEST = "highest reward"
"""By the mean of some steps, whose spread is told beside it: `best`, where a person asks for one."""
GOOD = "last good one before the fall"


class SetAside(Value):
    """What one restart moved aside: `rltui checkpoints --restore NAME` brings it back."""

    name: str
    """Of its folder: when that was."""
    steps: tuple[int, ...] = ()
    """Of the checkpoints among it, ascending."""
    size_bytes: int = 0


class CheckpointReport(Value):
    """`rltui checkpoints --json`."""

    experiment: str
    folder: str = ""
    checkpoints: tuple[Checkpoint, ...] = ()
    """By step, ascending."""
    step: int | None = None
    """Steps that the run has completed."""
    total_bytes: int = 0
    free_bytes: int | None = None
    """What this user may still write there."""
    fits: int | None = None
    """So many more fit on the disk; `None` where there is none to judge by."""
    to_come: int | None = None
    """So many the run has yet to write; `None`: nobody knows."""
    archive: str = ""
    """The folder of what restarts moved aside."""
    archive_bytes: int = 0
    set_aside: tuple[SetAside, ...] = ()
    """What each of them moved, the oldest first."""
    problem: str = ""
    """Why it may not be the whole truth, in words."""

    @computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def archived_steps(self) -> tuple[int, ...]:
        """Of the checkpoints that restarts moved aside, ascending."""
        return tuple(sorted({step for each in self.set_aside for step in each.steps}))

    @property
    def complete(self) -> tuple[Checkpoint, ...]:
        """Those that a run can continue from, ascending."""
        return tuple(each for each in self.checkpoints if each.complete)

    def of(self, step: int) -> Checkpoint | None:
        return next((each for each in self.checkpoints if each.step == step), None)


class Retention(Value):
    """Which checkpoints to keep: all that any of these names."""

    keep_last: int = Field(default=3, ge=1)
    """So many of the newest complete ones."""
    keep_every: int | None = Field(default=None, ge=1)
    """Those of steps that are multiples of it."""
    keep: tuple[int, ...] = ()
    archive: bool = False
    """What restarts moved aside goes as well."""


class Kept(Value):
    step: int
    why: str


class PrunePlan(Value):
    """`rltui checkpoints --prune --json`: what would be deleted, or was."""

    delete: tuple[Checkpoint, ...] = ()
    """By step, ascending."""
    keep: tuple[Kept, ...] = ()
    archive: str = ""
    """The folder whose content goes too; empty: it stays."""
    frees_bytes: int = 0
    done: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.delete or self.archive)


def prune_plan(
    report: CheckpointReport, retention: Retention, only: Collection[int] | None = None
) -> PrunePlan:
    """What `retention` leaves over, of the steps in `only` where that is said: those that a person was shown.

    Never among it: the newest complete one, those that a note speaks for, and what is newer than the newest
    complete one, since somebody may be writing it.
    """
    complete = [each.step for each in report.complete]
    newest = set(complete[-retention.keep_last :])
    keep: list[Kept] = []
    delete: list[Checkpoint] = []
    for each in report.checkpoints:
        why = each.notes[0] if each.notes else ""
        if not why:
            why = _why_kept(each, retention, newest, complete[-1] if complete else None)
        if not why and only is not None and each.step not in only:
            why = "it came meanwhile"
        if why:
            keep.append(Kept(step=each.step, why=why))
        else:
            delete.append(each)
    archive = report.archive if retention.archive and report.archive_bytes else ""
    freed = sum(each.size_bytes or 0 for each in delete) + (report.archive_bytes if archive else 0)
    return PrunePlan(delete=tuple(delete), keep=tuple(keep), archive=archive, frees_bytes=freed)


def _why_kept(
    each: Checkpoint, retention: Retention, newest: Collection[int], newest_step: int | None
) -> str:
    if each.step in retention.keep:
        return "named"
    if not each.complete:
        is_old = newest_step is not None and each.step < newest_step
        return "" if is_old else "it may be under way"
    if each.step in newest:
        return f"one of the newest {retention.keep_last}"
    if retention.keep_every and each.step % retention.keep_every == 0:
        return f"a multiple of {retention.keep_every}"
    return ""


def levels_around(values: Iterable[tuple[int, float]], step: int) -> tuple[Level | None, Level | None]:
    """Over at most `WINDOW` of `values`, by completed steps: up to `step`, and behind it."""
    ordered = sorted(values)
    before = [value for at, value in ordered if at <= step][-WINDOW:]
    after = [value for at, value in ordered if at > step][:WINDOW]
    return level_of(before), level_of(after)
