"""The report of the GPUs that clients see: readings, completed with owners, budgets and verdicts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from rltui.core.api import Orphan
from rltui.core.gpu.history import MemoryHistory, Peaks
from rltui.core.gpu.report import GpuBudget, GpuDevice, GpuHistories, GpuReport, GpuReservation
from rltui.core.gpu.reservations import with_reservations
from rltui.core.hosts import SlurmSpec
from rltui.core.interpreter import bare_command
from rltui.core.states import ComponentState
from rltui.core.text import duration
from rltui.daemon.component import ComponentRunner
from rltui.daemon.forecast import MemoryForecast
from rltui.errors import RltuiError
from rltui.services import slurm
from rltui.services.gpu.accounting import GpuOwners, Holders, LivingComponent
from rltui.services.gpu.memory_plan import read_peaks, write_peaks
from rltui.services.gpu.other_hosts import GpuCommand, GpuSources
from rltui.services.gpu.sampling import GpuReadings, GpuSampler
from rltui.services.nodes import gpu_command

_logger = logging.getLogger(__name__)

_RECENT = 60
"""Values in the sparkline of a device."""
_NOTABLE_GROWTH = 1.01
"""A peak is written to disk when it has grown by this factor since."""
_OTHERS = "others"
"""Label, in a history, of memory that does not belong to a component of this experiment."""


class GpuAccount:
    """Completes readings with owners, peaks, budgets and verdicts. Lives on the supervisor's loop."""

    def __init__(
        self,
        experiment: str,
        runners: Mapping[str, ComponentRunner],
        forecast: MemoryForecast,
        reservations: Callable[[], Collection[GpuReservation]],
    ) -> None:
        """`reservations` returns the reservations of other experiments."""
        self._runners = runners
        self._reservations = reservations
        self._forecast = forecast
        self._owners = GpuOwners(experiment)
        self._peaks = Peaks()
        self._saved_peaks: dict[tuple[str, int], dict[str, int]] = {}
        """(Component, attempt) → peaks as they are on disk."""
        self._histories: dict[str, MemoryHistory] = {}
        self._recent: dict[str, deque[int]] = {}

    def report(self, reading: GpuReport, orphans: Sequence[Orphan], *, interval_s: float) -> GpuReport:
        """The reading with owners, peaks, recent use, budgets and verdicts."""
        living = [
            item for runner in self._runners.values() if (item := _living_component(runner)) is not None
        ]
        holders = self._owners.holders(reading.devices, living, orphans)
        for item in living:
            if (item.component, item.attempt) not in self._saved_peaks:
                attempt = self._runners[item.component].newest_attempt
                peaks = read_peaks(attempt.folder) if attempt is not None else {}
                self._saved_peaks[item.component, item.attempt] = peaks
                self._peaks.start(item.component, item.attempt, peaks)
        budgets = self._forecast.budgets()
        sampled_at = reading.sampled_at or 0.0
        devices = tuple(
            self._device(device, holders[device.key], budgets.get(device.key, ()), sampled_at)
            for device in reading.devices
        )
        self._write_peaks()
        report = reading.model_copy(update={"devices": devices, "interval_s": interval_s})
        report = with_reservations(report, self._reservations()) if devices else report
        verdicts = self._forecast.of_idle_engines(report.devices)
        return report.model_copy(update={"verdicts": verdicts})

    def histories(self) -> GpuHistories:
        return GpuHistories(histories=tuple(history.history(key) for key, history in self._histories.items()))

    def _device(
        self, device: GpuDevice, holders: Holders, budgets: tuple[GpuBudget, ...], sampled_at: float
    ) -> GpuDevice:
        processes, shares, recent = holders.processes, holders.shares, device.recent
        if device.used_bytes is not None and device.total_bytes is not None:
            shares = self._peaks.with_peaks(device.key, shares)
            sizes: dict[str, int] = {}
            for share in shares:
                label = (share.component if share.owner == "component" else None) or _OTHERS
                sizes[label] = sizes.get(label, 0) + share.used_bytes
            self._histories.setdefault(device.key, MemoryHistory()).add(sampled_at, sizes)
            percents = self._recent.setdefault(device.key, deque(maxlen=_RECENT))
            percents.append(round(100 * device.used_bytes / max(1, device.total_bytes)))
            recent = tuple(percents)
        return device.model_copy(
            update={"processes": processes, "shares": shares, "recent": recent, "budgets": budgets}
        )

    def _write_peaks(self) -> None:
        for (component, attempt), saved in self._saved_peaks.items():
            runner = self._runners[component]
            peaks = self._peaks.peaks_of(component)
            has_grown = any(size > _NOTABLE_GROWTH * saved.get(key, 0) for key, size in peaks.items())
            if runner.newest_attempt is None or runner.attempt != attempt or not has_grown:
                continue
            try:
                write_peaks(runner.newest_attempt.folder, peaks)
            except RltuiError as error:  # a full disk: the next growth tries again
                _logger.warning("%s", error)
            self._saved_peaks[component, attempt] = dict(peaks)


