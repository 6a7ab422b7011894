"""The catalog of runs: the index, updated from the folders.

Runs are found by the user's list of experiments, and by the index's notes of all that were ever seen, so that
nothing is lost with the index. A run that has not changed costs a few `stat`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from rltui import paths
from rltui.core import hints
from rltui.core.experiment.states import Reason
from rltui.core.runs.row import RunId, RunMetadata, RunOrigin, RunRow
from rltui.core.runs.state import FOLDER_DAMAGED, FOLDER_GONE
from rltui.errors import ConfigError, RltuiError
from rltui.services.experiment.files import (
    NAME_PATTERN,
    ControlFolder,
    ExperimentRecord,
    copy_on_list,
    list_dir,
    same_folder,
    with_new_location,
)
from rltui.services.experiment.registry import find_experiment
from rltui.services.metrics.store_index import INDEX
from rltui.services.own_files import entry_names, is_text, may_exist, read_own
from rltui.services.runs.index import RunIndex
from rltui.services.runs.metadata import FILE_NAME, make_metadata, new_metadata, path_id, read_metadata
from rltui.services.runs.moved_folders import (
    TRASH,
    MovedRunFinder,
    gone_reason,
    metadata_id,
    register_moved,
)

logger = logging.getLogger(__name__)

_BATCH_ROWS = 50
_CLOCK_SLACK_S = 5.0
"""Largest difference between two computations of a process's start."""
_QUIET_S = 900.0
"""A run of another machine that writes nothing for so long counts as not running."""
_LIST_SLACK_NS = 60 * 10**9
"""An entry of the list may be written so long before it appears there."""


@dataclass(frozen=True, slots=True)
class CatchUpResult:
    runs: int
    read: int
    """Number of runs that were read again from their folders."""
    messages: tuple[str, ...] = ()
    """Messages for the user: the index was rebuilt, a folder was moved."""


def catch_up(index: RunIndex, *, whole: bool = False) -> CatchUpResult:
    """Update the index from the folders: changed runs are read again; with `whole`, all.

    Blocks. Rows of living supervisors stay. A damaged or missing index is rebuilt.

    Raises:
        RltuiError: if the index can neither be read nor written.
    """
    try:
        return _CatchUp(index, whole=whole).run()
    except RltuiError:
        if not index.was_damaged:
            raise
    return _CatchUp(index, whole=True).run()  # the damaged one was set aside


def measure(index: RunIndex, *, within_s: float) -> None:
    """Measure the unknown disk usage of finished runs; starts none after `within_s`. Blocks.

    Raises:
        RltuiError: as `catch_up`.
    """
    from rltui.services.runs.disk import size_of  # knows the frameworks

    until = time.monotonic() + within_s
    for id_ in index.unmeasured():
        if time.monotonic() > until:
            return
        row = index.row(id_)
        if row is not None and not row.is_unreadable:
            index.change(id_, {"disk_bytes": size_of(Path(row.folder))})


def refresh(index: RunIndex, ids: Iterable[RunId]) -> None:
    """Read these again: their metadata or folders have changed.

    Raises:
        RltuiError: as `catch_up`.
    """
    _CatchUp(index, whole=False).read_again(ids)


def read_folders(index: RunIndex, folders: Iterable[Path]) -> tuple[str, ...]:
    """Read the runs in these output folders, whether they are known or not. Returns messages as `catch_up`.

    Raises:
        RltuiError: as `catch_up`.
    """
    return _CatchUp(index, whole=False).read_folders(folders)


class UnreadableRunError(ConfigError):
    """The folder of a run is gone or damaged."""

    def __init__(self, run: RunRow) -> None:
        """`run`: its row in the index."""
        reason = run.reason.text if run.is_unreadable else f"no experiment in {Path(run.control).parent}"
        super().__init__(
            f"the run {run.name} cannot be opened: {reason}", hint=f"{hints.RUNS} lists all runs"
        )
        self.run = run


def record_of(row: RunRow) -> ExperimentRecord:
    """The record that opens the run. For a run in the trash, with its paths there.

    Raises:
        UnreadableRunError: if its folder is gone, or its record was damaged.
        ConfigError: if its record cannot be read.
    """
    folder = Path(row.control).parent
    try:
        record = ControlFolder(folder).read_record() if row.control else None
    except ConfigError:
        if not row.is_unreadable:
            raise
        record = None
    if record is None:
        raise UnreadableRunError(row)
    return record if same_folder(record.output_dir, str(folder)) else with_new_location(record, folder)


