"""The lifecycle of a component as one pure transition function.

A `Lifecycle` is the supervisor's knowledge of a component; `advance` computes the next one after an event.
An event carries the epoch it belongs to: one that arrives late, from an earlier start, changes nothing.
Times are seconds of a monotonic clock, so that a jump of the wall clock moves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from rltui.base.text import count_text, duration
from rltui.core.experiment.layout import Restart
from rltui.core.experiment.states import ALIVE_STATES, ComponentKind, ComponentState, component_badge
from rltui.core.gpu.report import OutOfMemory

_MOST_DOUBLINGS = 30
"""More would leave the range of a float."""


@dataclass(frozen=True, slots=True)
class ExitInfo:
    """The end of a process. Code and signal both `None`: nobody observed it."""

    code: int | None = None
    signal: str | None = None
    error: str | None = None
    """Reason why it could not be run at all."""
    on_request: bool = False
    cause: str | None = None
    """Cause according to its output: `out of memory: …`."""
    cause_code: str = ""
    """Its row in `core/experiment/reason_codes.py`."""
    hopeless: bool = False
    memory: OutOfMemory | None = None
    """Set if it failed for lack of device memory. `device` is left open."""
    from_outside: bool = False
    port_lost: bool = False
    """Another program took its port between the choice and the start, which can be repeated with the next
    one.
    """

    @property
    def is_lost(self) -> bool:
        """True if nobody observed the end."""
        return self.code is None and self.signal is None and not self.error and not self.on_request

    @property
    def reason_code(self) -> str:
        """A row of `core/experiment/reason_codes.py`; empty for exit code 0 without a cause."""
        if self.is_lost:
            return "end_unseen"
        return self.cause_code or _plain_code(self)

    def __str__(self) -> str:
        if self.error:
            return self.error
        if self.signal:
            ending = f"killed by {self.signal}"
        else:
            ending = f"exited {self.code}" if self.code is not None else "ended, exit code unknown"
        return f"{ending} ({self.cause})" if self.cause else ending


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """State of one component. `epoch` counts starts and voids events of earlier ones."""

    kind: ComponentKind
    restart: Restart = Restart()
    state: ComponentState = ComponentState.STOPPED
    reason: str | None = None
    code: str = ""
    """Code of `reason`, where that is not about its end."""
    exit: ExitInfo | None = None
    """End of the main process, from then on until the next one runs."""
    epoch: int = 0
    ready_at: float | None = None
    """Time at which the present or last start became ready."""
    failures: tuple[float, ...] = ()
    """Times of the failures that still count against it, oldest first."""
    retry_at: float | None = None
    """Time of the next start, in state `backoff`."""

    @property
    def alive(self) -> bool:
        return self.state in ALIVE_STATES

    @property
    def is_lost(self) -> bool:
        """True if it ended and nobody observed how."""
        return self.exit is not None and self.exit.is_lost and not self.expected

    @property
    def word(self) -> str:
        """The state as people read it: a job is `running`, not `ready`; an unobserved end is `lost`."""
        return component_badge({"state": self.state, "kind": self.kind, "lost": self.is_lost}).word

    @property
    def reason_code(self) -> str:
        """A row of `core/experiment/reason_codes.py`; empty where the state says it all."""
        if self.code:
            return self.code
        if self.state in (ComponentState.FAILED, ComponentState.BACKOFF) and self.exit is not None:
            return self.exit.reason_code or ("service_exited" if self.kind == "service" else "")
        if self.state is ComponentState.STOPPED:
            return "never_started" if self.exit is None and not self.epoch else "stop_requested"
        return "handed_on" if self.state is ComponentState.EXITED and self.reason else ""

    @property
    def busy(self) -> bool:
        """It runs, or a start of it waits."""
        return self.alive or self.state is ComponentState.WAITING

    @property
    def expected(self) -> bool:
        """It runs, or will without another request."""
        return self.busy or self.state is ComponentState.BACKOFF


def _plain_code(end: ExitInfo) -> str:
    """Code of an end whose cause is not known."""
    if end.error:
        return "start_failed"
    if end.signal:
        return "killed_by_signal"
    return "exited" if end.code else ""


@dataclass(frozen=True, slots=True)
class StartRequested:
    """Begins a new epoch. A person's request forgives earlier failures, an automatic one counts on."""

    automatic: bool = False