def _living_component(runner: ComponentRunner) -> LivingComponent | None:
    """The component as `GpuOwners` needs it; `None` where it does not live.

    All its processes descend from the shim, which inherits orphans, or from the main process.
    """
    launch, record = runner.launch, runner.record
    if not runner.lifecycle.alive or launch is None or record is None or runner.attempt is None:
        return None
    return LivingComponent(
        component=runner.spec.id,
        attempt=runner.attempt,
        root_pids=tuple(process.pid for process in (record.shim, record.main) if process is not None),
        is_starting=runner.lifecycle.state is ComponentState.STARTING,
        started_at=record.started_at,
        choice=launch.gpus,
        utilization=launch.gpu_memory,
    )


_END_WITH_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])
"""
"""A Python program that runs a command which is terminated when the supervisor is killed: `srun` goes on when
nobody reads its output, and its step in the job with it.
"""


def job_sources(runners: Iterable[ComponentRunner], tag: str) -> Iterator[GpuCommand]:
    """Commands that read the GPUs of the nodes of each running SLURM job. `tag`: of the experiment."""
    for runner in runners:
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
        _logger.warning("the GPUs of job %s are not shown: %s", job, error)
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


class GpuWatch:
    """Merges the readings of this machine and of other hosts into one report."""

    def __init__(
        self,
        readings: GpuReadings,
        account: GpuAccount,
        *,
        source_specs: Callable[[], tuple[Sequence[GpuCommand], str | None]],
        job_specs: Callable[[], Sequence[GpuCommand]],
        orphans: Callable[[], Sequence[Orphan]],
        is_watched: Callable[[], bool],
        is_busy: Callable[[], bool],
        publish: Callable[[GpuReport], None],
    ) -> None:
        """`source_specs` also returns why its commands must not be run, and is called again until they may.
        `job_specs` is called again and again: jobs come and go.

        `is_busy`: some component lives. `publish` passes a new report on.
        """
        self._readings = readings
        self._account = account
        self._source_specs = source_specs
        self._sources = GpuSources((), self._sources_changed)
        self._job_specs = job_specs
        self._jobs = GpuSources((), self._sources_changed)
        self._orphans = orphans
        self._is_watched = is_watched
        self._is_busy = is_busy
        self._publish = publish
        self._local = readings.newest
        """The newest report of this machine alone."""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()

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
                if sources is None:
                    specs, problem = self._source_specs()
                    self._sources = GpuSources(specs, self._sources_changed, problem=problem)
                    if not problem:
                        sources = asyncio.create_task(self._sources.run(), name="gpu sources")
                self._jobs.become(self._job_specs())
                read_requested = self._readings.wanted
                with contextlib.suppress(TimeoutError):  # nobody waits for one
                    async with asyncio.timeout(_CHECK_INTERVAL_S):
                        await read_requested.wait()
                    read_requested.clear()
                    sampler.read_now()
                sampler.set_interval(self._interval_s())
                if sampler.stuck_s > _STUCK_S:
                    # once: what was read before stays, and grows old
                    reason = f"{sampler.reader.driver} has not answered for {duration(_STUCK_S)} and more"
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
        """Publish the report of another host together with the last of this one."""
        self._publish_report(self._readings.amend)

    def _interval_s(self) -> float:
        if not self._local.available:
            return _ABSENT_S
        if self._is_watched():
            return _WATCHED_S
        return _UNWATCHED_S if self._is_busy() else _IDLE_S

    def _take_reading(self, reading: GpuReport, interval_s: float) -> None:
        self._local = self._account.report(reading, self._orphans(), interval_s=interval_s)
        self._publish_report(self._readings.take)

    def _publish_report(self, store: Callable[[GpuReport], None]) -> None:
        """Merge this machine and the others; pass the report to `keep` and to the subscribers."""
        report = self._local
        if sources := (*self._sources.sources(), *self._jobs.sources()):
            devices = (*report.devices, *self._sources.devices(), *self._jobs.devices())
            report = report.model_copy(update={"devices": devices, "sources": sources})
        store(report)
        self._publish(report)
