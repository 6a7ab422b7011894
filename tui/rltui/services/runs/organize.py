"""Annotations of runs by people (tags, notes, best), and the archive and the trash.

Each change is written to the metadata in the run's folder first, then to the index, which can be rebuilt from
the folders. The trash is a folder next to the run, on the same disk: a run is renamed into it, which frees
nothing until it is emptied.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.base.text import duration, join_first, join_words, truncate
from rltui.core import hints
from rltui.core.runs.row import RunChange, RunMetadata, RunRow
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.frameworks.dashboard import HAVE_ONE
from rltui.paths import STATE_FOLDER
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.journal import Journal
from rltui.services.experiment.registry import check_name, forget, forget_gone, known_experiments
from rltui.services.own_files import FileLock, foreign_folder_reason, make_folder
from rltui.services.processes import living_output_dirs
from rltui.services.runs import catalog
from rltui.services.runs.dashboard_folders import DashboardFolders
from rltui.services.runs.index import RunIndex
from rltui.services.runs.metadata import change_metadata
from rltui.services.runs.moved_folders import TRASH

if TYPE_CHECKING:
    from rltui.core.experiment.consent import Verb

logger = logging.getLogger(__name__)

_LONGEST_TAG = 48
_LONGEST_NOTE = 4000
_MOST_NAMED = 5
_JOURNALED_CHARS = 200
"""Longest beginning of a note that the journal has."""
_CLOCK_SLACK_S = 60.0
_PLACES = ("folder", "control", "run_dir")
"""Fields of a row with paths in the run's folder, which may move."""


# --- metadata -----------------------------------------------------------------------------------------------


def change_run(index: RunIndex, row: RunRow, change: RunChange) -> RunRow:
    """Make a change. Adding an existing tag or removing a missing one is no error.

    Raises:
        ConfigError: for an invalid name.
        UsageError: for an invalid tag, or a note that is too long.
        ConflictError: if its folder does not exist; as `_rename`, `trash` and `restore`.
        RltuiError: if the metadata cannot be written; as `trash` and `restore`.
    """
    if replace(change, name=None, is_trashed=None, rights=None) != RunChange():
        _require("label", row)
    if change.rights is not None:
        _require("agents", row)
    adding, note = frozenset(map(_check_tag, change.add_tags)), change.note
    if note is not None and len(note := note.strip()) > _LONGEST_NOTE:
        raise UsageError(f"note too long ({len(note)} characters, at most {_LONGEST_NOTE})")

    def changed(metadata: RunMetadata) -> RunMetadata:
        archived_at = metadata.archived_at
        if change.is_archived is not None:
            archived_at = (archived_at or time.time()) if change.is_archived else None
        return replace(
            metadata,
            tags=tuple(sorted((adding | {*metadata.tags}) - {*change.remove_tags})),
            note=metadata.note if note is None else note,
            is_best=metadata.is_best if change.is_best is None else change.is_best,
            archived_at=archived_at,
            rights=metadata.rights if change.rights is None else change.rights,
        )

    if change.name is not None:
        row = _rename(index, row, change.name)
    if replace(change, name=None, is_trashed=None) != RunChange():
        row = _change_metadata(index, row, changed)
    if words := _words(change, note):
        _journal(row, words)
    if change.is_trashed is None:
        return row
    return trash(index, row) if change.is_trashed else restore(index, row)


def _words(change: RunChange, note: str | None) -> str:
    """The change in words, without a move to the trash or back."""
    tags = [*(f"+{tag}" for tag in change.add_tags), *(f"-{tag}" for tag in change.remove_tags)]
    texts = [
        "" if change.name is None else f"renamed to {change.name}",
        f"tags {' '.join(tags)}" if tags else "",
        "" if note is None else f"note of the run: {truncate(note, _JOURNALED_CHARS)}",
        {None: "", True: "marked as best", False: "no longer marked as best"}[change.is_best],
        {None: "", True: "archived", False: "unarchived"}[change.is_archived],
        "" if change.rights is None else f"rights of agents: {change.rights or 'those of the settings'}",
    ]
    return "; ".join(filter(None, texts))


def _journal(row: RunRow, words: str) -> None:
    """Record a change in the run's journal, if it has one."""
    journal_file = ControlFolder(Path(row.control).parent).journal_file
    if row.control and journal_file.exists():
        Journal(journal_file).add("run", words)


