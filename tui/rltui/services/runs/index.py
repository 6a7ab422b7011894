"""The index of all runs: an sqlite file in the user's state folder with a row per run, which can be rebuilt
from the folders at any time.

Supervisors, command lines and screens write to it concurrently; each write is one short transaction. Nothing
is stored in it alone: where a run is also stands in a note of its own (`<state>/runs/<id>`), so that an index
which was lost finds the folders again. The rows say what the folders do; `current_rows` adds what changes
without a word to the index: the queue, and supervisors that do not answer.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from rltui import paths
from rltui.base.kinds import PATH, TEXT, TIME, Kind, check_document
from rltui.base.values import InvalidValueError, from_json
from rltui.core import hints
from rltui.core.experiment.states import Reason
from rltui.core.runs.row import RunId, RunRow, run_id
from rltui.core.runs.state import Verdict, no_answer
from rltui.errors import RltuiError
from rltui.services.own_files import entry_names, make_folder, read_own, write_atomically
from rltui.services.runs.query import CURRENT, PUT, TABLE, Configs, RunQuery, columns_of
from rltui.services.runs.queue_states import row_beside_entry, saved_entries

logger = logging.getLogger(__name__)

_SCHEMA = 6
"""Version of the tables, in the name of the file and in the file."""
_HEAD = """
CREATE TABLE IF NOT EXISTS head (
    stamp INTEGER NOT NULL, is_whole INTEGER NOT NULL, list_seen INTEGER NOT NULL
);
INSERT INTO head SELECT 0, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM head);
CREATE TABLE IF NOT EXISTS listed (name TEXT PRIMARY KEY, mark TEXT NOT NULL, record BLOB NOT NULL);
"""
_EARLIER_SCHEMA = 5
_FROM_EARLIER = """
INSERT OR IGNORE INTO run SELECT
    id, name, folder, control, is_alive,
    COALESCE(
        json_extract(document, '$.ended_at'), json_extract(document, '$.started_at'),
        json_extract(document, '$.created_at')
    ),
    COALESCE(json_extract(document, '$.entry'), ''), json_extract(document, '$.archived_at'),
    json_extract(document, '$.trashed_at'), disk, stamp, mark, row, config
