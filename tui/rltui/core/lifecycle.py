"""The life of a component as one pure transition function.

A `Life` is what the supervisor knows of a component; `advance` says what it becomes when something happens.
An event carries the epoch it belongs to: one that arrives late, from an earlier start, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

from rltui.core.api import ALIVE_STATES, ComponentState


@dataclass(frozen=True, slots=True)
class ExitInfo:
    """How a process ended. Both `None`: nobody was there to see it."""

    code: int | None = None
    signal: str | None = None
    error: str | None = None
    """Why it could not be run at all."""
    on_request: bool = False
    """It was asked to stop."""

    def __str__(self) -> str:
        if self.error:
            return self.error
        if self.signal:
            return f"killed by {self.signal}"
        return f"exited {self.code}" if self.code is not None else "ended, exit code unknown"


@dataclass(frozen=True, slots=True)
class Life:
    """State of one component. `epoch` counts starts and voids events of earlier ones."""

    kind: Literal["service", "job"]
    state: ComponentState = ComponentState.STOPPED
    reason: str | None = None
    exit: ExitInfo | None = None
    epoch: int = 0

    @property
    def alive(self) -> bool:
        """A process exists."""
        return self.state in ALIVE_STATES

    @property
    def busy(self) -> bool:
        """It runs, or is about to."""
        return self.alive or self.state is ComponentState.WAITING


@dataclass(frozen=True, slots=True)
class StartRequested:
    """Begins a new epoch."""


@dataclass(frozen=True, slots=True)
class Held:
    """The start waits; `reason` says for what."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Spawned:
    """The process runs; `ready` if no probe is needed."""

    epoch: int
    ready: bool


@dataclass(frozen=True, slots=True)
class ProbeSucceeded:
    """The readiness probe answered."""

    epoch: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """It shall end; `reason` where that is because of a failure (a probe that timed out)."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The process, and all its descendants, are gone."""

    epoch: int
    exit: ExitInfo


@dataclass(frozen=True, slots=True)
class StartFailed:
    """It could not be started: a dependency failed, a port stayed busy, tmux refused."""

    epoch: int
    reason: str


LifeEvent = StartRequested | Held | Spawned | ProbeSucceeded | StopRequested | Ended | StartFailed


def advance(life: Life, event: LifeEvent) -> Life:
    """The life after `event`. Returns `life` itself where the event does not apply."""
    epoch = getattr(event, "epoch", life.epoch)
    if epoch != life.epoch:
        return life
    match event:
        case StartRequested():
            if life.busy:
                return life
            return Life(kind=life.kind, state=ComponentState.WAITING, epoch=life.epoch + 1)
        case Held(reason=reason):
            return replace(life, reason=reason) if life.state is ComponentState.WAITING else life
        case Spawned(ready=ready):
            if life.state is not ComponentState.WAITING:
                return life
            state = ComponentState.READY if ready else ComponentState.STARTING
            return replace(life, state=state, reason=None, exit=None)
        case ProbeSucceeded():
            if life.state is not ComponentState.STARTING:
                return life
            return replace(life, state=ComponentState.READY, reason=None)
        case StopRequested(reason=reason):
            return _stop(life, reason)
        case Ended(exit=exit_info):
            return _end(life, exit_info) if life.alive else life
        case StartFailed(reason=reason):
            if life.state is not ComponentState.WAITING:
                return life
            return replace(life, state=ComponentState.FAILED, reason=reason)
        case _:
            assert_never(event)


def _stop(life: Life, reason: str | None) -> Life:
    if life.state is ComponentState.WAITING:
        return replace(life, state=ComponentState.STOPPED, reason=reason, epoch=life.epoch + 1)
    if life.state in (ComponentState.STARTING, ComponentState.READY):
        return replace(life, state=ComponentState.STOPPING, reason=reason)
    return life


def _end(life: Life, exit_info: ExitInfo) -> Life:
    """A service that ends by itself has failed, whatever its code: vLLM exits 0 after an engine crash."""
    if life.state is ComponentState.STOPPING or exit_info.on_request:
        state = ComponentState.FAILED if life.reason else ComponentState.STOPPED
        return replace(life, state=state, exit=exit_info)
    if life.kind == "job" and exit_info.code == 0:
        return replace(life, state=ComponentState.EXITED, exit=exit_info, reason=None)
    reason = str(exit_info)
    if life.kind == "service" and exit_info.code == 0:
        reason = "exited 0, but a service must not end by itself"
    return replace(life, state=ComponentState.FAILED, exit=exit_info, reason=reason)
