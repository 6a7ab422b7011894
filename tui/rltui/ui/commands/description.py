"""Commands that show all about a component or a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rltui.client.experiment import Experiment
from rltui.ui.commands.frontend import Frontend


class DescriptionCommands:
    def __init__(self, frontend: Frontend, clock: Callable[[], float]) -> None:
        self._frontend = frontend
        self._clock = clock

    def describe(self, find: Callable[[], Experiment], component: str | None = None) -> None:
        """Describe a component of the experiment; without one the run, with a part for each component.

        `find` is called in a thread.
        """
        self._frontend.work(self._describe(find, component), changes=False)

    async def _describe(self, find: Callable[[], Experiment], component: str | None) -> None:
        from rltui.ui.dialogs.description import DescriptionDialog  # the first frame needs none of this
        from rltui.views.description import component_facts, run_facts, value_facts

        async with self._frontend.waiting("Reading the description", cancels=True):
            experiment = await asyncio.to_thread(find)
            run = await asyncio.to_thread(experiment.describe)
        now = self._clock()
        described = next((item for item in run.components if item.id == component), None)
        if described is None:
            title = run.name
            parts = [("", run_facts(run))]
            parts += [(item.id, component_facts(run, item, now)) for item in run.components]
        else:
            title = f"{described.id} of {run.name}"
            parts = [
                ("", component_facts(run, described, now)),
                ("values", value_facts(described)),
                ("run", run_facts(run)),
            ]
        await self._frontend.prompt(DescriptionDialog(title, parts))
