"""Watches living components for signs of life; reports when one falls silent, and writes down its stacks.

Also watches starts that will never be ready: the output names a fatal error, or has ended, while the process
lives. vLLM 0.32 does so: where its engine is killed while the model loads, the API server stays and is never
ready.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rltui.base.tasks import spawn, tick
from rltui.base.text import duration
from rltui.core.experiment.layout import ComponentSpec
from rltui.core.experiment.stalls import (
    WAITING,
    Heartbeat,
    LivenessSignals,
    StallRule,
    StartPhases,
    WatchClock,
    phase_of,
    step_of,
)
from rltui.core.experiment.states import ComponentState
from rltui.core.logs.failure_cause import FailurePattern, find_cause
from rltui.core.metrics.engine import InferenceActivity, parse_activity
from rltui.frameworks.start_phases import start_phases
from rltui.services.experiment.attempt_end import last_lines
from rltui.services.experiment.probes import read_exposition
from rltui.services.processes import ProcessId, is_alive
from rltui.services.processes.identity import descendants, read_stat
from rltui.services.processes.stack_dump import dump_stacks
from rltui.services.redaction import without_secrets
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.events import EventBus
from rltui.supervisor.observation import Observation
from rltui.supervisor.runtime import Runtime

logger = logging.getLogger(__name__)

_POLL_INTERVAL_S = 2.0
_ACTIVITY_INTERVAL_UNWATCHED_S = 10.0
"""Pause between two requests to a server while no client watches; else every poll asks it."""
_CHILDREN_INTERVAL_S = 10.0
"""Pause between two scans of the processes of an inference server: its engine is one of them."""
_REPORT_INTERVAL_S = 10.0
"""Interval at which the durations in the evidence are brought up to date."""
_MAX_UNANSWERED = 3
"""The last activity of a server is shown until so many requests were not answered."""
_JOURNAL_LINES = 40
"""Lines of the stacks that are journaled; the file has all."""
_START_INTERVAL_S = 3.0
"""Pause between two polls of the components that are starting."""


async def watch_stalls(runtime: Runtime) -> None:
    watch = StallWatch(runtime)
    while True:
        watch.poll(time.monotonic())
        await tick(_POLL_INTERVAL_S)


class StallWatch:
    """The heartbeats of all components. No method waits."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._clock = WatchClock()
        self._watches: dict[str, _ComponentWatch] = {}

    def poll(self, monotonic_s: float) -> None:
        """Poll each component that is ready and within reach; the others are forgotten."""
        now = self._clock.read(monotonic_s)
        for name, runner in self._runtime.processes.runners.items():
            watched = self._watches.get(name)
            if watched is not None and not watched.is_of(runner):
                watched = self._watches.pop(name)
                watched.is_over = True
                if watched.activity is not None:
                    self._runtime.observation.set_activity(name, None)
                watched = None
            if not _can_be_watched(runner):
                continue
            if watched is None:
                watched = self._watches[name] = _ComponentWatch(runner, self._runtime, self._clock)
            watched.poll(now)


