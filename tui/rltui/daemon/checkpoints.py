"""The checkpoints of the run, as the supervisor knows them: told, and pruned on request."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

from rltui.core.checkpoints import NAMED, CheckpointReport, PrunePlan, Retention, prune_plan
from rltui.daemon.config import Config, Setup
from rltui.daemon.events import EventBus
from rltui.daemon.observation import Observation
from rltui.daemon.processes import Processes
from rltui.services.runs.checkpoints import (
    CheckpointNews,
    CheckpointReader,
    pruned_text,
    scores_of,
    take_away,
)
from rltui.services.runs.observed import refuse_observed
from rltui.services.runs.run_folder import named_step


class CheckpointKeeper:
    """Lives on the supervisor's loop; the file system is asked in a thread."""

    def __init__(
        self, setup: Setup, config: Config, observation: Observation, processes: Processes, events: EventBus
    ) -> None:
        self._setup = setup
        self._config = config
        self._observation = observation
        self._processes = processes
        self._events = events
        self._reader = CheckpointReader(observation.folder, setup.control, setup.run_jobs)
        self._reading = asyncio.Lock()

    async def report(self) -> CheckpointReport:
        """All that lie there now. Of several who ask at once, one waits for the other's sizes."""
        news = self._news()
        async with self._reading:
            return await asyncio.to_thread(self._reader.report, self._setup.record.name, news)

    def _news(self) -> CheckpointNews:
        progress = self._observation.progress
        named = named_step(self._setup.framework, self._config.store.files)
        return CheckpointNews(
            scores=scores_of(progress.series),
            step=progress.progress.step,
            max_steps=progress.max_steps,
            is_alive=any(job.life.alive for job in self._processes.run_jobs()),
            notes={} if named is None else {named: NAMED},
        )

    async def plan(self, retention: Retention) -> PrunePlan:
        """What `retention` leaves over."""
        return prune_plan(await self.report(), retention)

    async def take_away(self, retention: Retention, only: Collection[int]) -> tuple[PrunePlan, list[Path]]:
        """Make what `retention` leaves over, as far as its step is among `only`, nobody's checkpoint any
        more: what was done, and what is to be deleted.

        To be called while nobody decides where the run goes on.

        Raises:
            UsageError: if somebody else runs the experiment.
            RltuiError: if one cannot be taken away.
        """
        refuse_observed(self._setup.record)
        plan = prune_plan(await self.report(), retention, only)
        going = await asyncio.to_thread(take_away, self._observation.folder, plan)
        if not plan.is_empty:
            self._events.journal.add("prune", pruned_text(plan))
        return plan.model_copy(update={"done": True}), going
