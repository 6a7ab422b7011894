"""The command that writes reports of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from rltui.client.runs import Runs
from rltui.core.runs.row import RunRow
from rltui.errors import RltuiError
from rltui.ui.commands.frontend import Frontend
from rltui.ui.text import clean_line

_SAMPLES = 5
"""Number of the best, and of the worst, rollouts in a report."""


class RunReportCommands:
    def __init__(self, frontend: Frontend, runs: Runs, chosen: Callable[[], Sequence[RunRow]]) -> None:
        """`chosen`: the runs that are written about."""
        self._frontend = frontend
        self._runs = runs
        self._chosen = chosen

    def allows(self, command: str, *arguments: object) -> bool:
        del command, arguments
        return bool(self._chosen())

    def write(self) -> None:
        if rows := self._chosen():
            self._frontend.work(self._write(rows), changes=False)

    async def _write(self, rows: Sequence[RunRow]) -> None:
        from rltui.ui.charts.export import drawings  # brings numpy

        folders = []
        for row in rows:
            export = partial(self._runs.export, row.id, "", drawings, samples=_SAMPLES)
            try:
                async with self._frontend.waiting(f"Writing the report of {row.name}"):
                    folders.append(clean_line(await asyncio.to_thread(export)))
            except RltuiError as error:
                await self._frontend.show_error(error)
                break
        if folders:
            self._frontend.notify("Written: {}".format("\n".join(folders)), timeout=10, markup=False)