class _ComponentWatch:
    def __init__(self, runner: ComponentRunner, runtime: Runtime, clock: WatchClock) -> None:
        self._runner = runner
        self._processes = runtime.processes
        self._observation = runtime.observation
        self._metrics = runtime.setup.framework.engine.metrics
        self._events = runtime.events
        self._clock = clock
        self._epoch = runner.lifecycle.epoch
        self._name = runner.spec.id
        self._url = runner.launch.metrics if runner.launch is not None else None
        self._heartbeat = Heartbeat(rule_of(runner.spec))
        self._evidence: str | None = None
        self._reported_at = 0.0
        """When the evidence was last reported."""
        self._requested_at: float | None = None
        self._is_requesting = False
        self._unanswered = 0
        self._children_at = -_CHILDREN_INTERVAL_S
        self._stopped_child: ProcessId | None = None
        self.activity: InferenceActivity | None = None
        """The activity as last shown."""
        self.is_over = False

    def is_of(self, runner: ComponentRunner) -> bool:
        """True if `runner` is still in the same start, ready, and within reach."""
        return runner.lifecycle.epoch == self._epoch and _can_be_watched(runner)

    def poll(self, now: float) -> None:
        pause = 0.0 if len(self._events.broadcast) else _ACTIVITY_INTERVAL_UNWATCHED_S
        is_due = self._requested_at is None or now - self._requested_at >= pause
        if self._url is not None and is_due and not self._is_requesting:
            self._requested_at, self._is_requesting = now, True
            spawn(self._read_activity(self._url), f"dump the stacks of {self._name}")
        signals = _liveness_signals(self._runner, self._observation)
        if self._url is not None and not signals.is_stopped:
            if now - self._children_at >= _CHILDREN_INTERVAL_S or self._stopped_child is not None:
                self._children_at, self._stopped_child = now, _stopped_child(signals.pid)
            if self._stopped_child is not None:
                signals = replace(signals, pid=self._stopped_child.pid, is_stopped=True)
        previous, self._evidence = self._evidence, self._heartbeat.observe(signals, now)
        if self._runner.activity.startswith(WAITING) and not signals.is_stopped:
            self._evidence = None
        if (previous is None) != (self._evidence is None):
            self._processes.set_stall(self._name, self._evidence)
            self._reported_at = now
            handle = self._runner.handle
            if self._evidence is None or not self._runner.spec.stall.dump or handle is None:
                return
            if (main := handle.main) is not None and is_alive(main):
                attempt = handle.attempt
                spawn(
                    _write_stacks(self._events, self._name, attempt.number, main, attempt.folder),
                    f"stacks of {self._name}",
                )
        elif self._evidence is not None and now - self._reported_at >= _REPORT_INTERVAL_S:
            self._processes.set_stall(self._name, self._evidence)
            self._reported_at = now

    async def _read_activity(self, url: str) -> None:
        try:
            text = await read_exposition(url)
        finally:
            self._is_requesting = False
        if self.is_over:
            return
        answer = None
        if text is not None:
            answer = parse_activity(text, self._metrics)
            self._observation.sampler.engine(self._name, text)
        self._heartbeat.answered(answer, self._clock.read(time.monotonic()))
        self._unanswered = 0 if answer is not None else self._unanswered + 1
        activity = answer if answer is not None or self._unanswered >= _MAX_UNANSWERED else self.activity
        if activity != self.activity:
            self.activity = activity
            self._observation.set_activity(self._name, activity)


def rule_of(spec: ComponentSpec) -> StallRule:
    """The stall rule of a component.

    A service without metrics may be silent because no client calls it: its output alone is no evidence,
    unless its own layout entry sets `silence_s`. Nor is that of a terminal, which waits for a person.
    """
    return StallRule(
        silence_s=0.0 if spec.tty else spec.stall.silence_s,
        factor=spec.stall.factor,
        output_suffices=spec.kind == "job" or "silence_s" in spec.stall.model_fields_set,
    )


def _can_be_watched(runner: ComponentRunner) -> bool:
    """True if it is ready, and its host, if it has one, answers: otherwise its silence is no evidence."""
    job_status = runner.job_status
    return runner.lifecycle.state is ComponentState.READY and (
        job_status is None or job_status.lost_at is None
    )


def _liveness_signals(runner: ComponentRunner, observation: Observation) -> LivenessSignals:
    main = runner.main
    stat = read_stat(main.pid) if main is not None else None
    rows = observation.progress.rows(runner.spec.id)
    return LivenessSignals(
        pid=main.pid if main is not None else None,
        is_stopped=stat is not None and stat.id == main and stat.state == "T",
        log_bytes=_log_size(runner.log),
        metric_rows=rows[0] if rows is not None else None,
        metric_step=rows[1] if rows is not None else 0,
        beat=observation.folder.beat(runner.spec.id),
    )


def _stopped_child(pid: int | None) -> ProcessId | None:
    """A process below `pid` that a signal has stopped: an engine so frozen, behind a server that answers."""
    for process in () if pid is None else descendants(pid):
        stat = read_stat(process.pid)
        if stat is not None and stat.id == process and stat.state == "T":
            return process
    return None


def _log_size(log: Path | None) -> int | None:
    try:
        return os.stat(log).st_size if log is not None else None  # noqa: PTH116 - one system call a poll
    except OSError:
        return None


