"""All runs as a person looks at them: which are listed and how, which are marked and meant."""

from __future__ import annotations

import asyncio
from typing import Any

from rltui.client.runs import Runs
from rltui.core.runs.queue import QueueEntry, RunQueue
from rltui.core.runs.row import RunId, RunRow
from rltui.core.runs.tree import TreeLine
from rltui.errors import RltuiError
from rltui.views.run_list import (
    Line,
    RunListing,
    RunSelection,
    changes_among,
    line_key,
    waiting_entries,
)


class RunList:
    """Reads in threads; what was read before stays where that fails, and `problem` says why it may be old."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.rows: tuple[RunRow, ...] = ()
        self.names: dict[str, str] = {}
        """Names of runs by their ids."""
        self.configs: dict[str, Any] = {}
        """Flat configs of the last attempts, by run id; read once a column or the filter needs them."""
        self.queue = RunQueue()
        self.problem = "reading…"
        self.selection = RunSelection()
        self.marked: frozenset[RunId] = frozenset()
        self.listing = RunListing()
        self._lines: dict[str, Line] = {}
        self._by_id: dict[str, RunRow] = {}
        self._selected: list[RunRow] = []
        """The rows that the selection lists, in its order."""
        self._rows_of_configs: dict[str, RunRow] = {}
        """The row that a config was read with, by the id of a run."""

    async def look(self) -> bool:
        """Read index and queue again; whether something is another than before."""
        problem = self._runs.trouble
        try:
            rows = await asyncio.to_thread(self._runs.rows)
        except RltuiError as error:
            rows, problem = self.rows, error.title
        try:
            queue = await asyncio.to_thread(self._runs.queue)
        except RltuiError as error:
            queue, problem = self.queue, problem or error.title
        if rows is self.rows and queue == self.queue and problem == self.problem:
            return False
        if rows is not self.rows:
            self.rows, self._by_id = rows, {row.id: row for row in rows}
            self.names = {row.id: row.name for row in rows}
            self.marked &= self.names.keys()
        self.queue, self.problem = queue, problem
        await self.select(self.selection)
        return True

    async def select(self, selection: RunSelection) -> None:
        """List these. Configs of runs that have not changed since are not read again."""
        self.selection = selection
        old = [row for row in self.rows if self._rows_of_configs.get(row.id) is not row]
        if selection.needs_configs and old:
            try:
                configs = await asyncio.to_thread(self._runs.configs, [row.id for row in old])
            except RltuiError as error:
                self.problem = error.title
            else:
                self.configs.update(configs)
                self._rows_of_configs.update({row.id: row for row in old})
        try:
            ids = await asyncio.to_thread(self._runs.select, selection.query)
        except RltuiError as error:
            self.problem = error.title
        else:
            if selection is not self.selection:
                return  # another was chosen meanwhile, and is listed
            self._selected = [row for id_ in ids if (row := self._by_id.get(id_)) is not None]
        self._list()

    def _list(self) -> None:
        selection = self.selection
        lines = selection.lines(self._selected, waiting_entries(self.queue))
        self._lines = {line_key(line): line for line in lines}
        self.listing = RunListing(
            lines,
            selection.columns,
            self.configs,
            self.names,
            changes_among(
                [line.row for line in lines if isinstance(line, TreeLine) and line.row is not None],
                self._by_id,
            ),
            selection.view,
            self.marked,
            selection.folded,
        )

    def line(self, key: str | None) -> Line | None:
        return self._lines.get(key or "")

    def mark(self, key: str | None) -> None:
        """A heading: all of the sweep."""
        if isinstance(line := self.line(key), TreeLine):
            ids = {line.row.id} if line.row is not None else {row.id for row in line.members}
            self.marked = self.marked - ids if ids <= self.marked else self.marked | ids
            self._list()

    def unmark(self) -> None:
        self.marked = frozenset()
        self._list()

    def chosen(self, key: str | None) -> tuple[RunRow, ...]:
        """The marked ones; else the run of the line `key`, or all of its sweep."""
        if self.marked:
            lines = [line for line in self.listing.lines if isinstance(line, TreeLine)]
            listed = [line.row.id for line in lines if line.row is not None and line.row.id in self.marked]
            return tuple(self._by_id[id_] for id_ in dict.fromkeys((*listed, *sorted(self.marked))))
        line = self.line(key)
        if line is None or isinstance(line, QueueEntry):
            return ()
        return line.members if line.row is None else (line.row,)

    def compared(self, key: str | None) -> tuple[RunRow, ...]:
        """The chosen ones, with the one of the line `key` where only one is marked; a single one with its
        parent. The oldest is first: the others are measured against it.
        """
        line, rows = self.line(key), self.chosen(key)
        if len(rows) == 1:
            current = line.row if isinstance(line, TreeLine) else None
            other = current if self.marked and current is not None and current not in rows else None
            parent = self._by_id.get(rows[0].parent)
            rows = tuple(row for row in (*rows, other or parent) if row is not None)
        return tuple(sorted(rows, key=lambda row: row.started_at or row.created_at))
