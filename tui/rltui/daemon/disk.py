"""Tell in time that the disk will not hold the checkpoints to come."""

from __future__ import annotations

import asyncio
import logging

from rltui.core.api import Alert
from rltui.daemon.supervisor import Supervisor
from rltui.services.runs.disk import DiskForecast, DiskMeter, disk_forecast, size_text

logger = logging.getLogger(__name__)

LOOK_INTERVAL_S = 5.0
"""How often a new checkpoint is looked for."""
LOOKS_PER_READING = 6
"""Without a new checkpoint, the disk is measured every so many looks."""


async def watch_disk(supervisor: Supervisor) -> None:
    """While something runs, alert when the forecast becomes worse. It is told again after it was well."""
    meter = DiskMeter(supervisor.folder)
    watch = DiskWatch(str(supervisor.folder.path), meter)
    while True:
        if any(runner.life.alive for runner in supervisor.runners.values()):
            alert = await watch.look(supervisor.progress.max_steps)
            if alert is not None:
                supervisor.teller.alert(alert)
        await asyncio.sleep(LOOK_INTERVAL_S)


class DiskWatch:
    """One look after the other, from the loop; the file system is asked in a thread."""

    def __init__(self, folder: str, meter: DiskMeter) -> None:
        self._folder = folder
        self._meter = meter
        self._newest: int | None = None
        self._looks = 0
        self._told: DiskForecast = DiskForecast("ok")

    async def look(self, max_steps: int | None) -> Alert | None:
        """Measure where it is time to. Returns what became worse."""
        try:
            newest = await asyncio.to_thread(self._meter.newest_step)
            due = newest != self._newest or self._looks % LOOKS_PER_READING == 0
            self._looks += 1
            self._newest = newest
            if not due:
                return None
            reading = await asyncio.to_thread(self._meter.read)
        except OSError as error:  # the run's folder may be gone, or on a server that is away
            logger.warning("cannot measure %s: %s", self._folder, error.strerror)
            return None
        now = disk_forecast(self._folder, reading.free_bytes, reading.checkpoints, max_steps)
        alert = self._judge(now)
        if alert is None:
            return None
        archive, aside_bytes = await asyncio.to_thread(self._meter.archived)
        if not aside_bytes:
            return alert
        more = f" Restarts have set {size_text(aside_bytes)} aside in {archive}: remove what you do not need."
        return alert.model_copy(update={"text": alert.text + more})

    def _judge(self, now: DiskForecast) -> Alert | None:
        before, self._told = self._told, now
        if now.severity == "ok" or now.severity == before.severity or before.severity == "error":
            return None
        return Alert(kind="disk", severity=now.severity, title=now.title, text=now.text)
