"""What people do with runs once they are there: tags, notes, marks, the archive, the trash.

Each writes the sheet in the run's folder first, then the index, which is made again from the folders anyway.
The trash lies beside the run, on its own disk: what is put there is renamed, and frees nothing until it is
emptied.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rltui.core import hints
from rltui.core.runs import RunMetadata, RunRow
from rltui.core.text import duration, listed
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.paths import STATE_FOLDER
from rltui.services.own_files import FileLock, make_folder, why_folder_is_foreign
from rltui.services.processes import living_output_dirs
from rltui.services.runs import catalog
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.index import RunIndex
from rltui.services.runs.moved_folders import TRASH
from rltui.services.runs.run_sheet import change_sheet

logger = logging.getLogger(__name__)

_LONGEST_TAG = 48
_LONGEST_NOTE = 4000
_CLOCK_SLACK_S = 60.0
_SHEET_FIELDS = tuple(each.name for each in fields(RunMetadata))


# --- words --------------------------------------------------------------------------------------------------


def set_tags(index: RunIndex, row: RunRow, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> RunRow:
    """Add and remove tags; one that is already there, or is not, is no mistake.

    Raises:
        UsageError: for what cannot be a tag.
        ConflictError: if its folder is not there.
        RltuiError: if the sheet cannot be written.
    """
    adding, removing = frozenset(map(_checked_tag, add)), frozenset(remove)
    return _changed(
        index, row, lambda sheet: replace(sheet, tags=tuple(sorted((adding | {*sheet.tags}) - removing)))
    )


def set_note(index: RunIndex, row: RunRow, note: str) -> RunRow:
    """Replace the note; an empty one removes it. Raises as `set_tags`."""
    note = note.strip()
    if len(note) > _LONGEST_NOTE:
        raise UsageError(f"the note has {len(note)} characters, {_LONGEST_NOTE} are the most")
    return _changed(index, row, lambda sheet: replace(sheet, note=note))


def set_best(index: RunIndex, row: RunRow, is_best: bool) -> RunRow:
    """Mark it, or take the mark away. Raises as `set_tags`."""
    return _changed(index, row, lambda sheet: replace(sheet, is_best=is_best))


def archive(index: RunIndex, row: RunRow) -> RunRow:
    """List it only where the archived are asked for. Raises as `set_tags`."""
    return _changed(index, row, lambda sheet: replace(sheet, archived_at=sheet.archived_at or time.time()))


def unarchive(index: RunIndex, row: RunRow) -> RunRow:
    """List it again. Raises as `set_tags`."""
    return _changed(index, row, lambda sheet: replace(sheet, archived_at=None))


def _checked_tag(tag: str) -> str:
    if not tag or len(tag) > _LONGEST_TAG or not tag.isprintable() or any(sign in tag for sign in " ,()+'\""):
        raise UsageError(
            f"{tag!r} cannot be a tag",
            hint=f"at most {_LONGEST_TAG} letters, digits and signs; no spaces, commas, brackets, quotes",
        )
    return tag


def _changed(index: RunIndex, row: RunRow, change: Callable[[RunMetadata], RunMetadata]) -> RunRow:
    if not row.control or not Path(row.control).is_dir():
        raise ConflictError(f"{row.name}: its folder is not there: {row.folder}", hint="nothing was changed")

    def checked(sheet: RunMetadata) -> RunMetadata:
        if sheet.id != row.id:
            raise ConflictError(
                f"the run in {row.folder} is another one by now",
                hint=f"{hints.RUNS_REBUILD}; nothing was changed",
            )
        return change(sheet)

    sheet = change_sheet(Path(row.control), checked)
    return _kept(index, replace(row, **{name: getattr(sheet, name) for name in _SHEET_FIELDS}))


def _kept(index: RunIndex, row: RunRow) -> RunRow:
    """The sheet is the truth: an index that cannot be written now is brought up to date later."""
    try:
        index.put([(row, None)])
    except RltuiError as error:
        logger.warning("%s: %s", row.name, error)
    return row


# --- the trash ----------------------------------------------------------------------------------------------


def kept_in(row: RunRow) -> Path | None:
    """The folder that goes into the trash: the run's own; of one that rltui was only shown, what rltui keeps
    of it. `None` where there is none any more.
    """
    return Path(row.control).parent if row.control else None


def is_in_trash(row: RunRow) -> bool:
    """Its folder lies there, whatever its sheet says."""
    folder = kept_in(row)
    return folder is not None and folder.parent.name == TRASH


def lives(row: RunRow) -> ConflictError:
    """For whoever would put it into the trash."""
    return ConflictError(
        f"{row.name} runs", hint=f"end it first: {hints.DOWN(name=row.name)}; nothing was moved"
    )


def there_before(row: RunRow) -> list[str]:
    """Names of what lay in its folder before it began, and would go with it. Unlike the time of a file, which
    a copy keeps, that of its inode is never before it was put there.
    """
    folder, before_s = kept_in(row), row.created_at - _CLOCK_SLACK_S
    if folder is None or row.observed or row.created_at > time.time():  # the clock was set back
        return []
    with suppress(OSError):
        others = (entry for entry in folder.iterdir() if entry.name != STATE_FOLDER)
        return sorted(entry.name for entry in others if entry.lstat().st_ctime < before_s)
    return []


def trash(index: RunIndex, row: RunRow, *, with_others: bool = False) -> RunRow:
    """Put its folder into the trash beside it; one without a folder is forgotten. `with_others`: also what
    was there before it.

    Raises:
        ConflictError: if it lives, if other runs lie in its folder, or what was there before.
        RltuiError: if it cannot be moved.
    """
    folder = kept_in(row)
    if is_in_trash(row):
        return row
    if folder is None or not folder.is_dir():
        catalog.forget(index, [row.id])
        return row
    folder = folder.resolve()
    _refuse_others_inside(index, row, folder)
    if not with_others and (others := there_before(row)):
        raise ConflictError(
            f"the folder of {row.name} holds what was there before it: {listed(_some(others))}",
            hint=f"{hints.RM(run=row.name)} asks whether that goes as well; nothing was moved",
        )
    with _held(row, folder):
        make_folder(folder.parent / TRASH, mode=0o700)
        if reason := why_folder_is_foreign(folder.parent / TRASH):
            raise ConflictError(
                f"{folder.parent / TRASH} is not trusted: {reason}",
                hint="what lies there is not safe from others; move that folder away; nothing was moved",
            )
        moved = _moved(row, folder, folder.parent / TRASH / f"{row.id}-{folder.name}")
    return _settled(index, moved, time.time())


def restore(index: RunIndex, row: RunRow) -> RunRow:
    """Put its folder back where it was.

    Raises:
        ConflictError: if its place is taken, or it is not in the trash any more.
        RltuiError: if it cannot be moved.
    """
    folder = kept_in(row)
    if folder is None or not is_in_trash(row):
        return _settled(index, row, None)
    place = folder.parent.parent / folder.name.removeprefix(f"{row.id}-")
    if os.path.lexists(place):
        raise ConflictError(
            f"{row.name} cannot come back: something else is at {place}", hint="move that away, and ask again"
        )
    moved = _moved(row, folder, place)
    _remove_empty(folder.parent)
    return _settled(index, moved, None)


def delete_for_good(index: RunIndex, row: RunRow) -> None:
    """Delete a folder that lies in the trash.

    Raises:
        UsageError: if it does not.
        RltuiError: if not all of it can be deleted; it can be tried again.
    """
    from rltui.services.runs.checkpoints import delete  # pydantic takes 60 ms

    folder = kept_in(row)
    if folder is None or not is_in_trash(row) or not folder.name.startswith(f"{row.id}-"):
        raise UsageError(f"{row.name} is not in the trash", hint=hints.RM(run=row.name))
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name == STATE_FOLDER)
    except FileNotFoundError:
        entries = []
    except OSError as error:
        raise RltuiError(f"cannot delete {folder}: {error.strerror}") from error
    for each in (
        *entries,
        folder,
    ):  # the sheet goes last: until then it is in the list, and can be tried again
        delete([each])
    _remove_empty(folder.parent)
    catalog.forget(index, [row.id])


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # others lie there
        folder.rmdir()


def _refuse_others_inside(index: RunIndex, row: RunRow, folder: Path) -> None:
    others = [
        other.name for other in index.rows() if other.id != row.id and folder in Path(other.folder).parents
    ]
    if others:
        raise ConflictError(
            f"other runs lie in the folder of {row.name}: {listed(_some(others))}",
            hint="put those into the trash first; nothing was moved",
        )


def _some(names: Sequence[str], most: int = 5) -> list[str]:
    return [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)


@contextmanager
def _held(row: RunRow, folder: Path) -> Iterator[None]:
    """Nobody starts it meanwhile, and nothing of it lives."""
    if str(folder) in living_output_dirs() or row.folder in living_output_dirs():
        raise lives(row)
    lock = FileLock(ControlFolder(folder).lock_file)
    if not lock.take():
        raise lives(row)
    try:
        yield
    finally:
        lock.release()


def _moved(row: RunRow, folder: Path, place: Path) -> RunRow:
    inside = {
        name: path.relative_to(folder.resolve())
        for name in ("folder", "control", "run_dir")
        if (value := getattr(row, name)) and (path := Path(value).resolve()).is_relative_to(folder.resolve())
    }
    try:
        folder.rename(place)
    except FileNotFoundError:
        raise ConflictError(
            f"{row.name}: its folder is not there: {folder}", hint="nothing was moved"
        ) from None
    except OSError as error:
        raise RltuiError(
            f"cannot move {folder}: {error.strerror}", hint="it may be mounted, or in use; nothing was moved"
        ) from error
    places: dict[str, Any] = {name: str(place / path) for name, path in inside.items()}
    return replace(row, **places)


def _settled(index: RunIndex, row: RunRow, trashed_at: float | None) -> RunRow:
    """Where the folder lies is what counts: on a full disk the sheet cannot say since when."""
    try:
        changed = _changed(index, row, lambda sheet: replace(sheet, trashed_at=trashed_at))
    except RltuiError as error:
        logger.warning("%s: %s", row.name, error)
        changed = _kept(index, replace(row, trashed_at=trashed_at))
    with suppress(RltuiError):  # the next `catch_up` finds it as well
        catalog.refresh(index, [row.id])
    return changed


# --- retention ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRetention:
    """What to keep; nothing is asked for by its absence. Living and marked runs are kept by every rule."""

    keep_best: int = 0
    """So many with the best mean reward of ten successive steps that they had at any time."""
    keep_last: int = 0
    """So many that ended last."""
    keep_tags: tuple[str, ...] = ()
    older_than_s: float | None = None
    """Only what ended so long ago goes."""

    @property
    def says_something(self) -> bool:
        """Without that, all would go."""
        return bool(self.keep_best or self.keep_last or self.keep_tags or self.older_than_s is not None)


@dataclass(frozen=True, slots=True)
class RunPlan:
    keep: tuple[tuple[RunRow, str], ...]
    """With the reason."""
    go: tuple[RunRow, ...]


def retention_plan(rows: Sequence[RunRow], retention: RunRetention, now: float) -> RunPlan:
    """What of `rows` is kept and why, and what goes, both in the order of `rows`."""
    best = _ids(_by_reward(rows)[: retention.keep_best])
    last = _ids(sorted(rows, key=_ended, reverse=True)[: retention.keep_last])

    def why(row: RunRow) -> str:
        if row.is_running:
            return "lives"
        if row.is_best:
            return "marked as best"
        if row.id in best:
            return f"among the {retention.keep_best} best" if retention.keep_best > 1 else "the best"
        if row.id in last:
            return f"among the last {retention.keep_last}" if retention.keep_last > 1 else "the last"
        if kept_by := next((tag for tag in row.tags if tag in retention.keep_tags), ""):
            return f"tagged {kept_by}"
        if retention.older_than_s is not None and now - _ended(row) < retention.older_than_s:
            return f"ended {duration(now - _ended(row))} ago"
        return ""

    reasons = [(row, why(row)) for row in rows]
    return RunPlan(
        tuple((row, reason) for row, reason in reasons if reason),
        tuple(row for row, reason in reasons if not reason),
    )


def _by_reward(rows: Iterable[RunRow]) -> list[RunRow]:
    rewards = ((row.metrics.get("reward", (None, None))[1], row) for row in rows)
    known = [(reward, row) for reward, row in rewards if reward is not None and reward == reward]
    return [row for _, row in sorted(known, key=lambda each: each[0], reverse=True)]


def _ended(row: RunRow) -> float:
    return row.ended_at or row.started_at or row.created_at


def _ids(rows: Iterable[RunRow]) -> frozenset[str]:
    return frozenset(row.id for row in rows)