def _require(verb: Verb, row: RunRow) -> None:
    """Raises UsageError if an agent acts here that may not do that to the run."""
    from rltui.core.experiment.rights import Act  # pydantic takes 60 ms
    from rltui.services.experiment.rights import require

    require(Act(verb, row.name), control=Path(row.control) if row.control else None)


def _rename(index: RunIndex, row: RunRow, name: str) -> RunRow:
    """Give its experiment another name. The sockets, terminals and processes of a living one have its name.

    Raises:
        ConfigError: for an invalid name.
        ConflictError: if the name is taken, if its folder is gone or in the trash, if it lives, or if another
            experiment uses its inference server, which it finds by the name.
    """
    _require("rename", row)
    folder = folder_to_trash(row)
    if folder is None or not folder.is_dir():
        raise _missing_folder_error(row)
    check_name(name, folder)
    if is_in_trash(row):
        raise ConflictError(
            f"{row.name} is in the trash", hint=f"{hints.RESTORE(run=row.id)}, then rename it"
        )
    if other := next((other for other in index.named(name) if other.id != row.id), None):
        raise ConflictError(
            f"the name {name} is taken by the run in {other.folder}", hint="choose another name"
        )
    users = [other.name for other in known_experiments() if other.inference_of == row.name]
    if users:
        raise ConflictError(
            f"{row.name} cannot be renamed: {join_words(users)} uses its inference server by name"
        )
    record = catalog.record_of(row)
    with _locked(row, folder.resolve()):
        record.control.write_record(replace(record, name=name))
        if name != record.name:
            forget(record)
    return _save(index, replace(row, name=name), ["name"])


def _missing_folder_error(row: RunRow) -> ConflictError:
    return ConflictError(f"{row.name}: its folder is missing: {row.folder}", hint="nothing was changed")


def _check_tag(tag: str) -> str:
    if not tag or len(tag) > _LONGEST_TAG or not tag.isprintable() or any(sign in tag for sign in " ,()+'\""):
        raise UsageError(
            f"{tag!r} is not a valid tag",
            hint=f"at most {_LONGEST_TAG} letters, digits and signs; no spaces, commas, brackets, quotes",
        )
    return tag


def _change_metadata(index: RunIndex, row: RunRow, change: Callable[[RunMetadata], RunMetadata]) -> RunRow:
    if not row.control or not Path(row.control).is_dir():
        raise _missing_folder_error(row)

    def check_and_change(metadata: RunMetadata) -> RunMetadata:
        if metadata.id != row.id:
            raise ConflictError(
                f"{row.folder} now holds another run",
                hint=f"{hints.RUNS_REBUILD}; nothing was changed",
            )
        return change(metadata)

    metadata = change_metadata(Path(row.control), check_and_change)
    values = asdict(metadata)
    return _save(index, replace(row, **values), [*values, *_PLACES])


def _save(index: RunIndex, row: RunRow, names: Iterable[str]) -> RunRow:
    """Save these fields of the row in the index. The folder counts: an index that cannot be written is
    updated later.
    """
    try:
        return index.change(row.id, {name: getattr(row, name) for name in names}) or row
    except RltuiError as error:
        logger.warning("%s: %s", row.name, error)
    return row


# --- the trash ----------------------------------------------------------------------------------------------


def folder_to_trash(row: RunRow) -> Path | None:
    """The run's own; for an observed run, rltui's folder of it. `None` if there is none any more."""
    return Path(row.control).parent if row.control else None


def is_in_trash(row: RunRow) -> bool:
    """True if its folder is in a trash, whatever its metadata says."""
    folder = folder_to_trash(row)
    return folder is not None and folder.parent.name == TRASH


def running_error(row: RunRow) -> ConflictError:
    """A running run can neither be renamed nor go into the trash."""
    return ConflictError(
        f"{row.name} is running", hint=f"end it first: {hints.DOWN(name=row.name)}; nothing was changed"
    )


def entries_before_run(row: RunRow) -> list[str]:
    """Names of entries in its folder that are older than the run, and would go with it. Unlike the
    modification time, which a copy keeps, the change time of an inode is never before it was put there.
    """
    folder, run_start_s = folder_to_trash(row), row.created_at - _CLOCK_SLACK_S
    if folder is None or row.observed or row.created_at > time.time():  # the clock was set back
        return []
    with suppress(OSError):
        entries = (entry for entry in folder.iterdir() if entry.name != STATE_FOLDER)
        return sorted(entry.name for entry in entries if entry.lstat().st_ctime < run_start_s)
    return []


