"""Commands that start another run from one that there is."""

from __future__ import annotations

import asyncio

from rltui.core.forks import ForkPlan, ForkRequest
from rltui.core.runs import RunRow
from rltui.ui.actions import key_of
from rltui.ui.commands.frontend import Frontend
from rltui.ui.dialogs.fork import ForkDialog
from rltui.ui.state import AppState
from rltui.ui.text import clean


class ForkCommands:
    def __init__(self, frontend: Frontend, app_state: AppState) -> None:
        self._frontend = frontend
        self._app_state = app_state

    def fork(self, row: RunRow) -> None:
        self._frontend.work(self._fork(row, ""))

    def fork_open(self, begin: str = "") -> None:
        """Fork the run that is open. `begin`: step of the checkpoint that the form starts with."""
        self._frontend.work(self._fork_open(begin))

    async def _fork_open(self, begin: str) -> None:
        runs, state = self._app_state.runs, self._app_state.current
        folder = state.status.output_dir if state is not None and state.status is not None else ""
        async with self._frontend.waiting("Updating the run list", cancels=True):
            await asyncio.to_thread(runs.catch_up)
            rows = await asyncio.to_thread(runs.rows)
        row = next((row for row in rows if folder and row.folder == folder), None)
        if row is None:
            self._frontend.notify("This run is not indexed yet; try again in a moment", markup=False)
            return
        await self._fork(row, begin)

    async def _fork(self, row: RunRow, begin: str) -> None:
        runs = self._app_state.runs

        async def plan(request: ForkRequest) -> ForkPlan:
            return await asyncio.to_thread(runs.plan_fork, row.id, request)

        async def start(request: ForkRequest) -> str:
            name = (await plan(request)).name
            messages = await asyncio.to_thread(runs.fork, row.id, request)
            place, what = ("queue", "queued") if request.is_queued else ("runs", "created")
            done = f"{name} {what}: {key_of(f'screen.{place}')}"
            return "\n".join((done, *messages))

        message = await self._frontend.prompt(ForkDialog(row, plan, start, begin=begin))
        if message:
            self._frontend.notify(clean(message), markup=False)
