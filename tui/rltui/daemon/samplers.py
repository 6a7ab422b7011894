"""Loops that look at the world: metrics, logs and config files by the clock, leftovers and GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from rltui.core import metrics
from rltui.core.metrics import NonFinite
from rltui.daemon.gpu import GpuWatch
from rltui.daemon.run_news import concern_alert
from rltui.daemon.supervisor import Supervisor

METRICS_INTERVAL_S = 0.5
CONFIG_INTERVAL_S = 1.0
LOGS_INTERVAL_S = 1.0


async def follow_metrics(supervisor: Supervisor) -> None:
    """Publish the status when the metrics file has grown; tell of metrics that are no numbers any more."""
    progress = supervisor.progress
    progress.take_non_finite()  # has been told when it happened; what still holds is told again
    if any(runner.life.alive for runner in supervisor.runners.values()):
        _tell(supervisor, progress.non_finite_now)
    told: frozenset[str] = frozenset()
    while True:
        if progress.poll():
            supervisor.publish_status()
            _tell(supervisor, progress.take_non_finite())
            concerns = progress.series.progress(None).concerns
            for concern in concerns:
                if concern.word not in told:
                    supervisor.teller.alert(concern_alert(concern))
            told = frozenset(concern.word for concern in concerns)
        await asyncio.sleep(METRICS_INTERVAL_S)


async def follow_logs(supervisor: Supervisor) -> None:
    """Publish the status when another log file is followed, or one has grown for a while."""
    while True:
        if supervisor.logs.look():
            supervisor.publish_status()
        await asyncio.sleep(LOGS_INTERVAL_S)


def _tell(supervisor: Supervisor, found: Iterable[NonFinite]) -> None:
    for alert in metrics.non_finite_alerts(found):
        supervisor.teller.alert(alert)


async def follow_config(supervisor: Supervisor) -> None:
    """Publish the knobs when a config file was changed by somebody else."""
    seen = _stamps(supervisor)
    while True:
        await asyncio.sleep(CONFIG_INTERVAL_S)
        stamps = _stamps(supervisor)
        if stamps != seen:
            seen = stamps
            supervisor.config.publish()


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


async def watch_gpus(supervisor: Supervisor) -> None:
    """Read the GPUs, and tell what they hold."""
    await GpuWatch(
        supervisor.gpu_readings,
        supervisor.gpu_picture,
        source_specs=supervisor.config.gpu_sources,
        orphans=lambda: supervisor.orphans.orphans,
        is_watched=lambda: len(supervisor.teller.broadcast) > 0,
        is_busy=lambda: any(runner.life.alive for runner in supervisor.runners.values()),
        publish=supervisor.publish_gpus,
    ).run()


async def watch_orphans(supervisor: Supervisor) -> None:
    """Search for leftovers when an attempt has ended, and while there are some."""
    await supervisor.orphans.watch()
