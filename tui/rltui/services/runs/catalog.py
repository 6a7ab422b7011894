"""Which runs there are, and what is known of each: the index, brought up to date with the folders.

A run is found by the user's list of experiments, and by a note that is kept of each run that was ever seen
(`<state>/runs/<id>`), so that nothing is lost with the index. A run that has not changed costs a few `stat`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import orjson

from rltui import paths
from rltui.core import hints
from rltui.core.kinds import PATH, TEXT, TIME, Kind, checked
from rltui.core.runs import RunId, RunMetadata, RunOrigin, RunRow, run_id
from rltui.core.text import closest
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.services.own_files import is_text, make_folder, read_own, write_atomically
from rltui.services.runs.experiment_files import (
    NAME_PATTERN,
    ControlFolder,
    ExperimentRecord,
    copy_on_list,
    list_dir,
    same_folder,
)
from rltui.services.runs.experiments import find_experiment
from rltui.services.runs.index import RunIndex
from rltui.services.runs.moved_folders import (
    TRASH,
    MovedRunFinder,
    at_its_place,
    sheet_id,
    take_over,
    why_gone,
)
from rltui.services.runs.run_sheet import FILE_NAME, change_sheet, new_sheet, path_id, read_sheet

logger = logging.getLogger(__name__)

_AT_ONCE = 50
"""Rows that are put together."""
_MOST_NAMED = 8
_CLOCK_SLACK_S = 5.0
"""Between two ways to reckon when a process began."""
_QUIET_S = 900.0
"""A run of another machine that writes nothing for so long is not believed to go on."""
_LIST_SLACK_NS = 60 * 10**9
"""An entry of the list may be written so long before it is put there."""
_NOTE_KINDS: Mapping[str, Kind] = {"name": TEXT, "folder": PATH, "control": PATH, "created_at": TIME}


@dataclass(frozen=True, slots=True)
class Found:
    runs: int
    read: int
    """Of those, read again from their folders."""
    told: tuple[str, ...] = ()
    """Sentences for the person: the index was made anew, a folder was moved."""


def notes_dir() -> Path:
    """A file for each run that was ever seen, named by its id."""
    return paths.state_dir() / "runs"


def catch_up(index: RunIndex, *, whole: bool = False) -> Found:
    """Bring the index up to date with the folders: what has changed is read again, `whole`: everything.

    Blocks. What a living supervisor puts stays. A damaged index, or a missing one, is made anew.

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
    """Find how much room ended runs take of which that is not known; begins none more after so long. Blocks.

    Raises:
        RltuiError: as `catch_up`.
    """
    from rltui.services.runs.disk import size_of  # knows the frameworks

    until, marks = time.monotonic() + within_s, {each.id: each.mark for each in index.marked()}
    for id_ in index.unmeasured():
        if time.monotonic() > until:
            return
        since, row = index.stamp(), index.row(id_)
        if row is not None:
            measured = replace(row, disk_bytes=size_of(Path(row.folder)))
            index.put([(measured, None)], marks={id_: marks.get(id_, b"")}, unless_since=since)


def refresh(index: RunIndex, ids: Iterable[RunId]) -> None:
    """Read these again: their sheets were changed, or their folders.

    Raises:
        RltuiError: as `catch_up`.
    """
    _CatchUp(index, whole=False).read_again(ids)


def take(index: RunIndex, places: Iterable[Path]) -> tuple[str, ...]:
    """Read the runs in these output folders, whether they were known or not. Returns sentences as `catch_up`.

    Raises:
        RltuiError: as `catch_up`.
    """
    found = _CatchUp(index, whole=False)
    return found.take(places)


def forget(index: RunIndex, ids: Collection[RunId]) -> None:
    """Take runs out of the index and out of mind. Their folders, if there are any, stay."""
    index.remove(ids)
    for id_ in ids:
        with suppress(OSError):
            _note_file(id_).unlink()


def find_run(index: RunIndex, word: str) -> RunRow:
    """The run of that id or name: of several, the experiment that has the name now.

    Raises:
        UsageError: if there is none, with the nearest names, or several.
    """
    rows = index.named(word)
    if not rows and NAME_PATTERN.fullmatch(word) and find_experiment(word) is not None:
        catch_up(index)
        rows = index.named(word)
    if (by_id := next((row for row in rows if row.id == word), None)) is not None:
        return by_id
    if not rows:
        names = index.names()
        near = closest(word, names)
        there = f"did you mean {near}?" if near else f"{hints.RUNS} lists them all"
        raise UsageError(f"no run {word!r}", hint=there if names else "there is none yet")
    present = [row for row in rows if row.trashed_at is None and row.state != "gone"] or rows
    if len(present) > 1 and NAME_PATTERN.fullmatch(word):
        with suppress(RltuiError):  # a damaged one: it cannot tell
            record = find_experiment(word)
            if record is not None:
                control = str(ControlFolder(Path(record.output_dir)).path)
                present = [row for row in present if row.control == control] or present
    if len(present) > 1:
        listed = [f"{row.id}  {row.state}  {row.folder}" for row in present[:_MOST_NAMED]]
        raise UsageError(f"{len(present)} runs are called {word}", details=listed, hint="say which by its id")
    return present[0]


