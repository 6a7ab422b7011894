from __future__ import annotations

import asyncio
from typing import Any

from rltui.client.runs import Runs
from rltui.core.queue import RunQueue
from rltui.core.runs import RunRow
from rltui.errors import RltuiError


class RunReader:
    """Reads in threads; what was read before stays where that fails, and `problem` says why it may be old."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.rows: tuple[RunRow, ...] = ()
        self.names: dict[str, str] = {}
        """Names of runs by their ids."""
        self.configs: dict[str, Any] = {}
        """Flat configs of the last attempts, by the id of a run; only where `read_configs` was asked for
        them.
        """
        self.queue = RunQueue()
        self.problem = "reading…"
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
            self.rows, self.names = rows, {row.id: row.name for row in rows}
        self.queue, self.problem = queue, problem
        return True

    async def read_configs(self) -> None:
        """Runs that have not changed since are not read again."""
        old = [row for row in self.rows if self._rows_of_configs.get(row.id) is not row]
        if not old:
            return
        try:
            configs = await asyncio.to_thread(self._runs.configs, [row.id for row in old])
        except RltuiError as error:
            self.problem = error.title
        else:
            self.configs.update(configs)
            self._rows_of_configs.update({row.id: row for row in old})
