"""One component under supervision: held back, started through a shim, probed, watched, stopped, adopted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from rltui.base.tasks import Signal, spawn
from rltui.base.text import duration
from rltui.core.experiment.actor import Actor
from rltui.core.experiment.layout import ComponentSpec, Ready
from rltui.core.experiment.lifecycle import (
    Ended,
    ExitInfo,
    Lifecycle,
    LifecycleEvent,
    MainEnded,
    NotNeeded,
    ProbeSucceeded,
    Spawned,
    StartBlocked,
    StartFailed,
    StartRequested,
    StopRequested,
    Stuck,
    advance,
)
from rltui.core.experiment.states import ComponentState
from rltui.core.logs.failure_cause import FailurePattern
from rltui.errors import RltuiError
from rltui.hosts.attempt import SPAWN_TIMEOUT_S, Attempt
from rltui.hosts.base import Handle
from rltui.hosts.checks import run_check
from rltui.hosts.handles import handle_of
from rltui.services import processes
from rltui.services.actor import requester
from rltui.services.experiment.attempt_end import (
    explained,
    finished_lifecycle,
    host_oom_of,
    prune_attempts,
)
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import Launch
from rltui.services.experiment.probes import Probe
from rltui.services.hosts.job_status import JobStatus
from rltui.services.processes import termination

logger = logging.getLogger(__name__)

_PROBE_INTERVALS_S = (0.1, 1.0)
"""First and longest pause between two readiness probes; each is 1.3 times the one before."""
_PRECONDITION_INTERVALS_S = (0.2, 2.0)
"""First and longest pause between two checks of the preconditions of a start."""
_STOP_MARGIN_S = 15.0
"""Beyond its grace, a shim gets so long to end a tree before the supervisor does it itself."""


class UnmetDependency(NamedTuple):
    """An obstacle on this box that a start waits for."""

    text: str
    """Continues a sentence that begins with "waits for"."""
    code: str
    """A row of `core/experiment/reason_codes.py`."""
    passes: bool = False
    """True if it ends by itself, so that the wait does not count as too long."""


class RunnerHost(Protocol):
    """The environment of a component: `Processes`, or a test's stand-in."""

    record: ExperimentRecord
    failure_patterns: Sequence[FailurePattern]
    changes: Signal
    """Notified when the state of any component has changed."""

    def lifecycle_changed(self, runner: ComponentRunner, previous: Lifecycle) -> None: ...

    def start_blocker(self, component: str) -> tuple[bool, str] | None:
        """Why the start of `component` waits: (whether that can still pass, reason); `None` if nothing is in
        the way.
        """
        ...

    async def wait_for_output_lock(self, component: str, hold: Callable[[str], None]) -> bool:
        """Wait until no other experiment makes the output of this job, calling `hold` with the reason.

        False where the output exists by then.
        """
        ...

    def lock_output(self, component: str) -> str | None:
        """Reserve the output of `component`; returns the experiment that makes it already, where there is
        one.
        """
        ...

    async def unmet_dependency(self, component: str, launch: Launch) -> UnmetDependency | None:
        """The obstacle on this box to a start; `None` where there is none."""
        ...

    async def prepare(self, component: str, attempt_dir: Path) -> Launch:
        """Copy the config into the attempt's folder and fill in the command."""
        ...

    def can_move(self, component: str) -> bool:
        """True if its next start may use another port."""
        ...

    async def open_window(self, component: str, attempt_dir: Path) -> None:
        """Run the shim for `attempt_dir` in the component's tmux window."""
        ...

    def shim_lost(self, runner: ComponentRunner) -> None:
        """Called when the shim was killed and the component goes on."""
        ...

    def job_status_changed(
        self, component: str, previous: JobStatus | None, job_status: JobStatus
    ) -> None: ...