def _with_trashed_at(metadata: RunMetadata, folder: Path) -> RunMetadata:
    """Correct the metadata by the location: on a full disk it could not be written."""
    is_in_trash = folder.parent.name == TRASH
    if is_in_trash == (metadata.trashed_at is not None):
        return metadata
    return replace(metadata, trashed_at=folder.stat().st_ctime if is_in_trash else None)


# --- bringing it up to date -----------------------------------------------------------------------------


class _CatchUp:
    def __init__(self, index: RunIndex, *, whole: bool) -> None:
        self._index = index
        self._since = index.revision()
        is_new = not index.is_whole
        self._is_complete_read = whole or is_new
        self._indexed = {run.id: run for run in index.fingerprinted_runs()}
        self._messages: list[str] = []
        self._ready: list[tuple[RunRow, Mapping[str, Any] | None]] = []
        self._fingerprints: dict[str, bytes] = {}
        self._controls: dict[str, str] = {}
        """Id → control folder of the runs that were read."""
        self._gone: set[RunId] = set()
        """Ids of runs without remains, whose location another run has."""
        self._has_written = False
        """True if the control folder that is being read was changed."""
        self._finder = MovedRunFinder(
            lambda: {str(Path(run.control).parents[1]) for run in self._indexed.values()}
        )
        if index.was_damaged:
            self._messages.append(f"the index of runs was damaged and is being rebuilt: {index.was_damaged}")
            index.was_damaged = ""
        elif is_new and not self._indexed.keys() >= frozenset(self._index.noted_ids()):
            self._messages.append("no index of runs: rebuilding it from the folders")

    def run(self) -> CatchUpResult:
        changed_at, list_seen = _changed_ns(list_dir()), self._index.list_seen()
        for id_ in [*self._stale()]:
            self._reread(id_)
        if self._is_complete_read or changed_at != list_seen:
            self._read_list(0 if self._is_complete_read else list_seen)
        self._put()
        if self._gone:
            self._index.remove(self._gone)
        self._index.set_whole(list_seen=changed_at)
        return CatchUpResult(len(self._index.ids()), len(self._controls), tuple(self._messages))

    def read_folders(self, folders: Iterable[Path]) -> tuple[str, ...]:
        for folder in folders:
            id_ = metadata_id(folder)
            is_known = id_ is not None and not self._is_copy(id_, ControlFolder(folder))
            self._read_folder(folder, self._index.row(id_) if is_known and id_ else None, "")
        self._put()
        return tuple(self._messages)

    def read_again(self, ids: Iterable[RunId]) -> None:
        for id_ in ids:
            self._reread(id_)
        self._put()

    # --- what must be read --------------------------------------------------------------------------------

    def _stale(self) -> Iterator[RunId]:
        """Ids of indexed runs whose rows may be outdated, and of runs that only have a note."""
        for id_, run in self._indexed.items():
            if run.is_alive:
                if not self._is_supervised(id_):
                    yield id_
            elif self._is_complete_read or not _is_current(run.fingerprint):
                yield id_
        yield from (id_ for id_ in self._index.noted_ids() if id_ not in self._indexed)

    def _is_supervised(self, id_: RunId) -> bool:
        row = self._index.row(id_)
        if row is None or row.supervisor is None:
            return False
        if row.host and row.host != os.uname().nodename:  # which shares our files: its pids are not ours
            control = ControlFolder(Path(row.control).parent)
            changed_ns = max(_changed_ns(path) for path in (control.journal_file, control.series / INDEX))
            return time.time() - changed_ns / 1e9 < _QUIET_S
        return _lives(*row.supervisor)

    def _read_list(self, since_ns: int) -> None:
        """Read unknown experiments that were put on the user's list since."""
        known_controls = {run.control for run in self._indexed.values() if run.id not in self._gone}
        known_controls.update(self._controls.values())
        for name in entry_names(list_dir()):
            try:
                if not NAME_PATTERN.fullmatch(name) or (
                    (list_dir() / name).stat().st_mtime_ns < since_ns - _LIST_SLACK_NS
                ):
                    continue
                control = copy_on_list(read_own(list_dir() / name)).control
            except (OSError, ValueError) as error:
                logger.warning("%s is left out: %s", list_dir() / name, error)
                continue
            if str(control.path) not in known_controls and control.path.is_dir():
                self._read_folder(control.path.parent, None, name)

    # --- reading ------------------------------------------------------------------------------------------

    def _reread(self, id_: RunId) -> None:
        """Read a run at the location in its row or note."""
        before = self._index.row(id_) if id_ in self._indexed else None
        note = self._index.note(id_)
        control = before.control if before is not None else note.get("control", "")
        if not control:
            return
        folder = Path(control).parent
        id_there = metadata_id(folder)
        if id_there == id_ or (id_there is None and may_exist(Path(control))):
            self._read_folder(folder, before, note.get("name", ""))
        elif (moved_to := self._finder.find(id_, folder)) is not None:
            self._read_folder(moved_to, before, "")
        elif id_there is not None:
            self._gone.add(id_)
            if str(ControlFolder(folder).path) not in self._controls.values():
                self._read_folder(folder, None, "")
        else:
            self._add_gone(id_, before, folder)

    def _read_folder(self, folder: Path, before: RunRow | None, name: str) -> None:
        """Read the run in `folder`, whatever is wrong with it. `name`: its former name."""
        if not is_text(folder):
            self._messages.append(f"{folder} is skipped: its path is not UTF-8")
            return
        control = ControlFolder(folder)
        fingerprint = [_file_state(path) for path in _control_files(control)]
        metadata, self._has_written = None, False
        try:
            record = self._record(control, name if before is None else before.name)
            metadata = _with_trashed_at(self._metadata(control, record, before), folder)
            record = self._relocated(record, folder, metadata)
            if self._has_written:
                fingerprint = [_file_state(path) for path in _control_files(control)]
            if not Path(record.layout_file).is_relative_to(paths.shipped_dir("layouts")):
                fingerprint.append(_file_state(record.layout_file))  # without it nothing is known of the run
            if before is not None and not self._has_same_size(before, fingerprint):
                before = replace(before, disk_bytes=None)
            self._read(record, metadata, before, fingerprint)
        except RltuiError as error:
            self._add_damaged(control, metadata, before, name, str(error.title), fingerprint)
        except Exception as error:  # one that cannot be understood must not hide all others
            logger.exception("cannot read the run in %s", folder)
            self._add_damaged(
                control, metadata, before, name, f"{type(error).__name__}: {error}", fingerprint
            )

    def _read(
        self,
        record: ExperimentRecord,
        metadata: RunMetadata,
        before: RunRow | None,
        fingerprint: list[_FileState],
    ) -> None:
        from rltui.services.runs.row import RunReader  # knows the frameworks: only where one has changed

        reader = RunReader(record)
        fingerprint += [_file_state(path) for path in reader.sources()]
        parent = self._index.config(metadata.parent) if metadata.parent else None
        row = reader.row(metadata, parent=parent, before=before)
        self._add(row, reader.config, fingerprint)

    def _has_same_size(self, before: RunRow, fingerprint: list[_FileState]) -> bool:
        """True if nothing but its metadata has changed."""
        indexed = self._indexed.get(before.id)
        old_states = (
            [tuple(state) for state in orjson.loads(indexed.fingerprint)]
            if indexed is not None and indexed.fingerprint
            else []
        )
        return bool(old_states) and all(
            state in fingerprint or state[0].endswith(f"/{FILE_NAME}") or state == _file_state(state[0])
            for state in old_states
        )

    @staticmethod
    def _record(control: ControlFolder, name: str) -> ExperimentRecord:
        """The record in a control folder; of a damaged one the copy on the user's list, where it has `name`.

        Raises:
            RltuiError: if neither can be read.
        """
        try:
            record = control.read_record()
        except ConfigError:
            record = find_experiment(name or control.path.parent.name)
            if record is None or not same_folder(record.output_dir, str(control.path.parent)):
                raise
        if record is None:
            raise ConfigError(f"{control.record_file} is missing")
        return record

    def _metadata(
        self, control: ControlFolder, record: ExperimentRecord, before: RunRow | None
    ) -> RunMetadata:
        """The run's metadata; new ones if it has none, or those of the run it is a copy of. Of damaged
        metadata, those that the index has.
        """
        try:
            metadata = read_metadata(control.path)
        except ConfigError as error:
            self._messages.append(f"{error.title}: {error.hint}")
            known = new_metadata(record.created_at) if before is None else before.metadata
            return known if before is not None else replace(known, id=path_id(control.path))
        if metadata is not None and not self._is_copy(metadata.id, control):
            return metadata
        if metadata is None and before is not None:
            new = before.metadata
        else:
            origin = RunOrigin() if metadata is None else RunOrigin(parent=metadata.id)
            new = new_metadata(record.created_at, origin)
        self._has_written = True
        return make_metadata(control.path, new, copied_id=metadata.id if metadata is not None else "")

    def _is_copy(self, id_: RunId, control: ControlFolder) -> bool:
        """True if another folder has that id by right, so that this one is a copy of it."""
        indexed = self._indexed.get(id_)
        original = self._controls.get(id_) or (
            indexed.control if indexed is not None else self._index.note(id_).get("control", "")
        )
        if not original or same_folder(original, str(control.path)):
            return False
        return metadata_id(Path(original).parent) == id_

    def _relocated(self, record: ExperimentRecord, folder: Path, metadata: RunMetadata) -> ExperimentRecord:
        if same_folder(record.output_dir, str(folder)):
            return record
        from rltui.services.experiment.leases import living  # knows the frameworks

        relocated = with_new_location(record, folder)
        if metadata.trashed_at is not None or folder.parent.name == TRASH or living(relocated):
            return relocated
        is_copy = (record.control.path / FILE_NAME).exists()
        relocated, self._has_written = register_moved(relocated), True
        if is_copy:
            self._messages.append(f"{folder} is a copy of {record.output_dir}, named {relocated.name}")
            return relocated
        new_name_text = "" if relocated.name == record.name else f", as {relocated.name}"
        self._messages.append(f"{record.name} was moved from {record.output_dir} to {folder}{new_name_text}")
        return relocated

    # --- what is kept -------------------------------------------------------------------------------------

    def _add_gone(self, id_: RunId, before: RunRow | None, folder: Path) -> None:
        if before is None:
            note = self._index.note(id_)
            before = RunRow(
                id=id_,
                name=note.get("name", id_),
                folder=note.get("folder", str(folder)),
                control=str(ControlFolder(folder).path),
                created_at=note.get("created_at", 0.0),
            )
        row = _unreadable(before, FOLDER_GONE, gone_reason(folder))
        self._add(row, None, [_file_state(folder), _file_state(folder.parent)])

    def _add_damaged(
        self,
        control: ControlFolder,
        metadata: RunMetadata | None,
        before: RunRow | None,
        name: str,
        problem: str,
        fingerprint: list[_FileState],
    ) -> None:
        folder = control.path.parent
        if before is None:
            id_ = metadata.id if metadata is not None else metadata_id(folder)
            if id_ is None or self._is_copy(id_, control):
                id_ = path_id(control.path)
            created_at = metadata.created_at if metadata is not None else _changed_ns(control.path) / 1e9
            before = RunRow(
                id=id_,
                name=name or folder.name,
                folder=str(folder),
                control=str(control.path),
                created_at=created_at,
            )
        self._add(_unreadable(before, FOLDER_DAMAGED, problem), None, fingerprint)

    def _add(self, row: RunRow, config: Mapping[str, Any] | None, fingerprint: list[_FileState]) -> None:
        self._controls[row.id] = row.control
        self._gone.discard(row.id)
        self._ready.append((row, config))
        self._fingerprints[row.id] = orjson.dumps(fingerprint)
        if len(self._ready) >= _BATCH_ROWS:
            self._put()

    def _put(self) -> None:
        self._index.put(self._ready, fingerprints=self._fingerprints, unless_since=self._since)
        self._ready.clear()