def record_of(row: RunRow) -> ExperimentRecord:
    """What opens the run. Of one in the trash, with its paths as they are there.

    Raises:
        RltuiError: if its folder is gone, or its record cannot be read.
    """
    place = Path(row.control).parent
    record = ControlFolder(place).read_record() if row.control else None
    if record is None:
        why = row.problem or f"there is no experiment in {place}"
        raise ConfigError(
            f"the run {row.name} cannot be opened: {why}", hint=f"{hints.RUNS} lists those there are"
        )
    return record if same_folder(record.output_dir, str(place)) else at_its_place(record, place)


def _by_place(sheet: RunMetadata, place: Path) -> RunMetadata:
    """In the trash is what lies there: on a full disk the sheet cannot say since when."""
    is_there = place.parent.name == TRASH
    if is_there == (sheet.trashed_at is not None):
        return sheet
    return replace(sheet, trashed_at=place.stat().st_ctime if is_there else None)


# --- bringing it up to date -----------------------------------------------------------------------------


class _CatchUp:
    def __init__(self, index: RunIndex, *, whole: bool) -> None:
        self._index = index
        self._since = index.stamp()
        is_new = not index.is_whole
        self._whole = whole or is_new
        self._marked = {each.id: each for each in index.marked()}
        self._told: list[str] = []
        self._ready: list[tuple[RunRow, Mapping[str, Any] | None]] = []
        self._marks: dict[str, bytes] = {}
        self._places: dict[str, str] = {}
        """Id → control folder, of those that were read."""
        self._gone: set[RunId] = set()
        """Ids of runs of which nothing is left, and whose place another has."""
        self._has_written = False
        """Into the control folder that is being read."""
        self._finder = MovedRunFinder(
            lambda: {str(Path(each.control).parents[1]) for each in self._marked.values()}
        )
        if index.was_damaged:
            self._told.append(f"the index of runs was damaged and is made anew: {index.was_damaged}")
            index.was_damaged = ""
        elif is_new and not self._marked.keys() >= frozenset(_noted_ids()):
            self._told.append("there was no index of runs: it is made anew from the folders")

    def run(self) -> Found:
        changed_at, seen_at = _changed_ns(list_dir()), self._index.list_seen()
        for id_ in [*self._stale()]:
            self._again(id_)
        if self._whole or changed_at != seen_at:
            self._look_at_list(0 if self._whole else seen_at)
        self._put()
        if self._gone:
            forget(self._index, self._gone)
        self._index.set_whole(list_seen=changed_at)
        return Found(len(self._index.ids()), len(self._places), tuple(self._told))

    def take(self, places: Iterable[Path]) -> tuple[str, ...]:
        for place in places:
            id_ = sheet_id(place)
            is_known = id_ is not None and not self._is_elsewhere(id_, ControlFolder(place))
            self._take(place, self._index.row(id_) if is_known and id_ else None, "")
        self._put()
        return tuple(self._told)

    def read_again(self, ids: Iterable[RunId]) -> None:
        for id_ in ids:
            self._again(id_)
        self._put()

    # --- what must be read --------------------------------------------------------------------------------

    def _stale(self) -> Iterator[RunId]:
        """Ids of known runs whose rows may not hold any more, and of those that only a note tells of."""
        for id_, marked in self._marked.items():
            if marked.state == "running":
                if not self._is_supervised(id_):
                    yield id_
            elif self._whole or not _holds(marked.mark):
                yield id_
        yield from (id_ for id_ in _noted_ids() if id_ not in self._marked)

    def _is_supervised(self, id_: RunId) -> bool:
        row = self._index.row(id_)
        if row is None or row.supervisor is None:
            return False
        if row.host and row.host != os.uname().nodename:  # which shares our files: its pids are not ours
            control = ControlFolder(Path(row.control).parent)
            seen = max(_changed_ns(each) for each in (control.journal_file, control.series / "head"))
            return time.time() - seen / 1e9 < _QUIET_S
        return _lives(*row.supervisor)

    def _look_at_list(self, since_ns: int) -> None:
        """Take those that were put on the user's list since and are not known."""
        known = {each.control for each in self._marked.values() if each.id not in self._gone}
        known.update(self._places.values())
        for name in _names(list_dir()):
            try:
                if not NAME_PATTERN.fullmatch(name) or (
                    (list_dir() / name).stat().st_mtime_ns < since_ns - _LIST_SLACK_NS
                ):
                    continue
                content = read_own(list_dir() / name)
                copy = copy_on_list(content)
                place = Path(copy.output_dir if copy is not None else content.decode())
            except (OSError, ValueError) as error:
                logger.warning("%s is left out: %s", list_dir() / name, error)
                continue
            if str(ControlFolder(place).path) not in known and ControlFolder(place).path.is_dir():
                self._take(place, None, name)

    # --- reading ------------------------------------------------------------------------------------------

    def _again(self, id_: RunId) -> None:
        """A run of which a row or a note tells where it was."""
        before = self._index.row(id_)
        control = before.control if before is not None else _noted(id_).get("control", "")
        if not control:
            return
        place = Path(control).parent
        there = sheet_id(place)
        if there == id_ or (there is None and _may_be_there(Path(control))):
            self._take(place, before, _noted(id_).get("name", ""))
        elif (found := self._finder.find(id_, place)) is not None:
            self._take(found, before, "")
        elif there is not None:
            self._gone.add(id_)
            if str(place / paths.STATE_FOLDER) not in self._places.values():
                self._take(place, None, "")
        else:
            self._keep_gone(id_, before, place)

    def _take(self, place: Path, before: RunRow | None, name: str) -> None:
        """Read the run at `place`, whatever is wrong with it. `name`: as it was called."""
        if not is_text(place):
            self._told.append(f"{place} is left out: its path is not UTF-8")
            return
        control = ControlFolder(place)
        mark = [_state(path) for path in _control_files(control)]
        sheet, self._has_written = None, False
        try:
            record = control.read_record()
            if record is None:
                raise ConfigError(f"{control.record_file} is missing")
            sheet = _by_place(self._sheet(control, record, before), place)
            record = self._at_its_place(record, place, sheet)
            if self._has_written:
                mark = [_state(path) for path in _control_files(control)]
            if before is not None and not self._is_as_large(before, mark):
                before = replace(before, disk_bytes=None)
            self._read(record, sheet, before, mark)
        except RltuiError as error:
            self._keep_damaged(control, sheet, before, name, str(error.title), mark)
        except Exception as error:  # one that cannot be understood must not hide all others
            logger.exception("cannot read the run in %s", place)
            self._keep_damaged(control, sheet, before, name, f"{type(error).__name__}: {error}", mark)

    def _read(
        self, record: ExperimentRecord, sheet: RunMetadata, before: RunRow | None, mark: list[_State]
    ) -> None:
        from rltui.services.runs.run_row import RunReader  # knows the frameworks: only where one has changed

        reader = RunReader(record)
        mark += [_state(path) for path in reader.sources()]
        parent = self._index.configs([sheet.parent])[sheet.parent] if sheet.parent else None
        row = reader.row(sheet, parent=parent or None, before=before)
        self._add(row, reader.config, mark)

    def _is_as_large(self, before: RunRow, mark: list[_State]) -> bool:
        """Nothing but its sheet has changed."""
        known = self._marked.get(before.id)
        seen = [tuple(each) for each in orjson.loads(known.mark)] if known is not None and known.mark else []
        return bool(seen) and all(
            each in mark or each[0].endswith(f"/{FILE_NAME}") or each == _state(each[0]) for each in seen
        )

    def _sheet(self, control: ControlFolder, record: ExperimentRecord, before: RunRow | None) -> RunMetadata:
        """Its sheet; a new one where it has none, or that of the run it is a copy of."""
        sheet = read_sheet(control.path)
        if sheet is not None and not self._is_elsewhere(sheet.id, control):
            return sheet
        known = RunOrigin() if sheet is None else RunOrigin(parent=sheet.id)
        made = new_sheet(record.created_at, known)
        if sheet is None and before is not None:
            made = replace(made, **{each.name: getattr(before, each.name) for each in fields(RunMetadata)})
        self._has_written = True
        wrong = sheet.id if sheet is not None else ""
        try:  # others may make one at the same time
            return change_sheet(control.path, lambda there: made if there.id == wrong else there, first=made)
        except RltuiError as error:
            logger.info("%s", error)
            return replace(made, id=path_id(control.path))

    def _is_elsewhere(self, id_: RunId, control: ControlFolder) -> bool:
        """Another folder has that id by right: this one is a copy of it."""
        known = self._marked.get(id_)
        place = self._places.get(id_) or (
            known.control if known is not None else _noted(id_).get("control", "")
        )
        if not place or same_folder(place, str(control.path)):
            return False
        return sheet_id(Path(place).parent) == id_

    def _at_its_place(self, record: ExperimentRecord, place: Path, sheet: RunMetadata) -> ExperimentRecord:
        if same_folder(record.output_dir, str(place)):
            return record
        from rltui.services.runs.leases import living  # knows the frameworks

        moved = at_its_place(record, place)
        if sheet.trashed_at is not None or place.parent.name == TRASH or living(moved):
            return moved
        is_copy = Path(record.output_dir, paths.STATE_FOLDER, FILE_NAME).exists()
        moved, self._has_written = take_over(moved), True
        if is_copy:
            self._told.append(f"{place} is a copy of {record.output_dir}: it is called {moved.name}")
            return moved
        as_what = "" if moved.name == record.name else f", as {moved.name}"
        self._told.append(f"{record.name} was moved from {record.output_dir} to {place}{as_what}")
        return moved

    # --- what is kept -------------------------------------------------------------------------------------

    def _keep_gone(self, id_: RunId, before: RunRow | None, place: Path) -> None:
        if before is None:
            note = _noted(id_)
            before = RunRow(
                id=id_,
                name=note.get("name", id_),
                folder=note.get("folder", str(place)),
                control=str(ControlFolder(place).path),
                created_at=note.get("created_at", 0.0),
            )
        row = replace(before, state="gone", problem=why_gone(place), supervisor=None)
        self._add(row, None, [_state(place), _state(place.parent)])

    def _keep_damaged(
        self,
        control: ControlFolder,
        sheet: RunMetadata | None,
        before: RunRow | None,
        name: str,
        problem: str,
        mark: list[_State],
    ) -> None:
        place = control.path.parent
        if before is None:
            id_ = sheet.id if sheet is not None else sheet_id(place)
            if id_ is None or self._is_elsewhere(id_, control):
                id_ = path_id(control.path)
            at = sheet.created_at if sheet is not None else _changed_ns(control.path) / 1e9
            before = RunRow(
                id=id_, name=name or place.name, folder=str(place), control=str(control.path), created_at=at
            )
        self._add(replace(before, state="damaged", problem=problem, supervisor=None), None, mark)

    def _add(self, row: RunRow, config: Mapping[str, Any] | None, mark: list[_State]) -> None:
        self._places[row.id] = row.control
        self._gone.discard(row.id)
        self._ready.append((row, config))
        self._marks[row.id] = orjson.dumps(mark)
        note(row)
        if len(self._ready) >= _AT_ONCE:
            self._put()

    def _put(self) -> None:
        self._index.put(self._ready, marks=self._marks, unless_since=self._since)
        self._ready.clear()


