"""Loops that look at the world: metrics and config files by the clock, GPUs in a thread of their own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rltui.core import non_finite
from rltui.core.gpu.report import GpuReport
from rltui.core.gpu.visible import attribute
from rltui.core.non_finite import NonFinite
from rltui.daemon.supervisor import Supervisor
from rltui.services import processes
from rltui.services.nvml import NvmlReader

METRICS_INTERVAL_S = 0.5
CONFIG_INTERVAL_S = 1.0
GPU_INTERVAL_S = 1.0
GPU_INTERVAL_UNWATCHED_S = 10.0
GPU_INTERVAL_ABSENT_S = 30.0
"""Where there is no GPU: a driver may be loaded later."""


async def follow_metrics(supervisor: Supervisor) -> None:
    """Publish the status when the metrics file has grown; tell of metrics that are no numbers any more."""
    progress = supervisor.progress
    progress.take_non_finite()  # has been told when it happened; what still holds is told again
    if any(runner.life.alive for runner in supervisor.runners.values()):
        _tell(supervisor, progress.non_finite_now)
    while True:
        if progress.poll():
            supervisor.publish_status()
            _tell(supervisor, progress.take_non_finite())
        await asyncio.sleep(METRICS_INTERVAL_S)


def _tell(supervisor: Supervisor, found: Iterable[NonFinite]) -> None:
    for alert in non_finite.alerts(found):
        supervisor.teller.alert(alert)


async def follow_config(supervisor: Supervisor) -> None:
    """Publish the knobs when a config file was changed by somebody else."""
    seen = _stamps(supervisor)
    while True:
        await asyncio.sleep(CONFIG_INTERVAL_S)
        stamps = _stamps(supervisor)
        if stamps != seen:
            seen = stamps
            supervisor.publish_knobs()


def _stamps(supervisor: Supervisor) -> list[tuple[int, int] | None]:
    stamps: list[tuple[int, int] | None] = []
    for name in supervisor.record.config_files:
        try:
            info = Path(name).stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((info.st_mtime_ns, info.st_ino))
    return stamps


async def sample_gpus(supervisor: Supervisor) -> None:
    """Publish a reading per second while somebody looks."""
    reader = NvmlReader()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="nvml") as thread:
        while True:
            report = await loop.run_in_executor(thread, reader.read)
            supervisor.publish_gpus(attribute(report, _owners(supervisor, report)))
            wanted = supervisor.gpu_readings.wanted
            with contextlib.suppress(TimeoutError):  # its turn has come
                async with asyncio.timeout(_gpu_pause(supervisor, available=report.available)):
                    await wanted.wait()
            wanted.clear()


async def watch_orphans(supervisor: Supervisor) -> None:
    """Search for leftovers when an attempt has ended, and while there are some."""
    await supervisor.orphans.watch()


def _gpu_pause(supervisor: Supervisor, *, available: bool) -> float:
    if not available:
        return GPU_INTERVAL_ABSENT_S
    return GPU_INTERVAL_S if len(supervisor.teller.broadcast) else GPU_INTERVAL_UNWATCHED_S


def _owners(supervisor: Supervisor, report: GpuReport) -> dict[int, tuple[str, str]]:
    """Pid → (experiment, component) of the processes on the GPUs, each followed up to a shim of ours.

    From below, since the way down would read all of /proc once per component.
    """
    shims = {pid: name for name, runner in supervisor.runners.items() for pid in runner.root_pids}
    owners: dict[int, tuple[str, str]] = {}
    for pid in {process.pid for device in report.devices for process in device.processes}:
        above = next((shims[parent] for parent in processes.ancestors(pid) if parent in shims), None)
        if above is not None:
            owners[pid] = (supervisor.record.name, above)
    return owners
