"""Commands that start another run from one that there is."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from rltui.errors import NotFoundError
from rltui.ui.actions import key_of
from rltui.ui.commands.frontend import Frontend
from rltui.ui.state import AppState, ExperimentState
from rltui.ui.text import clean

if TYPE_CHECKING:
    from rltui.core.runs.forks import ForkPlan, ForkRequest
    from rltui.core.runs.row import RunRow
    from rltui.ui.dialogs.fork import FindParent


class ForkCommands:
    def __init__(self, frontend: Frontend, app_state: AppState) -> None:
        self._frontend = frontend
        self._app_state = app_state

    def fork(self, row: RunRow) -> None:
        async def parent() -> RunRow:
            return row

        self._frontend.work(self._fork(row.name, parent, ""))

    def fork_open(self, begin: str = "") -> None:
        """Fork the run that is open. `begin`: step of the checkpoint that the form starts with."""
        if (state := self._app_state.current) is not None:
            find = partial(self._find_open, state)
            self._frontend.work(self._fork(state.experiment.name, find, begin))

    async def _find_open(self, state: ExperimentState) -> RunRow:
        runs = self._app_state.runs
        await asyncio.to_thread(runs.catch_up)
        folder = state.status.output_dir if state.status is not None else ""
        for row in await asyncio.to_thread(runs.rows):
            if folder and row.folder == folder:
                return row
        raise NotFoundError("this run is not indexed yet", hint="press enter in a moment")

    async def _fork(self, name: str, find_parent: FindParent, begin: str) -> None:
        from rltui.ui.dialogs.fork import ForkDialog

        runs = self._app_state.runs

        async def plan(parent: RunRow, request: ForkRequest) -> ForkPlan:
            return await asyncio.to_thread(runs.plan_fork, parent.id, request)

        async def start(parent: RunRow, request: ForkRequest) -> str:
            name = (await plan(parent, request)).name
            messages = await asyncio.to_thread(runs.fork, parent.id, request)
            place, what = ("queue", "queued") if request.is_queued else ("runs", "created")
            done = f"{name} {what}: {key_of(f'screen.{place}')}"
            return "\n".join((done, *messages))

        message = await self._frontend.prompt(ForkDialog(name, find_parent, plan, start, begin=begin))
        if message:
            self._frontend.notify(clean(message), markup=False)
