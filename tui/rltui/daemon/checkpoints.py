"""The checkpoints of the run, as the supervisor knows them: told, and pruned on request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path

from rltui.core import hints
from rltui.core.api import Alert, RollbackOffer
from rltui.core.checkpoints import GOOD, NAMED, CheckpointReport, PrunePlan, Retention, prune_plan
from rltui.core.health import damages
from rltui.core.text import size_text
from rltui.daemon.config import Config, Setup
from rltui.daemon.events import EventBus
from rltui.daemon.observation import Observation
from rltui.daemon.processes import Processes
from rltui.services.runs.checkpoints import (
    CheckpointNews,
    CheckpointReader,
    pruned_text,
    take_away,
)
from rltui.services.runs.disk import DiskForecast, DiskMeter, disk_forecast
from rltui.services.runs.experiments import name_if_needed
from rltui.services.runs.observed import refuse_observed
from rltui.services.runs.run_folder import named_step

logger = logging.getLogger(__name__)

POLLS_PER_READING = 6
"""Without a new checkpoint, the disk is measured every so many looks."""


class CheckpointService:
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
        news = self._report_inputs()
        async with self._reading:
            return await asyncio.to_thread(self._reader.report, self._setup.record.name, news)

    def _report_inputs(self) -> CheckpointNews:
        progress = self._observation.progress
        offer = self.offer
        named = named_step(self._setup.framework, self._config.store.files)
        notes = {} if named is None else {named: NAMED}
        if offer is not None and offer.resume_step is not None:
            notes[offer.resume_step] = GOOD
        return CheckpointNews(
            step=progress.progress.step,
            max_steps=progress.max_steps,
            is_alive=any(job.lifecycle.alive for job in self._processes.run_jobs()),
            notes=notes,
        )

    async def plan(self, retention: Retention) -> PrunePlan:
        return prune_plan(await self.report(), retention)

    @property
    def offer(self) -> RollbackOffer | None:
        """The way back where the run has gone bad; `None`: it is well, or there is no such checkpoint."""
        concerns = self._observation.health.concerns
        return next((each.back for each in concerns if damages(each.id) and each.back is not None), None)

    async def remove(self, retention: Retention, only: Collection[int]) -> tuple[PrunePlan, list[Path]]:
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


class DiskWatch:
    """Looks for new checkpoints and at what the disk has left, one look after the other, from the loop; the
    file system is asked in a thread.
    """

    def __init__(self, folder: str, meter: DiskMeter, experiment: str) -> None:
        self._folder = folder
        self._experiment = experiment
        self._meter = meter
        self._newest: int | None = None
        self._polls = 0
        self._reported: DiskForecast = DiskForecast("ok")

    async def poll(self, max_steps: int | None) -> Alert | None:
        """Measure where it is time to. Returns what became worse."""
        try:
            newest = await asyncio.to_thread(self._meter.newest_step)
            due = newest != self._newest or self._polls % POLLS_PER_READING == 0
            self._polls += 1
            self._newest = newest
            if not due:
                return None
            reading = await asyncio.to_thread(self._meter.read)
        except OSError as error:  # the run's folder may be gone, or on a server that is away
            logger.warning("cannot measure %s: %s", self._folder, error.strerror)
            return None
        name = name_if_needed(self._experiment)
        now = disk_forecast(self._folder, reading.free_bytes, reading.checkpoints, max_steps, name)
        alert = self._alert_if_worse(now)
        if alert is None:
            return None
        archive, aside_bytes = await asyncio.to_thread(self._meter.archived)
        if not aside_bytes:
            return alert
        forget = hints.PRUNE_ASIDE(name=name)
        more = f" Restarts have set {size_text(aside_bytes)} aside in {archive}: `{forget}` deletes that."
        return alert.model_copy(update={"text": alert.text + more})

    def _alert_if_worse(self, now: DiskForecast) -> Alert | None:
        before, self._reported = self._reported, now
        if now.severity == "ok" or now.severity == before.severity or before.severity == "error":
            return None
        return Alert(kind="disk", severity=now.severity, title=now.title, text=now.text)
