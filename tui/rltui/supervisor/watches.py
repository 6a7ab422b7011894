"""Loops of the supervisor that poll: metrics, logs, config files, checkpoints and disk."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence

from rltui.base.tasks import IdleBackoff, tick
from rltui.core.experiment.api import Alert
from rltui.core.experiment.stalls import WAITING
from rltui.core.experiment.states import ComponentState
from rltui.core.hosts.time_limit import CheckpointTime, lost_at_limit
from rltui.core.metrics.non_finite import NonFinite, non_finite_alerts
from rltui.services.own_files import file_fingerprint
from rltui.services.runs.disk import DiskMeter
from rltui.supervisor.budget import AgentBudget
from rltui.supervisor.runs.checkpoints import DiskWatch
from rltui.supervisor.runs.evals import EvalScheduler
from rltui.supervisor.runtime import Runtime

logger = logging.getLogger(__name__)

_METRICS_INTERVAL_S = 0.5
_HEALTH_INTERVAL_S = 5.0
"""Pause between two checks of the health of a run whose metrics do not grow: a step may fail to come."""
_RECORD_INTERVAL_S = 1.0
_CATCH_UP_PAUSE_S = 0.02
"""Pause between two pieces of a long file, so that nothing else waits."""
_CONFIG_INTERVAL_S = 1.0
_LOGS_INTERVAL_S = 1.0
_CHECKPOINTS_INTERVAL_S = 2.0
_DISK_INTERVAL_S = 5.0
"""Pause between two checks whether a new checkpoint changes the forecast."""


async def follow_metrics(runtime: Runtime) -> None:
    """Publish the status when the metrics file has grown; alert on metrics that are no numbers any more."""
    progress = runtime.observation.progress
    progress.take_non_finite()  # was alerted when it happened; what still holds is alerted again
    progress.take_cancelled_evals()
    if runtime.processes.alive():
        _alert_non_finite(runtime, progress.non_finite_now)
    checked_at, backoff = 0.0, IdleBackoff(_METRICS_INTERVAL_S)
    while True:
        has_grown = progress.poll()
        if has_grown:
            _alert_non_finite(runtime, progress.take_non_finite())
            for env, step, share in progress.take_cancelled_evals():
                text = f"evaluation of step {step} on {env} was cancelled by a newer checkpoint"
                done = f"{100 * (1 - share):.0f} % of its rollouts were finished"
                runtime.events.journal.add("eval", f"{text}; {done}", env=env, cancelled=share)
        if has_grown or time.monotonic() - checked_at >= _HEALTH_INTERVAL_S:
            checked_at = time.monotonic()
            is_changed = refresh_health(runtime)
            if has_grown or is_changed:
                runtime.events.changed("status")
        await backoff.tick(has_found=has_grown)


def _working_since(runtime: Runtime) -> float | None:
    """Start of the newest of the jobs of the run; `None` where not all of them are at work."""
    runners = runtime.processes.run_jobs()
    if not runners or any(runner.lifecycle.state is not ComponentState.READY for runner in runners):
        return None
    return max(runner.record.started_at if runner.record is not None else 0.0 for runner in runners)


def refresh_health(runtime: Runtime) -> bool:
    """Evaluate the health and report what is new; returns whether anything changed."""
    observation, run_metrics = runtime.observation, runtime.observation.progress.concept_metrics
    observation.health.add_activities(observation.activities.values())
    started = _working_since(runtime)
    trainer = runtime.processes.runners.get(observation.progress.component_names.get("trainer", ""))
    waits = trainer is not None and trainer.activity.startswith(WAITING)
    now = None if started is None or waits else time.time()
    is_over = started is None and not runtime.setup.record.observed
    is_changed = observation.health.refresh(run_metrics, now=now, started=started or 0.0, is_over=is_over)
    observation.health.report(run_metrics)
    return is_changed


async def record_metrics(runtime: Runtime) -> None:
    """Write the series of the run to disk; alert once that there is no room for them."""
    recorder = runtime.observation.recorder
    reported_problem: str | None = None
    while True:
        is_behind = await asyncio.to_thread(recorder.poll)
        if recorder.problem is not None and reported_problem is None:
            text = (
                f"{recorder.problem}: metrics are not recorded until there is disk space; the run"
                " itself is unaffected"
            )
            runtime.events.alert(
                Alert(kind="disk", severity="warning", title="cannot save metrics", text=text)
            )
        reported_problem = recorder.problem
        await tick(_CATCH_UP_PAUSE_S if is_behind else _RECORD_INTERVAL_S)


async def follow_logs(runtime: Runtime) -> None:
    """Publish the status when another log is followed, one has grown for a while, or one names a page."""
    observation = runtime.observation
    searched: object = None
    while True:
        if observation.logs.poll():
            runtime.events.changed("status")
        finder, logs = observation.link_finder, observation.present_logs()
        states = {path: file_fingerprint(path) for path in logs.values()}
        if finder.has_more or states != searched:
            observation.add_links(await asyncio.to_thread(finder.poll, logs))
            searched = states
        await tick(_CATCH_UP_PAUSE_S if finder.has_more else _LOGS_INTERVAL_S)


def _alert_non_finite(runtime: Runtime, metrics_now: Iterable[NonFinite]) -> None:
    for alert in non_finite_alerts(metrics_now):
        runtime.events.alert(alert)


async def follow_config(runtime: Runtime) -> None:
    """Publish the knobs when a config file was changed by somebody else."""
    files = runtime.setup.record.config_paths
    previous = list(map(file_fingerprint, files))
    while True:
        await tick(_CONFIG_INTERVAL_S)
        current = list(map(file_fingerprint, files))
        if current != previous:
            previous = current
            runtime.events.changed("knobs")


async def watch_disk(runtime: Runtime) -> None:
    """Alert when the forecast becomes worse while something runs; again after it was well."""
    folder = runtime.observation.folder
    watch = DiskWatch(str(folder.path), DiskMeter(folder), runtime.setup.record.name)
    while True:
        if runtime.processes.alive():
            alert = await watch.poll(runtime.observation.progress.max_steps)
            if alert is not None:
                runtime.events.alert(alert)
        await tick(_DISK_INTERVAL_S)


def _alert_time_limits(
    runtime: Runtime, newest_checkpoints: Sequence[CheckpointTime], warned: set[float]
) -> None:
    """Alert once for each time limit that comes before the next checkpoint, also where the run has become
    slower.
    """
    for name, runner in runtime.processes.runners.items():
        if (job_status := runner.job_status) is None or job_status.phase != "running":
            continue
        ends_at = job_status.ends_at
        if ends_at is None or ends_at in warned or ends_at < time.time():
            continue
        # not over the time in a queue
        recent = [checkpoint for checkpoint in newest_checkpoints if checkpoint.at >= job_status.since]
        max_steps = runtime.observation.progress.max_steps
        if (cost := lost_at_limit(recent, max_steps=max_steps, ends_at=ends_at)) is not None:
            warned.add(ends_at)
            title = f"{name}: its job ends before the next checkpoint"
            alert = Alert(kind="notice", severity="warning", title=title, text=cost, component=name)
            runtime.events.alert(alert)


async def watch_checkpoints(runtime: Runtime, evals: EvalScheduler, budget: AgentBudget) -> None:
    """Journal each checkpoint when it is complete, except those that were there before. Alert where a job
    ends before the next one.
    """
    written_checkpoints: list[CheckpointTime] = []
    warned: set[float] = set()
    folder, journal = runtime.observation.folder, runtime.events.journal
    previous = frozenset(await asyncio.to_thread(folder.checkpoint_folders))
    was_growing = False
    while True:
        await tick(_CHECKPOINTS_INTERVAL_S)
        is_growing = bool(runtime.processes.alive()) or runtime.setup.record.observed
        if is_growing or was_growing:  # the last one may have come as everything ended
            checkpoints = frozenset(await asyncio.to_thread(folder.checkpoint_folders))
            for step in sorted(checkpoints - previous):
                journal.add("checkpoint", f"checkpoint {step} is complete", step=step)
                await evals.checkpoint(step)
                await budget.checkpoint()
                written_checkpoints.append(CheckpointTime(step, time.time()))
            previous = checkpoints
        if len(written_checkpoints) > 1:
            _alert_time_limits(runtime, written_checkpoints[-2:], warned)
        was_growing = is_growing
