"""Reads the GPUs of this machine and of other hosts by the clock, and publishes them as one report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from functools import lru_cache

from rltui.core.gpu.report import GpuReport
from rltui.core.hosts import SlurmSpec
from rltui.core.interpreter import bare_command
from rltui.core.text import duration
from rltui.daemon.supervisor import Supervisor
from rltui.services import slurm
from rltui.services.gpu.other_hosts import GpuCommand, GpuSources
from rltui.services.gpu.sampling import GpuSampler
from rltui.services.nodes import gpu_command

logger = logging.getLogger(__name__)

_END_WITH_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""
"""A Python program that runs a command which is terminated when the supervisor is killed: `srun` goes on when
nobody reads its output, and its step in the job with it.
"""


def _job_sources(supervisor: Supervisor) -> Iterator[GpuCommand]:
    """Commands that read the GPUs of the nodes of each running SLURM job."""
    tag = supervisor.setup.record.tag
    for runner in supervisor.processes.runners.values():
        launch, job_status, attempt = runner.launch, runner.remote_attempt.job_status, runner.attempt
        host = launch.host if launch is not None else None
        if host is None or host["kind"] != SlurmSpec.kind or not host.get("gpus"):
            continue  # one that was started before an upgrade has no such key
        if runner.lifecycle.alive and job_status is not None and job_status.nodes and attempt is not None:
            yield from _job_commands(runner.spec.id, attempt, job_status.id, job_status.nodes, tag)


@lru_cache(maxsize=64)  # called again and again while the job runs
def _job_commands(component: str, attempt: int, job: str, nodes: str, tag: str) -> tuple[GpuCommand, ...]:
    """One command for each node. Keyed by the component too: two jobs may share a node, and each sees GPUs of
    its own.
    """
    try:
        names = slurm.node_names(nodes)
    except ValueError as error:
        logger.warning("the GPUs of job %s are not shown: %s", job, error)
        return ()
    commands = []
    for name in names:
        step = slurm.step_argv(job, name, os.environ)
        srun_argv = bare_command("-c", _END_WITH_PARENT, str(os.getpid()), *step)
        command = gpu_command(srun_argv, login=False, tag=tag, of_job=(component, attempt))
        commands.append(GpuCommand(f"{component}/{name}", *command))
    return tuple(commands)


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


async def watch_gpus(supervisor: Supervisor) -> None:
    await _GpuWatch(supervisor).run()


class _GpuWatch:
    """Merges the readings of this machine and of other hosts into one report."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._readings = supervisor.gpu_readings
        self._sources = GpuSources((), self._sources_changed)
        self._jobs = GpuSources((), self._sources_changed)
        self._local = self._readings.newest
        """The newest report of this machine alone."""

    async def run(self) -> None:
        loop, supervisor = asyncio.get_running_loop(), self._supervisor

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
                    specs, problem = supervisor.config.gpu_sources()
                    self._sources = GpuSources(specs, self._sources_changed, problem=problem)
                    if not problem:
                        sources = asyncio.create_task(self._sources.run(), name="gpu sources")
                self._jobs.become(tuple(_job_sources(supervisor)))
                read_requested = self._readings.wanted
                with contextlib.suppress(TimeoutError):  # nobody waits for one
                    async with asyncio.timeout(_CHECK_INTERVAL_S):
                        await read_requested.wait()
                    read_requested.clear()
                    sampler.read_now()
                sampler.set_interval(self._interval_s())
                if sampler.stuck_s > _STUCK_S:
                    # once: what was read before stays, and grows old
                    reason = f"{sampler.reader.driver} has not responded for more than {duration(_STUCK_S)}"
                    if self._local.reason != reason:
                        self._local = self._local.model_copy(update={"reason": reason})
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
        if len(self._supervisor.events.broadcast):
            return _WATCHED_S
        return _UNWATCHED_S if self._supervisor.processes.alive() else _IDLE_S

    def _take_reading(self, reading: GpuReport, interval_s: float) -> None:
        orphans = self._supervisor.processes.orphans.orphans
        self._local = self._supervisor.gpu_account.report(reading, orphans, interval_s=interval_s)
        self._publish_report(self._readings.take)

    def _publish_report(self, store: Callable[[GpuReport], None]) -> None:
        """Merge this machine and the others; pass the report to `store` and to the subscribers."""
        report = self._local
        if sources := (*self._sources.sources(), *self._jobs.sources()):
            devices = (*report.devices, *self._sources.devices(), *self._jobs.devices())
            report = report.model_copy(update={"devices": devices, "sources": sources})
        store(report)
        self._supervisor.events.publish("gpus", report)
        self._supervisor.observation.sampler.gpus(report)