def trash(index: RunIndex, row: RunRow, *, with_others: bool = False) -> RunRow:
    """Move its folder into the trash next to it; a run without a folder is forgotten. `with_others`: include
    entries that are older than the run.

    Raises:
        ConflictError: if it lives, if its folder contains other runs or older entries.
        RltuiError: if it cannot be moved.
    """
    _require("rm", row)
    folder = folder_to_trash(row)
    if is_in_trash(row):
        return row
    if folder is None or not folder.is_dir():
        index.remove([row.id])
        forget_gone(row.name, str(folder or row.folder))
        return row
    folder = folder.resolve()
    _refuse_others_inside(index, row, folder)
    if not with_others and (older_entries := entries_before_run(row)):
        names = join_first(older_entries, _MOST_NAMED)
        raise ConflictError(
            f"the folder of {row.name} has files older than the run: {names}",
            hint=f"{hints.RM(run=row.name)} asks whether to remove them, too; nothing was moved",
        )
    with _locked(row, folder):
        make_folder(folder.parent / TRASH, mode=0o700)
        if reason := foreign_folder_reason(folder.parent / TRASH):
            raise ConflictError(
                f"{folder.parent / TRASH} is not trusted: {reason}",
                hint="nothing was moved; move that folder away first",
            )
        moved_row = _move(row, folder, folder.parent / TRASH / f"{row.id}-{folder.name}")
    _journal(moved_row, "moved to the trash")
    _tell_dashboard(row, DashboardFolders.take_back)
    return _record_trashed_at(index, moved_row, time.time())


def restore(index: RunIndex, row: RunRow) -> RunRow:
    """Move its folder back.

    Raises:
        ConflictError: if its old path is occupied, or it is not in the trash any more.
        RltuiError: if it cannot be moved.
    """
    _require("restore", row)
    folder = folder_to_trash(row)
    if folder is None or not is_in_trash(row):
        return _record_trashed_at(index, row, None)
    target = _place_before(row, folder)
    if os.path.lexists(target):
        raise ConflictError(
            f"cannot restore {row.name}: {target} already exists",
            hint="move that away, and try again",
        )
    moved_row = _move(row, folder, target)
    _journal(moved_row, "restored from the trash")
    _remove_empty(folder.parent)
    _tell_dashboard(moved_row, DashboardFolders.put_back)
    return _record_trashed_at(index, moved_row, None)


def _tell_dashboard(row: RunRow, tell: Callable[[DashboardFolders, Path], None]) -> None:
    """`row`: as long as its folder is, or was, in its place."""
    if row.framework not in HAVE_ONE or not row.run_dir:
        return
    from rltui.frameworks.registry import get  # 60 ms, which others need not pay

    dashboard = get(row.framework).dashboard
    assert dashboard is not None, "it has one"
    try:
        tell(DashboardFolders(dashboard), Path(row.run_dir).parent)
    except RltuiError as error:
        logger.warning("%s: %s", row.name, error)


def delete_for_good(index: RunIndex, row: RunRow) -> None:
    """Delete a folder in the trash.

    Raises:
        UsageError: if it is not in the trash.
        RltuiError: if not all of it can be deleted; then it can be tried again.
    """
    from rltui.services.experiment.gpu_use import keep_use
    from rltui.services.runs.checkpoints import delete  # pydantic takes 60 ms

    _require("empty-trash", row)
    folder = folder_to_trash(row)
    if folder is None or not is_in_trash(row) or not folder.name.startswith(f"{row.id}-"):
        raise UsageError(f"{row.name} is not in the trash", hint=hints.RM(run=row.name))
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name == STATE_FOLDER)
    except FileNotFoundError:
        entries = []
    except OSError as error:
        raise RltuiError(f"cannot delete {folder}: {error.strerror}") from error
    keep_use(row)
    # the metadata go last: until then it is in the list, and can be tried again
    for path in (*entries, folder):
        delete([path])
    _remove_empty(folder.parent)
    index.remove([row.id])
    forget_gone(row.name, str(_place_before(row, folder)))


def _place_before(row: RunRow, folder: Path) -> Path:
    """Find where its `folder` was before it went into the trash."""
    return folder.parent.parent / folder.name.removeprefix(f"{row.id}-")


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # others lie there
        folder.rmdir()


def _refuse_others_inside(index: RunIndex, row: RunRow, folder: Path) -> None:
    run_names = [row_inside.name for row_inside in index.below(str(folder)) if row_inside.id != row.id]
    if run_names:
        raise ConflictError(
            f"other runs are in the folder of {row.name}: {join_first(run_names, _MOST_NAMED)}",
            hint="move those to the trash first; nothing was moved",
        )