@dataclass(slots=True, eq=False)
class ComponentRunner:
    spec: ComponentSpec
    runner_host: RunnerHost
    lifecycle: Lifecycle = field(init=False)
    handle: Handle | None = None
    """The last attempt, running or not."""
    evidence: str | None = None
    """Why the living component counts as stalled."""
    phase: str | None = None
    """How far its start is, as its output says."""
    activity: str = ""
    """What it does once it is ready, as its output says; empty if that does not tell."""
    step: int | None = None
    """The newest step of a job that prepares the run, as its output says."""
    actor: Actor | None = None
    """Who started it last, or stopped it since; `None`: unknown, or rltui by itself."""
    log_end: int | None = None
    """Size of its log in bytes when it was stopped for not being ready in time; `None` where it was not."""
    stop_margin_s: float = _STOP_MARGIN_S
    _task: asyncio.Task[None] | None = None
    _launching: bool = False
    """True while a shim is being started: the start can no longer be cancelled."""

    def __post_init__(self) -> None:
        self.lifecycle = Lifecycle(kind=self.spec.kind, restart=self.spec.restart)

    # --- requests from outside -----------------------------------------------------------------------------

    def start(self, *, automatic: bool = False) -> None:
        """Begin a start; returns at once. Does nothing where one is under way or the process lives."""
        if self.lifecycle.busy:
            return
        if self.handle is not None and self.handle.survival_reason() is not None:
            previous = self.lifecycle
            self._adopt_running(self.handle)  # never a second one beside it
            self.runner_host.lifecycle_changed(self, previous)
            return
        self.actor = requester() or self.actor
        self._advance(StartRequested(automatic=automatic))
        self._task = spawn(self._start(self.lifecycle.epoch, self._task), f"start {self.spec.id}")

    async def stop(self, *, kill: bool = False, reason: str | None = None) -> bool:
        """End the whole tree. True once nothing of it is left; false where it cannot be ended."""
        self.actor = requester()
        start_task = self._task if self.lifecycle.state is ComponentState.WAITING else None
        self._advance(StopRequested(reason=reason))
        if start_task is not None:
            # one whose shim is on its way ends it by itself, once it is there
            if not self._launching:
                start_task.cancel()
            await asyncio.wait([start_task])
        if not self.lifecycle.alive or self.handle is None:
            return True
        epoch, handle, attempt = self.lifecycle.epoch, self.handle, self.handle.attempt
        grace_s = 0.0 if kill else self.spec.stop.grace_s
        await handle.stop(kill=kill)
        try:
            async with asyncio.timeout(grace_s + self.stop_margin_s + handle.stop_margin_s):
                await self._wait_until_ended()
            return self.lifecycle.state is not ComponentState.FAILED or handle.survival_reason() is None
        except TimeoutError:
            logger.warning("%s did not end in time, ending its tree from here", self.spec.id)
            attempt.refresh()
            was_stop_requested = attempt.record is not None and attempt.record.stop_requested
            survivors = await attempt.end_tree(grace_s=0.0 if was_stop_requested else grace_s)
            if survivors and self.lifecycle.alive:
                reasons = "; ".join(map(processes.survival_reason, survivors))
                self._advance(Stuck(epoch=epoch, reason=f"cannot be ended: {reasons}"))
                return False
            await self._wait_until_ended()
        return True

    def refuse_start(self, reason: str) -> None:
        if not self.lifecycle.busy:
            self._advance(StartRequested(automatic=True))
            self._advance(StartFailed(epoch=self.lifecycle.epoch, reason=reason))

    def give_up(self, reason: str) -> None:
        self._advance(StartFailed(epoch=self.lifecycle.epoch, reason=reason))

    def adopt(self, owners: processes.ProcessOwners, *, failures: tuple[float, ...], was_alive: bool) -> None:
        """Take over the attempt of an earlier supervisor, or learn how it ended.

        `was_alive`: it had a process when that supervisor last wrote, so that its end is news.
        """
        self.lifecycle = replace(self.lifecycle, failures=failures)
        control = self.runner_host.record.control
        numbers = {*control.attempts(self.spec.id), *owners.attempts(control.component_dir(self.spec.id))}
        if not numbers:
            return
        handle = self.handle = self._handle(max(numbers))
        attempt = handle.attempt
        attempt.recover(owners)
        self.actor = attempt.launch.by if attempt.launch is not None else None
        may_live_on = handle.survival_reason() is not None
        if not attempt.has_begun and not was_alive and not may_live_on:
            self._adopt_launch(handle)
        elif attempt.is_running or was_alive or may_live_on:
            self._adopt_running(handle)
        else:  # old news: it was reported when it happened
            lifecycle = finished_lifecycle(
                self.spec, attempt.record, attempt.log, self.runner_host.failure_patterns
            )
            self.lifecycle = replace(lifecycle, restart=self.spec.restart)

    # --- what others ask of it ----------------------------------------------------------------------------

    @property
    def attempt(self) -> int | None:
        """Number of the newest attempt, counted from 1."""
        return self.handle.attempt.number if self.handle is not None else None

    @property
    def log(self) -> Path | None:
        return self.handle.attempt.log if self.handle is not None else None

    @property
    def launch(self) -> Launch | None:
        return self.handle.attempt.launch if self.handle is not None else None

    @property
    def record(self) -> processes.AttemptRecord | None:
        return self.handle.attempt.record if self.handle is not None else None

    @property
    def job_status(self) -> JobStatus | None:
        return self.handle.status if self.handle is not None else None

    @property
    def main(self) -> processes.ProcessId | None:
        return self.handle.main if self.handle is not None else None

    @property
    def pid(self) -> int | None:
        """Pid of the main process, while there is one on this machine."""
        main = self.main
        return main.pid if main is not None and self.lifecycle.alive and self.lifecycle.exit is None else None

    @property
    def is_asked_to_stop(self) -> bool:
        """True if it is stopping, and not because its main process ended by itself."""
        return self.lifecycle.state is ComponentState.STOPPING and self.lifecycle.exit is None

    # --- what its handle asks of it ------------------------------------------------------------------------

    async def open_window(self, attempt: Attempt) -> None:
        self._launching = True
        try:
            await self.runner_host.open_window(self.spec.id, attempt.folder)
            await attempt.wait_for_shim()
        finally:
            self._launching = False

    def shim_lost(self) -> None:
        self.runner_host.shim_lost(self)

    def job_status_changed(self, previous: JobStatus | None, job_status: JobStatus) -> None:
        self.runner_host.job_status_changed(self.spec.id, previous, job_status)

    # --- a start, step by step ----------------------------------------------------------------------------

    async def _start(self, epoch: int, earlier_task: asyncio.Task[None] | None) -> None:
        if earlier_task is not None:  # an abandoned start may still be clearing up behind itself
            await asyncio.wait([earlier_task])
        try:
            if not await self._wait_for_dependencies(epoch):
                return
            if self.spec.creates and not await self.runner_host.wait_for_output_lock(
                self.spec.id, lambda reason: self._advance(StartBlocked(epoch, reason, "waits_for_output"))
            ):
                self._advance(NotNeeded(epoch=epoch, reason="made by another experiment"))
                return
            old_shim = self.handle.attempt.shim if self.handle is not None else None
            control = self.runner_host.record.control
            handle = self.handle = self._handle(control.new_attempt(self.spec.id))
            self.log_end = self.phase = self.step = None
            self.activity = ""
            await asyncio.to_thread(prune_attempts, control, self.spec.id)
            launch = await self.runner_host.prepare(self.spec.id, handle.attempt.folder)
            launch = replace(launch, by=self.actor)
            if self.spec.is_manual and self.actor is not None:  # commands from a shell are its opener's
                launch = replace(launch, env={**launch.env, **self.actor.variables})
            await run_check(launch)
            await self._wait_for_preconditions(epoch, launch)
            if old_shim is not None:  # its leftovers are gone by now: it ends, and frees its window
                await termination.wait_for_exit(old_shim)
            handle.write_spec(launch)
            await self.open_window(handle.attempt)
        except RltuiError as error:
            self._advance(
                StartFailed(
                    epoch,
                    " ".join(str(error).split()),
                    "start_failed" if error.code == "error" else error.code,
                )
            )
            return
        except Exception as error:  # a bug: better reported than waited for
            self._advance(StartFailed(epoch, f"internal error: {error!r}", code="internal"))
            raise
        await self._run_attempt(epoch, handle, launch)

    async def _wait_for_preconditions(self, epoch: int, launch: Launch) -> None:
        """Wait until nothing on the box is in the way of the start.

        Raises:
            RltuiError: if something is for longer than the layout allows.
        """
        deadline = time.monotonic() + self.spec.wait_s
        pause, longest = _PRECONDITION_INTERVALS_S
        while (unmet_dependency := await self.runner_host.unmet_dependency(self.spec.id, launch)) is not None:
            self._advance(StartBlocked(epoch, f"waiting for {unmet_dependency.text}", unmet_dependency.code))
            if unmet_dependency.passes:
                deadline = time.monotonic() + self.spec.wait_s
            if time.monotonic() > deadline:
                waited_text = duration(self.spec.wait_s)
                text, code = unmet_dependency.text, unmet_dependency.code
                raise RltuiError(f"waited {waited_text} for {text}", code=code)
            await asyncio.sleep(pause)
            pause = min(longest, pause * 1.3)

    async def _run_attempt(self, epoch: int, handle: Handle, launch: Launch) -> None:
        """Watch the process that was started, or end it where the start was given up meanwhile."""
        if self.lifecycle.epoch != epoch:
            await handle.stop(kill=True)
            await handle.attempt.wait_for_shim_exit()
            return
        handle.attempt.note_started()
        self._advance(Spawned(epoch=epoch, ready=handle.is_ready, at=time.monotonic()))
        await self._watch(epoch, handle, launch.ready)

    async def _wait_for_dependencies(self, epoch: int) -> bool:
        while blocker := self.runner_host.start_blocker(self.spec.id):
            can_come, reason = blocker
            if not can_come:
                self._advance(StartFailed(epoch, reason, code="dependency_failed"))
                return False
            self._advance(StartBlocked(epoch, f"waiting for {reason}"))
            await self.runner_host.changes.wait()
        return True

    # --- taken over ---------------------------------------------------------------------------------------

    def _adopt_running(self, handle: Handle) -> None:
        attempt, is_ready = handle.attempt, handle.is_ready
        ready = attempt.launch.ready if attempt.launch is not None and not is_ready else None
        waiting = advance(self.lifecycle, StartRequested(automatic=True))
        spawned = Spawned(epoch=waiting.epoch, ready=is_ready, at=attempt.ready_since())
        self.lifecycle = advance(waiting, spawned)  # not published: nothing happened to the component
        if self.spec.creates:
            self.runner_host.lock_output(self.spec.id)
        self._task = spawn(self._watch(waiting.epoch, handle, ready), f"watch {self.spec.id}")

    def _adopt_launch(self, handle: Handle) -> None:
        """Wait for the shim that the earlier supervisor was starting when it died."""
        age_s, launch = handle.attempt.launch_age_s, handle.attempt.launch
        if age_s is None or age_s > SPAWN_TIMEOUT_S or launch is None:
            return
        self._advance(StartRequested(automatic=True))
        timeout_s = max(1.0, SPAWN_TIMEOUT_S - age_s)
        work = self._await_launch(self.lifecycle.epoch, handle, launch, timeout_s)
        self._task = spawn(work, f"start {self.spec.id}")

    async def _await_launch(self, epoch: int, handle: Handle, launch: Launch, timeout_s: float) -> None:
        self._launching = True
        try:
            await handle.attempt.wait_for_shim(timeout_s)
        except RltuiError as error:
            logger.info("%s; it is started again", error.title)
        finally:
            self._launching = False
        if handle.attempt.record is not None:
            await self._run_attempt(epoch, handle, launch)
        elif self.lifecycle.epoch == epoch:
            await self._start(epoch, None)

    # --- while it lives -----------------------------------------------------------------------------------

    async def _watch(self, epoch: int, handle: Handle, ready: Ready | None) -> None:
        attempt = handle.attempt
        probe = spawn(self._probe(epoch, handle, ready), f"probe {self.spec.id}")
        try:
            exit_info = await handle.wait_until_ended(
                lambda exit_info: self._advance(MainEnded(epoch=epoch, exit=exit_info))
            )
        finally:
            probe.cancel()
        attempt.refresh()
        if (reason := handle.survival_reason()) is not None:
            self._advance(Stuck(epoch=epoch, reason=f"cannot be ended: {reason}"))
            return
        if (self.is_asked_to_stop or self.spec.stop.leftovers == "end") and not attempt.is_cleaned_up:
            await attempt.end_leftovers(grace_s=self.spec.stop.grace_s)
        if self.is_asked_to_stop:
            exit_info = replace(exit_info, on_request=True)
        if exit_info.cause is None:
            exit_info = await _explain_exit(handle, exit_info, self.runner_host.failure_patterns)
        if not self.is_asked_to_stop and await _rival(handle) is not None:
            exit_info = replace(exit_info, port_lost=self.runner_host.can_move(self.spec.id))
        self._advance(Ended(epoch=epoch, exit=exit_info, at=time.monotonic()))

    async def _probe(self, epoch: int, handle: Handle, ready: Ready | None) -> None:
        """Probe until it is ready. The time allowed for that begins when it runs: a queue does not count."""
        await handle.wait_until_started()
        attempt = handle.attempt
        if ready is not None and not await _succeeds(
            probe := Probe(ready, attempt.log), ready.timeout_s, handle
        ):
            with contextlib.suppress(OSError):  # without a log there are no words
                self.log_end = attempt.log.stat().st_size
            rival = await _rival(handle)
            reason = f"{probe}; {rival} is listening there" if rival else str(probe)
            await self.stop(reason=f"not ready after {duration(ready.timeout_s)} ({reason})")
            return
        attempt.mark_ready()
        self._advance(ProbeSucceeded(epoch=epoch, at=time.monotonic()))

    async def _wait_until_ended(self) -> None:
        while self.lifecycle.alive:
            await self.runner_host.changes.wait()

    # --- small helpers ------------------------------------------------------------------------------------

    def _handle(self, number: int) -> Handle:
        return handle_of(Attempt(self.runner_host.record, self.spec, number), self)

    def _advance(self, event: LifecycleEvent) -> None:
        previous = self.lifecycle
        self.lifecycle = advance(previous, event)
        if not self.lifecycle.alive:
            self.evidence = None
        if self.lifecycle is not previous and self.lifecycle != previous:
            self.runner_host.lifecycle_changed(self, previous)