FROM (SELECT *, CAST(row AS TEXT) AS document FROM earlier.run WHERE NOT is_alive);
UPDATE head SET (stamp, is_whole, list_seen) = (SELECT stamp, is_whole, list_seen FROM earlier.head);
"""
"""Rows of the earlier index are made from the same files: thousands need not be read again. Those of living
runs are, since their supervisors may write to that index.
"""
_DEFAULT_TIMEOUT_S = 5.0
BRIEF_TIMEOUT_S = 0.5
"""Longest wait for others who write to the index, of a reader that can do without it."""
_CALLER_ERRORS = (sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.IntegrityError)
"""Errors caused by the statement, not by the file."""
_NEVER = (1 << 63) - 1
_NOTE_KINDS: Mapping[str, Kind] = {"name": TEXT, "folder": PATH, "control": PATH, "created_at": TIME}


def index_file(schema: int = _SCHEMA) -> Path:
    """Path of the index. A version of rltui with other tables has an index of its own."""
    return paths.state_dir() / f"runs-{schema}.sqlite"


class FingerprintedRun(NamedTuple):
    id: RunId
    folder: str
    control: str
    is_alive: bool
    fingerprint: bytes
    """Fingerprint given to `put`; empty: the row was not made from the folder."""


class IndexedState(NamedTuple):
    name: str
    is_alive: bool
    entry: str
    """Id of its entry of the queue; empty: it has none."""
    verdict: Verdict


class IndexBusyError(RltuiError):
    pass


class RunIndex:
    """One connection, for one thread at a time. A damaged file is moved aside and replaced by an empty one
    (`is_whole` is false then, until `set_whole`).
    """

    def __init__(self, path: Path | None = None, *, timeout_s: float = _DEFAULT_TIMEOUT_S) -> None:
        """Raises RltuiError if it can neither be opened nor created."""
        self.path = path or index_file()
        self._timeout_s = timeout_s
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self.was_damaged = ""
        """Reason why an earlier file was moved aside, and its new path; empty if it was sound."""

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """True once it was built from all folders; until then it may only contain runs with a living
        supervisor.
        """
        return bool(self._select("SELECT is_whole FROM head")[0][0])

    def list_seen(self) -> int:
        """The last value given to `set_whole`; 0: none."""
        return int(self._select("SELECT list_seen FROM head")[0][0])

    def revision(self) -> int:
        """A number that grows with every change."""
        return int(self._select("SELECT stamp FROM head")[0][0])

    def rows(self, since: int = -1) -> list[RunRow]:
        """All rows, or those that changed after `revision` was `since`. Unordered. A damaged row is
        left out.
        """
        return self._rows("stamp > ?", since)

    def ids(self) -> frozenset[RunId]:
        return frozenset(id_ for (text,) in self._select("SELECT id FROM run") if (id_ := run_id(text)))

    def fingerprinted_runs(self) -> list[FingerprintedRun]:
        """All runs with their fingerprints, unordered."""
        records = self._select("SELECT id, folder, control, is_alive, mark FROM run")
        return [FingerprintedRun(id_, *values) for text, *values in records if (id_ := run_id(text))]

    def unmeasured(self) -> list[RunId]:
        """Ids of runs with unknown disk usage of which nothing lives."""
        records = self._select("SELECT id FROM run WHERE disk IS NULL AND NOT is_alive")
        return [id_ for (text,) in records if (id_ := run_id(text))]

    def named(self, name_or_id: str) -> list[RunRow]:
        return self._rows("id = ? OR name = ?", name_or_id, name_or_id)

    def row(self, id_: str) -> RunRow | None:
        return next(iter(self._rows("id = ?", id_)), None)

    def having(self, ids: Iterable[str]) -> list[RunRow]:
        """Runs with these ids, unordered."""
        return self._rows("id IN (SELECT value FROM json_each(?))", orjson.dumps([*ids]).decode())

    def starting_with(self, text: str) -> list[RunRow]:
        """Runs whose name or id starts with the text."""
        return self._rows("substr(name, 1, ?1) = ?2 OR substr(id, 1, ?1) = ?2", len(text), text)

    def names(self) -> dict[str, str]:
        """Id → name, of all runs."""
        return dict(self._select("SELECT id, name FROM run ORDER BY name"))

    def living_names(self) -> list[str]:
        return [name for (name,) in self._select("SELECT name FROM run WHERE is_alive")]

    def tags(self) -> dict[str, int]:
        """Tag → number of its runs outside the trash, in alphabetical order."""
        return dict(
            self._select(
                "SELECT value, count(*) FROM current, json_each(document, '$.tags')"
                " WHERE trashed_at IS NULL GROUP BY value"
            )
        )

    def trashed(self) -> list[RunRow]:
        """Runs in the trash, unordered."""
        return self._rows("trashed_at IS NOT NULL")

    def states(self) -> list[IndexedState]:
        """All runs by name, without the rest of their rows: thousands take a few milliseconds."""
        records = self._select(
            "SELECT name, is_alive, json_extract(document, '$.entry', '$.state', '$.reason')"
            " FROM current WHERE document IS NOT NULL ORDER BY name"
        )
        states = [(name, bool(is_alive), *orjson.loads(values)) for name, is_alive, values in records]
        return [
            IndexedState(name, is_alive, entry or "", Verdict(state, Reason.parse(reason or {})))
            for name, is_alive, entry, state, reason in states
        ]

    def in_folder(self, folder: str) -> RunRow | None:
        return next(iter(self._rows("folder = ?", folder)), None)

    def below(self, folder: str) -> list[RunRow]:
        """Runs whose folders are somewhere in this one."""
        return self._rows("substr(folder, 1, ?) = ?", len(folder) + 1, f"{folder}/")

    def select(self, query: RunQuery, limit: int | None = None) -> list[RunRow]:
        """The runs that a query means, in its order and in the states that every place shows, at most
        `limit`.
        """
        with self._current() as (connection, current):
            records = query.run(connection, "id, row", -1 if limit is None else limit)
        return _parsed([(current.get(id_, row),) for id_, row in records])

    def select_ids(self, query: RunQuery) -> list[str]:
        """The ids of those that `select` gives."""
        with self._current() as (connection, _):
            return [id_ for (id_,) in query.run(connection, "id")]

    def count(self, query: RunQuery) -> int:
        """The number of those that `select` gives."""
        with self._current() as (connection, _):
            return int(query.run(connection, "count(*)")[0][0])

    @contextmanager
    def _current(self) -> Iterator[tuple[sqlite3.Connection, Mapping[str, bytes]]]:
        """A connection whose view `current` has what `current_rows` changes, and that by id."""
        entries = orjson.dumps([*saved_entries()]).decode()
        with self._connection_or_error() as connection:
            concerned = "SELECT id FROM run WHERE is_alive OR entry IN (SELECT value FROM json_each(?))"
            statement = f"SELECT row FROM run WHERE id IN ({concerned})"  # noqa: S608
            rows = _parsed(connection.execute(statement, (entries,)))
            states = zip(rows, current_rows(rows), strict=True)
            changed: dict[str, bytes] = {
                row.id: orjson.dumps(current) for row, current in states if current is not row
            }
            connection.execute("DELETE FROM current_row")
            connection.executemany("INSERT INTO current_row VALUES (?, ?)", changed.items())
            yield connection, changed

    def configs(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Id of a run → its config as it last ran, flat, by knob name."""
        asked_ids = [*ids]
        statement = "SELECT id, config FROM run WHERE id IN (SELECT value FROM json_each(?))"
        contents = dict(self._select(statement, orjson.dumps(asked_ids).decode()))
        return {id_: _document(contents.get(id_, b"")) for id_ in asked_ids}

    def all_configs(self) -> Configs:
        """The configs of all runs."""
        return {id_: _document(content) for id_, content in self._select("SELECT id, config FROM run")}

    def config(self, id_: str) -> dict[str, Any] | None:
        """The config of one run; `None` if nothing is known of it."""
        return self.configs([id_])[id_] or None

    def _select(self, statement: str, *values: object) -> list[Any]:
        with self._connection_or_error() as connection:
            return connection.execute(statement, values).fetchall()

    def _rows(self, condition: str, *values: object) -> list[RunRow]:
        return _parsed(self._select(f"SELECT row FROM run WHERE {condition}", *values))  # noqa: S608

    # --- writing ------------------------------------------------------------------------------------------

    def put(
        self,
        rows: Iterable[tuple[RunRow, Mapping[str, Any] | None]],
        *,
        fingerprints: Mapping[str, bytes] = MappingProxyType({}),
        unless_since: int | None = None,
    ) -> int:
        """Add or replace these rows, all or none, and note where the runs are. Without a config the existing
        one stays.

        `fingerprints`: id → fingerprint of what the row was made from. `unless_since`: a revision; rows that
        others wrote after it stay, since they are newer.

        Returns:
            Number of written rows.
        """
        rows = [*rows]
        documents = [
            {
                **columns_of(row),
                "config": None if config is None else orjson.dumps(config),
                "mark": fingerprints.get(row.id, b""),
            }
            for row, config in rows
        ]
        if not documents:
            return 0
        latest = _NEVER if unless_since is None else unless_since
        with self._writing() as (connection, revision):
            written = sum(
                connection.execute(PUT, {**document, "stamp": revision, "latest": latest}).rowcount
                for document in documents
            )
        for row, _ in rows:
            self._write_note(row)
        return written

    def change(self, id_: str, values: Mapping[str, Any]) -> RunRow | None:
        """Change these fields of a row; what others have written to the rest meanwhile stays, and so does the
        fingerprint. Returns the row after that; `None` if there is none.
        """
        with self._writing() as (connection, revision):
            rows = _parsed(connection.execute("SELECT row FROM run WHERE id = ?", (id_,)))
            for row in (changed_rows := [replace(row, **values) for row in rows]):
                fixed = {"stamp": revision, "latest": _NEVER, "mark": None, "config": None}
                connection.execute(PUT, {**columns_of(row), **fixed})
        for row in changed_rows:
            self._write_note(row)
            return row
        return None

    def remove(self, ids: Iterable[str]) -> None:
        """Forget these runs; their folders stay."""
        ids = [*ids]
        with self._writing() as (connection, _):
            connection.executemany("DELETE FROM run WHERE id = ?", [(id_,) for id_ in ids])
        for id_ in ids:
            with suppress(OSError):
                self._note_file(id_).unlink()

    def set_whole(self, list_seen: int) -> None:
        """Record that it was built from all folders; `list_seen`: modification time of the user's list at
        that moment.
        """
        if self._select("SELECT is_whole, list_seen FROM head") != [(1, list_seen)]:
            with self._writing() as (connection, _):
                connection.execute("UPDATE head SET is_whole = 1, list_seen = ?", (list_seen,))

    def close(self) -> None:
        """A later call opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- the list of experiments (`services/experiment/known_records.py`) ---------------------------------

    def listed(self) -> dict[str, tuple[str, bytes]]:
        """Name of an experiment → the mark of its files, and its record as JSON."""
        return {name: (mark, record) for name, mark, record in self._select("SELECT * FROM listed")}

    def keep_listed(self, entries: Mapping[str, tuple[str, bytes]], names: Iterable[str]) -> None:
        """Add or replace these, and forget those whose names are not among `names`."""
        values = [(name, *entry) for name, entry in entries.items()]
        with self._writing() as (connection, _):
            connection.executemany("INSERT OR REPLACE INTO listed VALUES (?, ?, ?)", values)
            connection.execute(
                "DELETE FROM listed WHERE name NOT IN (SELECT value FROM json_each(?))",
                (orjson.dumps([*names]).decode(),),
            )

    # --- notes of where the runs are ----------------------------------------------------------------------

    def noted_ids(self) -> list[RunId]:
        """Ids of all runs that were ever put, also into an index that is lost."""
        return [id_ for name in entry_names(self._notes) if (id_ := run_id(name)) is not None]

    def note(self, id_: str) -> dict[str, Any]:
        """Name, folder, control folder and time of creation of a run; empty if they cannot be read."""
        try:
            return check_document(orjson.loads(read_own(self._note_file(id_))), _NOTE_KINDS, frozenset())
        except (OSError, ValueError):
            return {}

    def _write_note(self, row: RunRow) -> None:
        """If it cannot be written, the index alone says where the run is."""
        values = {name: getattr(row, name) for name in _NOTE_KINDS}
        if self.note(row.id) != values:
            with suppress(RltuiError):
                make_folder(self._notes, mode=0o700)
                write_atomically(self._note_file(row.id), orjson.dumps(values))

    @property
    def _notes(self) -> Path:
        return self.path.parent / "runs"

    def _note_file(self, id_: str) -> Path:
        return self._notes / id_

    # --- the file -----------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        with self._connection_or_error() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("UPDATE head SET stamp = stamp + 1")
                revision = int(connection.execute("SELECT stamp FROM head").fetchone()[0])
                yield connection, revision
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _connection_or_error(self) -> Iterator[sqlite3.Connection]:
        """Convert errors of sqlite to ours. A damaged file is moved aside before the error is raised: the
        next call finds an empty one.
        """
        try:
            yield self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, _CALLER_ERRORS):
                raise
            if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
                self.close()
                kind = IndexBusyError if "locked" in str(error) else RltuiError
                raise kind(f"the index of runs {self.path} cannot be used: {error}") from error
            self._set_aside(str(error))
            raise RltuiError(
                f"the index of runs was damaged ({error})", hint=str(hints.RUNS_REBUILD)
            ) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._inode == _inode(self.path):
            return self._connection
        self.close()
        make_folder(self.path.parent, mode=0o700)
        try:
            self._connection = self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
                raise
            self._set_aside(str(error))
            self._connection = self._connect()
        self._inode = _inode(self.path)
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path.absolute().as_uri(),
            timeout=self._timeout_s,
            isolation_level=None,
            check_same_thread=False,
            uri=True,  # an earlier index is opened read-only
        )
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _SCHEMA):
                raise sqlite3.DatabaseError(f"its version is {version}, this rltui supports {_SCHEMA}")
            if version == 0:
                self._make_tables(connection)
            connection.execute("SELECT stamp, is_whole, list_seen FROM head, listed").fetchone()
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.executescript(CURRENT)
        except BaseException:
            connection.close()
            raise
        self.path.chmod(0o600)
        return connection

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        """Make the tables, with the rows of an earlier version's index if there is a sound one."""
        earlier, whole = self.path.with_name(index_file(_EARLIER_SCHEMA).name), f"{TABLE} {_HEAD}"
        finish = f"PRAGMA user_version = {_SCHEMA}; COMMIT;"
        if self.path == index_file() and earlier.exists():
            try:
                connection.execute("ATTACH ? AS earlier", (f"{earlier.as_uri()}?mode=ro",))
                connection.executescript(f"BEGIN IMMEDIATE; {whole} {_FROM_EARLIER} {finish}")
            except sqlite3.Error as error:
                logger.warning("the index of an earlier version is not taken over: %s", error)
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            else:
                return
        connection.executescript(f"BEGIN IMMEDIATE; {whole} {finish}")

    def _set_aside(self, reason: str) -> None:
        self.close()
        target = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        with suppress(OSError):
            self.path.rename(target)
            self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
            self.was_damaged = f"{reason}; it was saved as {target}"
            logger.warning("the index of runs was set aside: %s", self.was_damaged)