@dataclass(frozen=True, slots=True)
class StartBlocked:
    """The start waits, for this `reason`."""

    epoch: int
    reason: str
    code: str = "waits_for_component"


@dataclass(frozen=True, slots=True)
class NotNeeded:
    """The start ends before it began, because for this `reason` there is nothing to do any more."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Spawned:
    """The process runs; `ready` if no probe is needed."""

    epoch: int
    ready: bool
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ProbeSucceeded:
    epoch: int
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Requests the end; `reason` if that is because of a failure (a probe that timed out)."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class MainEnded:
    """The main process is gone, its remaining children are being ended."""

    epoch: int
    exit: ExitInfo


@dataclass(frozen=True, slots=True)
class Ended:
    """The main process is gone, and its children, unless the layout keeps them."""

    epoch: int
    exit: ExitInfo
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class StartFailed:
    """It could not be started: a dependency failed, a port stayed busy, tmux refused."""

    epoch: int
    reason: str
    code: str = "start_failed"


@dataclass(frozen=True, slots=True)
class Stuck:
    """Not even SIGKILL ends it: the remaining processes count as leftovers from now on."""

    epoch: int
    reason: str


LifecycleEvent = (
    StartRequested
    | StartBlocked
    | NotNeeded
    | Spawned
    | ProbeSucceeded
    | StopRequested
    | MainEnded
    | Ended
    | StartFailed
    | Stuck
)


def advance(life: Lifecycle, event: LifecycleEvent) -> Lifecycle:
    """The lifecycle after `event`; `life` itself if the event does not apply."""
    epoch = getattr(event, "epoch", life.epoch)
    if epoch != life.epoch:
        return life
    match event:
        case StartRequested(automatic=automatic):
            if life.busy:
                return life
            return Lifecycle(
                kind=life.kind,
                restart=life.restart,
                state=ComponentState.WAITING,
                epoch=life.epoch + 1,
                failures=life.failures if automatic else (),
            )
        case StartBlocked(reason=reason, code=code):
            return replace(life, reason=reason, code=code) if life.state is ComponentState.WAITING else life
        case NotNeeded(reason=reason):
            is_waiting = life.state is ComponentState.WAITING
            if not is_waiting:
                return life
            return replace(life, state=ComponentState.STOPPED, reason=reason, code="not_needed")
        case Spawned(ready=ready, at=at):
            if life.state is not ComponentState.WAITING:
                return life
            state = ComponentState.READY if ready else ComponentState.STARTING
            ready_at = at if ready else None
            return replace(life, state=state, reason=None, code="", exit=None, ready_at=ready_at)
        case ProbeSucceeded(at=at):
            if life.state is not ComponentState.STARTING:
                return life
            return replace(life, state=ComponentState.READY, reason=None, ready_at=at)
        case StopRequested(reason=reason):
            return _stop(life, reason)
        case MainEnded(exit=exit_info):
            if life.state not in (ComponentState.STARTING, ComponentState.READY):
                return life
            reason = f"{exit_info}; ending leftover processes"
            return replace(life, state=ComponentState.STOPPING, exit=exit_info, reason=reason)
        case Ended(exit=exit_info, at=at):
            return _finish(life, exit_info, at) if life.alive else life
        case StartFailed(reason=reason, code=code):
            if life.alive or not life.expected:
                return life
            return replace(life, state=ComponentState.FAILED, reason=reason, code=code, retry_at=None)
        case Stuck(reason=reason):
            if not life.alive:
                return life
            stuck = replace(life, state=ComponentState.FAILED, reason=reason, code="cannot_be_ended")
            return replace(stuck, epoch=life.epoch + 1)
        case _:
            assert_never(event)


def _stop(life: Lifecycle, reason: str | None) -> Lifecycle:
    code = "not_ready" if reason else ""
    match life.state:
        case ComponentState.WAITING | ComponentState.BACKOFF:
            stopped = replace(life, state=ComponentState.STOPPED, reason=reason, code=code)
            return replace(stopped, epoch=life.epoch + 1, retry_at=None)
        case ComponentState.STARTING | ComponentState.READY:
            return replace(life, state=ComponentState.STOPPING, reason=reason, code=code)
        case ComponentState.STOPPING if reason is None and life.reason is not None:
            # A person's wish comes on top of a failure: no start again.
            return replace(life, reason=None, code=code, exit=None)
        case _:
            return life


def _finish(life: Lifecycle, exit_info: ExitInfo, at: float) -> Lifecycle:
    """A service that exits by itself has failed, whatever its code: vLLM exits 0 after an engine crash."""
    is_requested = life.state is ComponentState.STOPPING and life.exit is None
    if is_requested or exit_info.on_request:
        if life.reason is None:
            return replace(life, state=ComponentState.STOPPED, exit=exit_info)
        return _fail(life, exit_info, life.reason, at)
    if exit_info.code != 0 or exit_info.error:
        return _fail(life, exit_info, str(exit_info), at)
    if life.kind == "service":
        cause = f" ({exit_info.cause})" if exit_info.cause else ""
        return _fail(life, exit_info, f"exited 0, but a service must keep running{cause}", at)
    if life.restart.policy == "always":
        restarted = replace(life, exit=exit_info, failures=())
        return replace(
            restarted,
            state=ComponentState.BACKOFF,
            reason="exited 0",
            retry_at=at + life.restart.backoff_s[0],
        )
    return replace(life, state=ComponentState.EXITED, exit=exit_info, reason=exit_info.cause)


def _fail(life: Lifecycle, exit_info: ExitInfo, reason: str, at: float) -> Lifecycle:
    was_healthy = life.ready_at is not None and at - life.ready_at >= life.restart.healthy_s
    failures = () if was_healthy else life.failures
    if exit_info.port_lost and not failures:  # one more try, whatever the policy
        text = f"{reason}; restarting on another port"
        backoff = replace(life, state=ComponentState.BACKOFF, exit=exit_info, reason=text)
        return replace(backoff, failures=(at,), retry_at=at)
    policy = life.restart
    recent = (*(failed_at for failed_at in failures if at - failed_at <= policy.window_s), at)
    counted = recent[-policy.max_failures :]  # a partner's restart may have started one that had given up
    refusal = _restart_refusal(policy, len(counted), hopeless=exit_info.hopeless)
    if refusal is not None:
        text = f"{reason}; {refusal}" if refusal else reason
        return replace(life, state=ComponentState.FAILED, exit=exit_info, reason=text, failures=counted)
    first, longest = policy.backoff_s
    doublings = min(len(counted) - 1, _MOST_DOUBLINGS)
    return replace(
        life,
        state=ComponentState.BACKOFF,
        exit=exit_info,
        reason=f"{reason}; failure {len(counted)} of {policy.max_failures}",
        failures=counted,
        retry_at=at + min(longest, first * 2**doublings),
    )


def _restart_refusal(policy: Restart, failure_count: int, *, hopeless: bool) -> str | None:
    """Reason why it is not started again, empty if no restart was ever meant; `None` if it is."""
    if policy.policy == "never":
        return ""
    if hopeless:
        return "a restart would fail the same way"
    if failure_count < policy.max_failures:
        return None
    within = "" if failure_count == 1 else f" within {duration(policy.window_s)}"
    return f"no restart after {count_text(failure_count, 'failure')}{within}"