@contextmanager
def _locked(row: RunRow, folder: Path) -> Iterator[None]:
    """Keep others from starting the run. Refuses if something of it lives."""
    if str(folder) in living_output_dirs() or row.folder in living_output_dirs():
        raise running_error(row)
    with FileLock(ControlFolder(folder).lock_file).hold(running_error(row)):
        yield


def _move(row: RunRow, folder: Path, target: Path) -> RunRow:
    relative_paths = {
        name: path.relative_to(folder.resolve())
        for name in _PLACES
        if (value := getattr(row, name)) and (path := Path(value).resolve()).is_relative_to(folder.resolve())
    }
    try:
        folder.rename(target)
    except FileNotFoundError:
        raise ConflictError(
            f"{row.name}: its folder is missing: {folder}", hint="nothing was moved"
        ) from None
    except OSError as error:
        raise RltuiError(
            f"cannot move {folder}: {error.strerror}",
            hint="it may be a mount point or in use; nothing was moved",
        ) from error
    new_paths: dict[str, Any] = {name: str(target / path) for name, path in relative_paths.items()}
    return replace(row, **new_paths)


def _record_trashed_at(index: RunIndex, row: RunRow, trashed_at: float | None) -> RunRow:
    """Update the metadata. The folder's location decides: on a full disk the metadata cannot be written."""
    try:
        changed_row = _change_metadata(index, row, lambda metadata: replace(metadata, trashed_at=trashed_at))
    except RltuiError as error:
        logger.warning("%s: %s", row.name, error)
        changed_row = _save(index, replace(row, trashed_at=trashed_at), ["trashed_at", *_PLACES])
    with suppress(RltuiError):  # the next `catch_up` finds it as well
        catalog.refresh(index, [row.id])
    return changed_row


# --- retention ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRetention:
    """Rules for which runs to keep; each is optional. Running and marked runs are always kept."""

    keep_best: int = 0
    """Number of runs to keep by their best mean reward of ten successive steps."""
    keep_last: int = 0
    """Number of runs to keep that ended last."""
    keep_tags: tuple[str, ...] = ()
    older_than_s: float | None = None
    """Only runs that ended so long ago may go."""

    @property
    def says_something(self) -> bool:
        """True if a rule is set; without any, all runs would go."""
        return bool(self.keep_best or self.keep_last or self.keep_tags or self.older_than_s is not None)


@dataclass(frozen=True, slots=True)
class RunPlan:
    keep: tuple[tuple[RunRow, str], ...]
    """Runs to keep, with the reason."""
    go: tuple[RunRow, ...]


def retention_plan(rows: Sequence[RunRow], retention: RunRetention, now: float) -> RunPlan:
    """The rows to keep with reasons, and those that go, both in the order of `rows`."""
    best = _ids(_by_reward(rows)[: retention.keep_best])
    last = _ids(sorted(rows, key=_end_time, reverse=True)[: retention.keep_last])

    def keep_reason(row: RunRow) -> str:
        if row.is_alive:
            return "running"
        if row.is_best:
            return "starred"
        if row.id in best:
            return f"among the {retention.keep_best} best" if retention.keep_best > 1 else "the best"
        if row.id in last:
            return f"among the last {retention.keep_last}" if retention.keep_last > 1 else "the last"
        if kept_tag := next((tag for tag in row.tags if tag in retention.keep_tags), ""):
            return f"tagged {kept_tag}"
        if retention.older_than_s is not None and now - _end_time(row) < retention.older_than_s:
            return f"ended {duration(now - _end_time(row))} ago"
        return ""

    reasons = [(row, keep_reason(row)) for row in rows]
    return RunPlan(
        tuple((row, reason) for row, reason in reasons if reason),
        tuple(row for row, reason in reasons if not reason),
    )


def _by_reward(rows: Iterable[RunRow]) -> list[RunRow]:
    rewards = ((row.metrics.get("reward", (None, None))[1], row) for row in rows)
    rewarded = [(reward, row) for reward, row in rewards if reward is not None and reward == reward]
    return [row for _, row in sorted(rewarded, key=lambda pair: pair[0], reverse=True)]


def _end_time(row: RunRow) -> float:
    return row.ended_at or row.started_at or row.created_at


def _ids(rows: Iterable[RunRow]) -> frozenset[str]:
    return frozenset(row.id for row in rows)
