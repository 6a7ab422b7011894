"""Stops the run of an agent whose GPU hours are used up, at its next checkpoint. A person's run goes on."""

from __future__ import annotations

import asyncio

from rltui.base.tasks import tick
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.api import Alert, Loss, Request
from rltui.core.experiment.events import author_words
from rltui.core.experiment.gpu_use import ALIVE_KINDS
from rltui.errors import RltuiError
from rltui.services.actor import acting_as
from rltui.services.experiment.gpu_use import GpuUseReader
from rltui.services.experiment.journal import read_entries
from rltui.services.experiment.rights import granted
from rltui.supervisor.commands import Commands
from rltui.supervisor.runtime import Runtime

_POLL_S = 5.0


class AgentBudget:
    def __init__(self, runtime: Runtime, commands: Commands) -> None:
        self._runtime = runtime
        self._commands = commands
        self._use = GpuUseReader()
        self._exhausted = ""
        """What is told of the agent whose run stops at its next checkpoint; empty: none does."""

    async def watch(self) -> None:
        while True:
            await tick(_POLL_S)
            agent = self._agent()
            exhausted = "" if agent is None else await asyncio.to_thread(self._excess, agent)
            if not exhausted:
                self._exhausted = ""
            elif not self._exhausted:
                self._exhausted = exhausted
                if self._makes_checkpoints():
                    self._alert("the run stops at its next checkpoint")
                else:
                    await self._stop()

    async def checkpoint(self) -> None:
        """Called when a checkpoint is complete."""
        if self._exhausted:
            await self._stop()

    def _agent(self) -> Actor | None:
        """The agent that started what lives of the run; `None` where a person started some of it."""
        runners = self._runtime.processes.runners.values()
        launches = [runner.launch for runner in runners if runner.lifecycle.alive]
        starters = [launch.by for launch in launches if launch is not None]
        if not starters or any(starter is None or not starter.is_agent for starter in starters):
            return None
        return starters[0]

    def _excess(self, agent: Actor) -> str:
        """Says that its run must stop; empty: it may go on."""
        control = self._runtime.setup.control
        limit = granted(control.path).rights.gpu_hours
        entries = read_entries(control.journal_file)
        first = next((entry for entry in entries if entry["kind"] in ALIVE_KINDS), {})
        if limit is None or "agent" not in author_words(first):
            return ""
        hours = self._use.hours_of(agent.name)
        return f"{agent.short} has used {hours:.2g} of {limit:g} GPU hours" if hours >= limit else ""

    def _makes_checkpoints(self) -> bool:
        setup = self._runtime.setup
        files = self._runtime.config.document.files
        return setup.framework.run.checkpoint_interval(files) is not None

    async def _stop(self) -> None:
        self._alert("the run stops")
        try:
            with acting_as(None):
                await self._commands.execute(Request(action="stop", accepts=Loss.MORE))
        except RltuiError as error:
            self._alert(f"the run cannot be stopped: {error.title}")

    def _alert(self, text: str) -> None:
        self._runtime.events.alert(Alert(kind="notice", severity="warning", title=self._exhausted, text=text))
