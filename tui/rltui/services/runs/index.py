"""The index of all runs: an sqlite file in the user's state folder, made again from the folders at any time.

Supervisors, command lines and screens write to it at once; each write is one short transaction. It is never
the only place where something is kept.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from rltui import paths
from rltui.core import hints
from rltui.core.runs import RunId, RunRow, run_id
from rltui.core.states import RUN_STATES, RunState
from rltui.errors import RltuiError
from rltui.services.own_files import make_folder

logger = logging.getLogger(__name__)

_SCHEMA = 4
"""In the name of the file, and in the file."""
_TABLES = """
CREATE TABLE IF NOT EXISTS run (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, folder TEXT NOT NULL, control TEXT NOT NULL,
    state TEXT NOT NULL, row BLOB NOT NULL, config BLOB NOT NULL, mark BLOB NOT NULL, stamp INTEGER NOT NULL,
    disk INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS run_name ON run (name);
CREATE INDEX IF NOT EXISTS run_folder ON run (folder);
CREATE INDEX IF NOT EXISTS run_stamp ON run (stamp);
CREATE TABLE IF NOT EXISTS head (
    stamp INTEGER NOT NULL, is_whole INTEGER NOT NULL, list_seen INTEGER NOT NULL
);
INSERT INTO head SELECT 0, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM head);
"""
_USUAL_PATIENCE_S = 5.0
_OURS = (sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.IntegrityError)
"""Errors that tell of what was asked, not of the file."""
_NEVER = (1 << 63) - 1


def index_file() -> Path:
    """Where it lies. Another version of rltui, with other tables, has one of its own."""
    return paths.state_dir() / f"runs-{_SCHEMA}.sqlite"


class FingerprintedRun(NamedTuple):
    """What must be known of a run to see whether its row still holds."""

    id: RunId
    folder: str
    control: str
    state: RunState
    mark: bytes
    """As it was put; empty: the row was not made from the folder."""


class IndexBusyError(RltuiError):
    """Somebody else has held it for longer than we wait."""


class RunIndex:
    """One connection, for one thread at a time. A damaged file is set aside, and an empty one takes its place
    (`is_whole` is false then, until `set_whole`).
    """

    def __init__(self, path: Path | None = None, *, patience_s: float = _USUAL_PATIENCE_S) -> None:
        """Raises RltuiError where it can neither be opened nor made."""
        self.path = path or index_file()
        self._patience_s = patience_s
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self.was_damaged = ""
        """Why the file that was there was set aside, and where it is; empty where it was sound."""

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """It was made from all folders once; without that, those of living supervisors alone may be in it."""
        with self._trying() as connection:
            return bool(connection.execute("SELECT is_whole FROM head").fetchone()[0])

    def list_seen(self) -> int:
        """As `set_whole` was told last; 0: nothing."""
        with self._trying() as connection:
            return int(connection.execute("SELECT list_seen FROM head").fetchone()[0])

    def stamp(self) -> int:
        """Grows with every change."""
        with self._trying() as connection:
            return int(connection.execute("SELECT stamp FROM head").fetchone()[0])

    def rows(self, since: int = -1) -> list[RunRow]:
        """All, or those that changed after `stamp` was `since`. In no order. A damaged row is left out."""
        with self._trying() as connection:
            found = connection.execute("SELECT row FROM run WHERE stamp > ?", (since,)).fetchall()
        return list(_parsed(found))

    def ids(self) -> frozenset[RunId]:
        with self._trying() as connection:
            found = connection.execute("SELECT id FROM run").fetchall()
        return frozenset(id_ for (text,) in found if (id_ := run_id(text)) is not None)

    def marked(self) -> list[FingerprintedRun]:
        """All runs, in no order."""
        with self._trying() as connection:
            found = connection.execute("SELECT id, folder, control, state, mark FROM run").fetchall()
        return [FingerprintedRun(id_, *rest) for text, *rest in found if (id_ := run_id(text)) is not None]

    def unmeasured(self) -> list[RunId]:
        """Ids of those that have ended, and whose disk use is not known."""
        with self._trying() as connection:
            found = connection.execute("SELECT id, state FROM run WHERE disk IS NULL").fetchall()
        ended = {state for state, badge in RUN_STATES.items() if badge.has_ended}
        return [id_ for text, state in found if state in ended and (id_ := run_id(text)) is not None]

    def named(self, word: str) -> list[RunRow]:
        """Those of that name or id."""
        with self._trying() as connection:
            found = connection.execute(
                "SELECT row FROM run WHERE id = ? OR name = ?", (word, word)
            ).fetchall()
        return list(_parsed(found))

    def row(self, id_: str) -> RunRow | None:
        with self._trying() as connection:
            found = connection.execute("SELECT row FROM run WHERE id = ?", (id_,)).fetchall()
        return next(_parsed(found), None)

    def names(self) -> list[str]:
        """Of all runs, for a nearest match."""
        with self._trying() as connection:
            return sorted({name for (name,) in connection.execute("SELECT name FROM run")})

    def in_folder(self, folder: str) -> RunRow | None:
        with self._trying() as connection:
            found = connection.execute("SELECT row FROM run WHERE folder = ?", (folder,)).fetchall()
        return next(_parsed(found), None)

    def configs(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """By id of a run: its config as it last ran, flat, by knob name."""
        found: dict[str, dict[str, Any]] = {}
        with self._trying() as connection:
            for id_ in ids:
                row = connection.execute("SELECT config FROM run WHERE id = ?", (id_,)).fetchone()
                found[id_] = _document(row[0]) if row is not None else {}
        return found

    # --- writing ------------------------------------------------------------------------------------------

    def put(
        self,
        rows: Iterable[tuple[RunRow, Mapping[str, Any] | None]],
        *,
        marks: Mapping[str, bytes] = MappingProxyType({}),
        unless_since: int | None = None,
    ) -> int:
        """Add these or replace them, all or none. With no config the one there is stays.

        `marks`: by id, what the rows were made from. `unless_since`: a stamp; what others have put after it
        stays, since they know better.

        Returns:
            How many were put.
        """
        documents = [
            {
                **{name: getattr(row, name) for name in ("id", "name", "folder", "control", "state")},
                "row": orjson.dumps(row),
                "config": None if config is None else _dumped(config),
                "mark": marks.get(row.id, b""),
                "disk": row.disk_bytes,
            }
            for row, config in rows
        ]
        if not documents:
            return 0
        latest = _NEVER if unless_since is None else unless_since
        with self._writing() as (connection, stamp):
            return sum(
                connection.execute(
                    "INSERT INTO run VALUES (:id, :name, :folder, :control, :state, :row,"
                    " COALESCE(:config, x'7b7d'), :mark, :stamp, :disk)"
                    " ON CONFLICT (id) DO UPDATE SET name = :name, folder = :folder, control = :control,"
                    " state = :state, row = :row, config = COALESCE(:config, config), mark = :mark,"
                    " stamp = :stamp, disk = :disk WHERE run.stamp <= :latest",
                    {**document, "stamp": stamp, "latest": latest},
                ).rowcount
                for document in documents
            )

    def remove(self, ids: Iterable[str]) -> None:
        """Forget these. Their folders stay."""
        with self._writing() as (connection, _):
            connection.executemany("DELETE FROM run WHERE id = ?", [(id_,) for id_ in ids])

    def set_whole(self, list_seen: int | None = None) -> None:
        """It has been made from all folders; those of the user's list as that was when it had this mark."""
        with self._trying() as connection:
            known = connection.execute("SELECT is_whole, list_seen FROM head").fetchone()
        seen = known[1] if list_seen is None else list_seen
        if known != (1, seen):
            with self._writing() as (connection, _):
                connection.execute("UPDATE head SET is_whole = 1, list_seen = ?", (seen,))

    def close(self) -> None:
        """A later call opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- the file -----------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        with self._trying() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("UPDATE head SET stamp = stamp + 1")
                stamp = int(connection.execute("SELECT stamp FROM head").fetchone()[0])
                yield connection, stamp
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _trying(self) -> Iterator[sqlite3.Connection]:
        """The errors of sqlite as ours. A damaged file is set aside before the error is raised: the next call
        finds an empty one.
        """
        try:
            yield self._opened()
        except sqlite3.DatabaseError as error:
            if isinstance(error, _OURS):
                raise
            if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
                self.close()
                kind = IndexBusyError if "locked" in str(error) else RltuiError
                raise kind(f"the index of runs {self.path} cannot be used: {error}") from error
            self._set_aside(str(error))
            raise RltuiError(
                f"the index of runs was damaged ({error})", hint=str(hints.RUNS_REBUILD)
            ) from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None and self._inode == _inode(self.path):
            return self._connection
        self.close()
        make_folder(self.path.parent, mode=0o700)
        try:
            self._connection = self._connected()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
                raise
            self._set_aside(str(error))
            self._connection = self._connected()
        self._inode = _inode(self.path)
        return self._connection

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._patience_s, isolation_level=None, check_same_thread=False
        )
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _SCHEMA):
                raise sqlite3.DatabaseError(f"it is of version {version}, this rltui knows {_SCHEMA}")
            if version == 0:
                connection.executescript(
                    f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_SCHEMA}; COMMIT;"
                )
            connection.execute("SELECT stamp, is_whole, list_seen FROM head").fetchone()
        except BaseException:
            connection.close()
            raise
        self.path.chmod(0o600)
        return connection

    def _set_aside(self, reason: str) -> None:
        self.close()
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        with suppress(OSError):
            self.path.rename(aside)
            self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
            self.was_damaged = f"{reason}; it lies in {aside}"
            logger.warning("the index of runs was set aside: %s", self.was_damaged)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _is_damage(error: sqlite3.OperationalError) -> bool:
    """Rather than a lock or a full disk, which are operational errors as well."""
    return any(
        word in str(error) for word in ("malformed", "no such table", "no such column", "not a database")
    )


def _parsed(found: Iterable[tuple[bytes]]) -> Iterator[RunRow]:
    for (row,) in found:
        try:
            yield RunRow.parsed(orjson.loads(row))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            logger.warning("a row of the index of runs is damaged: %s", error)


def _document(data: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _dumped(config: Mapping[str, Any]) -> bytes:
    """TOML has dates, and numbers larger than JSON's."""
    return orjson.dumps(dict(config), default=str, option=orjson.OPT_NON_STR_KEYS)