def _unreadable(before: RunRow, code: str, text: str) -> RunRow:
    """The row of a run whose folder cannot be read: the rest stays as it was."""
    return replace(before, state="lost", reason=Reason(code, text), is_alive=False, supervisor=None)


_FileState = tuple[str, int, int, int]
"""Path, inode, modification time and size of a file; zeros if there is none."""


def _file_state(path: Path | str) -> _FileState:
    try:
        info = os.stat(path)  # noqa: PTH116 - a third faster, and there are thousands
    except OSError as error:
        return str(path), 0, 0, error.errno or 0
    return str(path), info.st_ino, info.st_mtime_ns, info.st_size


def _is_current(fingerprint: bytes) -> bool:
    """True if nothing that the row was made from has changed."""
    return bool(fingerprint) and all(
        _file_state(state[0]) == tuple(state) for state in orjson.loads(fingerprint)
    )


def _control_files(control: ControlFolder) -> tuple[Path, ...]:
    return control.record_file, control.path / FILE_NAME, control.journal_file


def _changed_ns(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _lives(pid: int, started: float) -> bool:
    from rltui.services.processes import age_s, is_alive, read_process_id  # takes 60 ms: not for ended runs

    process = read_process_id(pid)
    if process is None or not is_alive(process):
        return False
    return abs(time.time() - age_s(process) - started) < _CLOCK_SLACK_S
