"""The table of runs in sqlite, and its queries. The index has it in a file; rows from elsewhere are
put into one in memory.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from rltui.core.runs.row import RunRow

TABLE = """
CREATE TABLE IF NOT EXISTS run (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, folder TEXT NOT NULL, control TEXT NOT NULL,
    is_alive INTEGER NOT NULL, at REAL NOT NULL, entry TEXT NOT NULL, archived_at REAL, trashed_at REAL,
    disk INTEGER, stamp INTEGER NOT NULL, mark BLOB NOT NULL, row BLOB NOT NULL, config BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS run_name ON run (name);
CREATE INDEX IF NOT EXISTS run_folder ON run (folder);
CREATE INDEX IF NOT EXISTS run_stamp ON run (stamp);
CREATE INDEX IF NOT EXISTS run_order ON run (is_alive, at, id, entry, archived_at, trashed_at, name);
"""
"""Lists are ordered and cut by columns (`columns_of`); `row` and `config` are JSON; `mark`: of the files
that the row was made from.
"""
PUT = """
INSERT INTO run VALUES (
    :id, :name, :folder, :control, :is_alive, :at, :entry, :archived_at, :trashed_at, :disk, :stamp,
    COALESCE(:mark, x''), :row, COALESCE(:config, x'7b7d')
) ON CONFLICT (id) DO UPDATE SET
    name = :name, folder = :folder, control = :control, is_alive = :is_alive, at = :at, entry = :entry,
    archived_at = :archived_at, trashed_at = :trashed_at, disk = :disk, stamp = :stamp,
    mark = COALESCE(:mark, mark), row = :row, config = COALESCE(:config, config)
    WHERE run.stamp <= :latest
"""
"""`latest`: a row with a newer stamp stays. A mark or config that is NULL stays as it is."""
CURRENT = """
CREATE TEMP TABLE current_row (id TEXT PRIMARY KEY, row BLOB NOT NULL);
CREATE TEMP VIEW stated AS
    SELECT *, CAST(COALESCE((SELECT row FROM current_row WHERE id = run.id), row) AS TEXT) AS text FROM run;
CREATE TEMP VIEW current AS SELECT *, CASE WHEN json_valid(text) THEN text END AS document FROM stated;
"""
"""The table; its documents are the rows, or those that `current_row` has instead, NULL for a damaged row.
"""


@dataclass(frozen=True, slots=True)
class RunQuery:
    """A choice of runs and their order: SQL over the columns of the view `current`."""

    where: str = "1"
    order: str = "id"
    values: Mapping[str, Any] = field(default_factory=dict)
    """Named parameters."""
    sort_value: str = ""
    """What `order` means by that name: SQL that is computed once for each run."""
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions of the SQL, by name."""
    needs_config: bool = False

    def run(self, connection: sqlite3.Connection, wanted: str, limit: int = -1) -> list[Any]:
        """The columns that are `wanted`, of at most so many runs."""
        for name, function in self.functions.items():
            connection.create_function(name, -1, function, deterministic=True)
        source = f"current WHERE {self.where}"
        if self.sort_value:  # sqlite merges no query into another where both have a limit
            source = f"(SELECT *, {self.sort_value} AS sort_value FROM {source} LIMIT -1)"  # noqa: S608
        statement = f"SELECT {wanted} FROM {source} ORDER BY {self.order} LIMIT {limit}"  # noqa: S608
        return connection.execute(statement, self.values).fetchall()


def columns_of(row: RunRow) -> dict[str, Any]:
    """The columns that say what the row says. `at`: the time that living runs, and the others, are ordered
    by.
    """
    started_at = row.started_at or row.created_at
    return {
        "id": row.id,
        "name": row.name,
        "folder": row.folder,
        "control": row.control,
        "is_alive": row.is_alive,
        "at": started_at if row.is_alive else row.ended_at or started_at,
        "entry": row.entry,
        "archived_at": row.archived_at,
        "trashed_at": row.trashed_at,
        "disk": row.disk_bytes,
        "row": orjson.dumps(row),
    }


Configs = Mapping[str, Mapping[str, Any]]
"""Id of a run → its flat config."""


class QueryableRuns:
    """Rows at hand, asked as the index is. Thread-safe."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.executescript(TABLE + CURRENT)
        self._lock = threading.Lock()
        self._rows: dict[str, RunRow] = {}
        self._rows_of_configs: dict[str, RunRow] = {}
        """Those that there were when the configs were read last."""

    def select(
        self,
        query: RunQuery,
        rows: Iterable[RunRow],
        read_configs: Callable[[Sequence[str]], Configs] = lambda _: {},
    ) -> list[str]:
        """Ids of those of the rows that the query means, in its order.

        What was there the last time costs nothing; `read_configs` reads those of the others, where the query
        needs them.
        """
        with self._lock:
            self._put({row.id: row for row in rows})
            if query.needs_config:
                self._put_configs(read_configs)
            return [id_ for (id_,) in query.run(self._connection, "id")]

    def _put(self, rows: dict[str, RunRow]) -> None:
        changed = [row for id_, row in rows.items() if self._rows.get(id_) is not row]
        gone = self._rows.keys() - rows.keys()
        self._rows = rows
        with self._connection:
            self._connection.execute("BEGIN")
            self._connection.executemany("DELETE FROM run WHERE id = ?", [(id_,) for id_ in gone])
            fixed = {"stamp": 0, "latest": 0, "mark": b"", "config": None}
            self._connection.executemany(PUT, ({**columns_of(row), **fixed} for row in changed))

    def _put_configs(self, read_configs: Callable[[Sequence[str]], Configs]) -> None:
        lacking = {id_: row for id_, row in self._rows.items() if self._rows_of_configs.get(id_) is not row}
        configs = read_configs([*lacking]) if lacking else {}
        values = [(orjson.dumps(config), id_) for id_, config in configs.items()]
        self._connection.executemany("UPDATE run SET config = ? WHERE id = ?", values)
        self._rows_of_configs = self._rows