async def _succeeds(probe: Probe, timeout_s: float, handle: Handle) -> bool:
    """True if it does so within this time, and no other process answers in place of the attempt."""
    pause, longest = _PROBE_INTERVALS_S
    try:
        async with asyncio.timeout(timeout_s):
            while not await probe.is_ready() or await _rival(handle) is not None:
                await asyncio.sleep(pause)
                pause = min(longest, pause * 1.3)
    except TimeoutError:
        return False
    return True


async def _rival(handle: Handle) -> str | None:
    """See `Attempt.rival`; `None` for what runs elsewhere, whose ports nobody here can look at."""
    return None if handle.main is None else await asyncio.to_thread(handle.attempt.rival)


async def _explain_exit(handle: Handle, exit_info: ExitInfo, patterns: Sequence[FailurePattern]) -> ExitInfo:
    attempt = handle.attempt

    def explain() -> ExitInfo:
        # the kernel here knows nothing of what ran elsewhere
        host_oom = None if handle.main is None else host_oom_of(attempt.folder)
        return explained(exit_info, attempt.spec, attempt.log, patterns, host_oom=host_oom)

    try:
        return await asyncio.to_thread(explain)
    except Exception:  # the end counts all the same
        logger.exception("the output of %s does not let itself be read for a cause", attempt.spec.id)
        return exit_info