_State = tuple[str, int, int, int]
"""Path, number, time of change and size of a file; zeros where there is none."""


def _state(path: Path | str) -> _State:
    try:
        info = os.stat(path)  # noqa: PTH116 - a third faster, and there are thousands
    except OSError as error:
        return str(path), 0, 0, error.errno or 0
    return str(path), info.st_ino, info.st_mtime_ns, info.st_size


def _holds(mark: bytes) -> bool:
    """Nothing that the row was made of has changed."""
    return bool(mark) and all(_state(each[0]) == tuple(each) for each in orjson.loads(mark))


def _control_files(control: ControlFolder) -> tuple[Path, ...]:
    return control.record_file, control.path / FILE_NAME, control.journal_file


def _changed_ns(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names only
    except OSError:
        return []


def _may_be_there(path: Path) -> bool:
    """False only where it is certainly gone."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _lives(pid: int, started: float) -> bool:
    from rltui.services.processes import age_s, is_alive, read_process_id  # takes 60 ms: not for ended runs

    process = read_process_id(pid)
    if process is None or not is_alive(process):
        return False
    return abs(time.time() - age_s(process) - started) < _CLOCK_SLACK_S


def note(row: RunRow) -> None:
    """Keep where a run is, beside the index. Where that cannot be written, the index alone has it."""
    values = {"name": row.name, "folder": row.folder, "control": row.control, "created_at": row.created_at}
    if _noted(row.id) != values:
        with suppress(RltuiError):
            make_folder(notes_dir(), mode=0o700)
            write_atomically(_note_file(row.id), orjson.dumps(values))


def _note_file(id_: RunId) -> Path:
    return notes_dir() / id_


def _noted_ids() -> list[RunId]:
    return [id_ for name in _names(notes_dir()) if (id_ := run_id(name)) is not None]


def _noted(id_: RunId) -> dict[str, Any]:
    """What `note` wrote; empty where it cannot be read."""
    try:
        return checked(orjson.loads(read_own(_note_file(id_))), _NOTE_KINDS, frozenset())
    except (OSError, ValueError):
        return {}
