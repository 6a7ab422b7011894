"""Shows what is looked at in the framework's own dashboard, in a browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rltui.base.text import count_text
from rltui.core.experiment.dashboard import DashboardPlace
from rltui.frameworks.dashboard import HAVE_ONE
from rltui.ui.commands.experiment import ExperimentCommands
from rltui.ui.commands.frontend import Frontend
from rltui.ui.state import ExperimentState


class DashboardCommands:
    def __init__(
        self,
        frontend: Frontend,
        state: ExperimentState,
        commands: ExperimentCommands,
        find: Callable[[], Awaitable[DashboardPlace]],
    ) -> None:
        """`find` gives the place of what is selected."""
        self._frontend, self._state = frontend, state
        self._commands, self._find = commands, find

    def allows(self, command: str, *arguments: object) -> bool:
        del command, arguments
        status = self._state.status
        return status is None or status.framework in HAVE_ONE

    def show(self) -> None:
        self._frontend.work(self._show(), changes=False)

    async def _show(self) -> None:
        async with self._frontend.waiting("Asking the dashboard", cancels=True):
            page = await self._state.experiment.show_in_dashboard(await self._find())
        if page.tabs:
            text = f"Shown in the dashboard ({count_text(page.tabs, 'tab')})"
            self._frontend.notify(text, markup=False)
            return
        await self._commands.open_page(page.url, why="no dashboard tab shows it")
