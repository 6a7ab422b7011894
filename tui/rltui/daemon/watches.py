"""Loops that look at the world: metrics, logs, config files, disk, leftovers and GPUs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from rltui.core import metrics
from rltui.core.api import Alert
from rltui.core.gpu.report import GpuReport
from rltui.core.metrics import NonFinite
from rltui.daemon.checkpoints import DiskWatch
from rltui.daemon.gpu import GpuWatch
from rltui.daemon.supervisor import Supervisor
from rltui.services.runs.disk import DiskMeter

logger = logging.getLogger(__name__)

_METRICS_INTERVAL_S = 0.5
_CATCH_UP_PAUSE_S = 0.02
"""Between two pieces of a long file, so that nothing else waits."""
_CONFIG_INTERVAL_S = 1.0
_LOGS_INTERVAL_S = 1.0
_DISK_INTERVAL_S = 5.0
"""How often a new checkpoint is looked for."""


async def follow_metrics(supervisor: Supervisor) -> None:
    """Publish the status when the metrics file has grown; tell of metrics that are no numbers any more."""
    progress = supervisor.observation.progress
    progress.take_non_finite()  # has been told when it happened; what still holds is told again
    if supervisor.processes.alive():
        _tell(supervisor, progress.non_finite_now)
    told: frozenset[str] = frozenset()
    while True:
        if progress.poll():
            supervisor.events.changed("status")
            _tell(supervisor, progress.take_non_finite())
            concerns = progress.series.progress(None).concerns
            for concern in concerns:
                if concern.word not in told:
                    supervisor.events.alert(
                        Alert(kind="notice", severity="warning", title=concern.word, text=concern.text)
                    )
            told = frozenset(concern.word for concern in concerns)
        await asyncio.sleep(_METRICS_INTERVAL_S)


async def record_metrics(supervisor: Supervisor) -> None:
    """Keep the series of the run on disk; tell once that there is no room for them."""
    recorder = supervisor.observation.recorder
    told: str | None = None
    while True:
        is_behind = await asyncio.to_thread(recorder.poll)
        if recorder.problem is not None and told is None:
            text = f"{recorder.problem}: the curves wait for room on the disk; the run itself goes on"
            supervisor.events.alert(
                Alert(kind="disk", severity="warning", title="metrics cannot be kept", text=text)
            )
        told = recorder.problem
        await asyncio.sleep(_CATCH_UP_PAUSE_S if is_behind else _METRICS_INTERVAL_S)


async def follow_logs(supervisor: Supervisor) -> None:
    """Publish the status when another log file is followed, or one has grown for a while."""
    while True:
        if supervisor.observation.logs.look():
            supervisor.events.changed("status")
        await asyncio.sleep(_LOGS_INTERVAL_S)


def _tell(supervisor: Supervisor, found: Iterable[NonFinite]) -> None:
    for alert in metrics.non_finite_alerts(found):
        supervisor.events.alert(alert)


async def follow_config(supervisor: Supervisor) -> None:
    """Publish the knobs when a config file was changed by somebody else."""
    seen = _stamps(supervisor)
    while True:
        await asyncio.sleep(_CONFIG_INTERVAL_S)
        stamps = _stamps(supervisor)
        if stamps != seen:
            seen = stamps
            supervisor.events.changed("knobs")


def _stamps(supervisor: Supervisor) -> list[tuple[int, int] | None]:
    stamps: list[tuple[int, int] | None] = []
    for name in supervisor.setup.record.config_files:
        try:
            info = Path(name).stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((info.st_mtime_ns, info.st_ino))
    return stamps


async def watch_gpus(supervisor: Supervisor) -> None:
    """Read the GPUs, and tell what they hold."""

    def publish(report: GpuReport) -> None:
        supervisor.events.publish("gpus", report)
        supervisor.observation.sampler.gpus(report)

    await GpuWatch(
        supervisor.gpu_readings,
        supervisor.gpu_account,
        source_specs=supervisor.config.gpu_sources,
        orphans=lambda: supervisor.processes.orphans.orphans,
        is_watched=lambda: len(supervisor.events.broadcast) > 0,
        is_busy=lambda: bool(supervisor.processes.alive()),
        publish=publish,
    ).run()


async def watch_orphans(supervisor: Supervisor) -> None:
    """Search for leftovers when an attempt has ended, and while there are some."""
    await supervisor.processes.orphans.watch()


async def watch_disk(supervisor: Supervisor) -> None:
    """While something runs, journal new checkpoints, and alert when the forecast becomes worse: it is told
    again after it was well.
    """
    folder, journal = supervisor.observation.folder, supervisor.events.journal
    watch = DiskWatch(
        str(folder.path),
        DiskMeter(folder),
        tell=lambda step: journal.add("checkpoint", f"checkpoint {step} is complete", step=step),
    )
    while True:
        if supervisor.processes.alive():
            alert = await watch.look(supervisor.observation.progress.max_steps)
            if alert is not None:
                supervisor.events.alert(alert)
        await asyncio.sleep(_DISK_INTERVAL_S)