async def _write_stacks(
    events: EventBus, component: str, attempt: int | None, root: ProcessId, folder: Path
) -> None:
    """Write the stacks into the attempt's folder, and their beginning into the journal. Nothing where py-spy
    is not installed.
    """
    stacks = await dump_stacks(root)
    if stacks is None:
        return
    file = folder / f"stall-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.txt"
    text = f"stacks of {component}: {file}"
    try:
        await asyncio.to_thread(file.write_text, stacks, encoding="utf-8")
    except OSError as error:
        logger.error("cannot write %s: %s", file, error.strerror)
        text = f"stacks of {component} ({file} cannot be written: {error.strerror})"
    lines = stacks.splitlines()[:_JOURNAL_LINES]
    events.journal.add(
        "stall", text, component=component, attempt=attempt, dump=str(file), stacks="\n".join(lines)
    )


async def watch_starts(runtime: Runtime) -> None:
    phases = start_phases(runtime.setup.framework.engine)
    watches: dict[str, _StartWatch] = {}
    ready_phases = runtime.setup.framework.progress.phases
    activities = {name: _ActivityWatch(own) for name, own in ready_phases.items()}
    while True:
        for name, runner in runtime.processes.runners.items():
            if name in activities and await activities[name].poll(runner):
                runtime.events.changed("status")
            if runner.spec.creates and runner.lifecycle.alive and runner.log is not None:
                step = step_of(await asyncio.to_thread(last_lines, runner.log))
                if step != runner.step:
                    runner.step = step
                    runtime.events.changed("status")
            if runner.lifecycle.state is not ComponentState.STARTING:
                if watches.pop(name, None) and runner.lifecycle.state is ComponentState.READY:
                    runtime.processes.set_stall(name, None)
                continue
            watch = watches.get(name)
            if watch is None or watch.epoch != runner.lifecycle.epoch:
                watch = watches[name] = _StartWatch(runner, phases)
            phase, evidence = runner.phase, await watch.poll(runtime.processes.failure_patterns)
            if watch.epoch == runner.lifecycle.epoch and runner.lifecycle.state is ComponentState.STARTING:
                runtime.processes.set_stall(name, evidence)
                if runner.phase != phase:
                    runtime.events.changed("status")
        await asyncio.sleep(_START_INTERVAL_S)


class _ActivityWatch:
    """Reads from the output of a component that is ready what it does."""

    def __init__(self, phases: StartPhases) -> None:
        self._phases = phases
        self._seen: tuple[int, int | None] | None = None
        """Epoch and size of the log at the last look."""

    async def poll(self, runner: ComponentRunner) -> bool:
        """Set its activity; returns whether that changed."""
        log, epoch = runner.log, runner.lifecycle.epoch
        seen = epoch, _log_size(log)
        if log is None or runner.lifecycle.state is not ComponentState.READY or seen == self._seen:
            return False
        self._seen = seen
        activity = phase_of(await asyncio.to_thread(last_lines, log), self._phases)
        if activity in (None, runner.activity) or runner.lifecycle.epoch != epoch:
            return False
        runner.activity = activity or ""
        return True


class _StartWatch:
    def __init__(self, runner: ComponentRunner, phases: StartPhases) -> None:
        self._phases = phases
        self.epoch = runner.lifecycle.epoch
        self._runner = runner
        self._size: int | None = None
        self._grew_at = time.monotonic()
        self._fatal: str | None = None

    async def poll(self, patterns: Sequence[FailurePattern]) -> str | None:
        """Why it will not be ready, as far as can be seen. Also sets the component's phase."""
        log = self._runner.log
        size = _log_size(log)
        now = time.monotonic()
        if log is not None and size != self._size:
            self._size, self._grew_at = size, now
            lines = await asyncio.to_thread(last_lines, log)
            self._runner.phase = phase_of(lines, self._phases) or self._runner.phase
            cause = find_cause(lines, (pattern for pattern in patterns if not pattern.last_words))
            self._fatal = f"its output: {without_secrets(cause.text)}" if cause is not None else None
        silence_s = self._runner.spec.stall.silence_s
        if self._fatal is None and silence_s and now - self._grew_at > silence_s:
            return f"not ready, and no output for {duration(now - self._grew_at)}"
        return self._fatal
