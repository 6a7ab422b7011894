"""Reads the GPUs of this machine and of other hosts by the clock, and publishes them as one report."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from rltui.base.tasks import next_tick
from rltui.base.text import duration
from rltui.core.gpu.report import GpuReport
from rltui.services.gpu.other_hosts import GpuCommand, GpuSources
from rltui.services.gpu.sampling import GpuSampler
from rltui.supervisor.runtime import Runtime

_WATCHED_S = 1.0
_UNWATCHED_S = 5.0
"""Interval while components live and no client watches: short enough to see most of a trainer's peak."""
_IDLE_S = 10.0
_ABSENT_S = 30.0
"""Interval where there is no GPU: a driver may be loaded later."""
_CHECK_INTERVAL_S = 1.0
"""Pause between two checks of the interval, and whether the driver still answers."""
_STUCK_S = 10.0
"""A reading that takes this long has met a driver that hangs."""


def _job_commands(runtime: Runtime) -> tuple[GpuCommand, ...]:
    """Commands that read the GPUs of each job that runs."""
    return tuple(
        command
        for runner in runtime.processes.runners.values()
        if runner.lifecycle.alive and runner.handle is not None
        for command in runner.handle.gpu_commands
    )


async def watch_gpus(runtime: Runtime) -> None:
    await _GpuWatch(runtime).run()


class _GpuWatch:
    """Merges the readings of this machine and of other hosts into one report."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._readings = runtime.gpu_readings
        self._sources = GpuSources((), self._sources_changed)
        self._jobs = GpuSources((), self._sources_changed)
        self._local = self._readings.newest
        """The newest report of this machine alone."""

    async def run(self) -> None:
        loop, runtime = asyncio.get_running_loop(), self._runtime

        def take(reading: GpuReport, interval_s: float) -> None:
            """Called in the sampler's thread."""
            loop.call_soon_threadsafe(self._take_reading, reading, interval_s)

        sampler = GpuSampler(take)
        sampler.set_interval(self._interval_s())
        sampler.start()
        sources: asyncio.Task[None] | None = None
        jobs = asyncio.create_task(self._jobs.run(), name="gpu sources of jobs")
        try:
            while True:
                if sources is None:  # asked again until its commands may be run
                    specs, problem = runtime.config.gpu_sources()
                    self._sources = GpuSources(specs, self._sources_changed, problem=problem)
                    if not problem:
                        sources = asyncio.create_task(self._sources.run(), name="gpu sources")
                self._jobs.become(_job_commands(runtime))
                read_requested = self._readings.wanted
                with contextlib.suppress(TimeoutError):  # nobody waits for one
                    async with asyncio.timeout_at(next_tick(_CHECK_INTERVAL_S)):
                        await read_requested.wait()
                    read_requested.clear()
                    sampler.read_now()
                sampler.set_interval(self._interval_s())
                if sampler.stuck_s > _STUCK_S:
                    # once: what was read before stays, and grows old
                    reason = f"{sampler.reader.driver} has not responded for more than {duration(_STUCK_S)}"
                    if self._local.reason != reason:
                        self._local = self._local.replace(reason=reason)
                        self._publish_report(self._readings.amend)
        finally:
            sampler.close()
            tasks = [jobs] if sources is None else [jobs, sources]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _sources_changed(self) -> None:
        self._publish_report(self._readings.amend)

    def _interval_s(self) -> float:
        if not self._local.available:
            return _ABSENT_S
        if len(self._runtime.events.broadcast):
            return _WATCHED_S
        return _UNWATCHED_S if self._runtime.processes.alive() else _IDLE_S

    def _take_reading(self, reading: GpuReport, interval_s: float) -> None:
        orphans = self._runtime.processes.orphans.orphans
        self._local = self._runtime.gpu_account.report(reading, orphans, interval_s=interval_s)
        self._publish_report(self._readings.take)

    def _publish_report(self, store: Callable[[GpuReport], None]) -> None:
        """Merge this machine and the others; pass the report to `store` and to the subscribers."""
        report = self._local
        if sources := (*self._sources.sources(), *self._jobs.sources()):
            devices = (*report.devices, *self._sources.devices(), *self._jobs.devices())
            report = report.replace(devices=devices, sources=sources)
        store(report)
        self._runtime.events.publish("gpus", report)
        self._runtime.observation.sampler.gpus(report)
