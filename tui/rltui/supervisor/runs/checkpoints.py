"""The checkpoints of the run, reported and pruned on request, and the forecast of its disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path

from rltui.base.text import size_text
from rltui.core import hints
from rltui.core.experiment.api import Alert, RollbackOffer
from rltui.core.metrics.health.findings import RULES
from rltui.core.runs.checkpoints import GOOD, NAMED, CheckpointReport, PrunePlan, Retention, prune_plan
from rltui.services.experiment.registry import name_if_needed
from rltui.services.runs.checkpoints import (
    CheckpointContext,
    CheckpointReader,
    pruned_text,
    take_away,
)
from rltui.services.runs.disk import DiskForecast, DiskMeter, disk_forecast
from rltui.services.runs.observed import refuse_observed
from rltui.services.runs.resume import named_step
from rltui.supervisor.runtime import Runtime

logger = logging.getLogger(__name__)

POLLS_PER_READING = 6
"""Number of polls without a new checkpoint between two readings of the disk."""


class CheckpointService:
    def __init__(self, runtime: Runtime) -> None:
        self._setup = setup = runtime.setup
        self._config = runtime.config
        self._observation = observation = runtime.observation
        self._processes = runtime.processes
        self._events = runtime.events
        self._reader = CheckpointReader(observation.folder, setup.control, setup.run_jobs)
        self._reading = asyncio.Lock()

    async def report(self) -> CheckpointReport:
        """All checkpoints that lie there now. Requests at the same time wait for each other: sizes are
        cached.
        """
        inputs = self._report_inputs()
        async with self._reading:
            return await asyncio.to_thread(self._reader.report, self._setup.record.name, inputs)

    def _report_inputs(self) -> CheckpointContext:
        progress = self._observation.progress
        offer = self.offer
        named_checkpoint = named_step(self._setup.framework, self._config.document.files)
        notes = {} if named_checkpoint is None else {named_checkpoint: NAMED}
        if offer is not None and offer.resume_step is not None:
            notes[offer.resume_step] = GOOD
        return CheckpointContext(
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
        backs = (issue.back for issue in concerns if RULES[issue.id].damages)
        return next(filter(None, backs), None)

    async def remove(self, retention: Retention, only: Collection[int]) -> tuple[PrunePlan, list[Path]]:
        """Set aside the checkpoints that `retention` leaves over, if their step is among `only`.

        Returns the plan, and the folders that are to be deleted. The caller makes sure that nobody decides
        meanwhile where the run goes on.

        Raises:
            UsageError: if somebody else runs the experiment.
            RltuiError: if one cannot be moved.
        """
        refuse_observed(self._setup.record)
        plan = prune_plan(await self.report(), retention, only)
        folders = await asyncio.to_thread(take_away, self._observation.folder, plan)
        if not plan.is_empty:
            self._events.journal.add("prune", pruned_text(plan))
        return plan.replace(done=True), folders


class DiskWatch:
    """Measures the disk for new checkpoints and free space. Calls must not overlap; the file system is asked
    in a thread.
    """

    def __init__(self, folder: str, meter: DiskMeter, experiment: str) -> None:
        self._folder = folder
        self._experiment = experiment
        self._meter = meter
        self._newest: int | None = None
        self._polls = 0
        self._reported: DiskForecast = DiskForecast("ok")

    async def poll(self, max_steps: int | None) -> Alert | None:
        """Measure where it is time to. Returns an alert where the forecast became worse."""
        try:
            newest = await asyncio.to_thread(self._meter.newest_step)
            is_due = newest != self._newest or self._polls % POLLS_PER_READING == 0
            self._polls += 1
            self._newest = newest
            if not is_due:
                return None
            reading = await asyncio.to_thread(self._meter.read)
        except OSError as error:  # the run's folder may be gone, or on a server that is away
            logger.warning("cannot measure %s: %s", self._folder, error.strerror)
            return None
        name = name_if_needed(self._experiment)
        forecast = disk_forecast(self._folder, reading, max_steps, name)
        alert = self._alert_if_worse(forecast)
        if alert is None:
            return None
        archive, aside_bytes = await asyncio.to_thread(self._meter.archived)
        if not aside_bytes:
            return alert
        command = hints.PRUNE_ASIDE(name=name)
        hint_text = (
            f" Restarts have set {size_text(aside_bytes)} aside in {archive}: `{command}` deletes them."
        )
        return alert.replace(text=alert.text + hint_text)

    def _alert_if_worse(self, forecast: DiskForecast) -> Alert | None:
        previous, self._reported = self._reported, forecast
        if (
            forecast.severity == "ok"
            or forecast.severity == previous.severity
            or previous.severity == "error"
        ):
            return None
        return Alert(kind="disk", severity=forecast.severity, title=forecast.title, text=forecast.text)