def _parsed(records: Iterable[tuple[bytes]]) -> list[RunRow]:
    """The rows, without damaged ones."""
    rows = []
    for (row,) in records:
        try:
            rows.append(from_json(RunRow, row))
        except InvalidValueError as error:
            logger.warning("a row of the index of runs is damaged: %s", error)
    return rows


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _is_damage(error: sqlite3.OperationalError) -> bool:
    """False for a lock or a full disk, which are operational errors as well."""
    return any(
        phrase in str(error) for phrase in ("malformed", "no such table", "no such column", "not a database")
    )


def _document(content: bytes) -> dict[str, Any]:
    """Empty if it is damaged."""
    with suppress(ValueError):
        document = orjson.loads(content)
        return document if isinstance(document, dict) else {}
    return {}


# --- what the index is not told -----------------------------------------------------------------------------


def current_rows(rows: Iterable[RunRow]) -> list[RunRow]:
    """The rows in the states that every place shows: as the queue has them, or as stalled."""
    entries = saved_entries()
    return [_as_supervised(row_beside_entry(row, entries.get(row.entry))) for row in rows]


def silent_supervisors(rows: Iterable[RunRow]) -> frozenset[int]:
    """Pids of supervisors of these runs that were stopped, by SIGSTOP or ctrl+z, or hang."""
    return frozenset(pid for row in rows if (pid := _silent_supervisor(row)) is not None)


def _as_supervised(row: RunRow) -> RunRow:
    pid = _silent_supervisor(row)
    return row if pid is None else replace(row, state="stalled", reason=no_answer(pid))


def _silent_supervisor(row: RunRow) -> int | None:
    if not row.is_alive or row.supervisor is None or row.host not in ("", os.uname().nodename):
        return None
    from rltui.services.experiment.heartbeat import has_fallen_silent
    from rltui.services.processes import is_stopped, read_process_id  # takes 60 ms: only where one lives

    pid, _ = row.supervisor
    process = read_process_id(pid)
    if process is None:
        return None
    is_silent = is_stopped(process) or has_fallen_silent(row.name, row.folder)
    return pid if is_silent else None
