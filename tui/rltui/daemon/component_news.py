"""What a component's change of state means to people: a journal entry, and an alert of trouble or its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rltui.core.api import Alert, ComponentState
from rltui.core.layout import ComponentSpec
from rltui.core.lifecycle import Life
from rltui.core.text import duration

JOURNAL_KINDS = {
    ComponentState.STARTING: "start",
    ComponentState.READY: "ready",
    ComponentState.STOPPING: "stop",
    ComponentState.EXITED: "exit",
    ComponentState.BACKOFF: "exit",
    ComponentState.FAILED: "exit",
    ComponentState.STOPPED: "exit",
}
"""Journal kind of entering a state; waiting is not worth an entry."""


class Told(Protocol):
    """What is told of a component: the part of `ComponentRunner` that is needed here."""

    @property
    def spec(self) -> ComponentSpec: ...
    @property
    def attempt(self) -> int | None: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def life(self) -> Life: ...


class ComponentNews:
    """Remembers when components began to start and stop, and which are in trouble. Times are monotonic."""

    def __init__(self) -> None:
        self._spawned_at: dict[str, float] = {}
        self._stopping_at: dict[str, float] = {}
        self._trouble_at: dict[str, float] = {}

    def facts(self, runner: Told, before: Life, at: float) -> Mapping[str, object]:
        """Data of the journal entry: exit, and `took_s` of a start or stop that was seen from its beginning.

        To be called once for each change of state, in order.
        """
        life, name = runner.life, runner.spec.id
        facts: dict[str, object] = {
            "pid": runner.pid,
            "exit_code": life.exit.code if life.exit else None,
            "signal": life.exit.signal if life.exit else None,
        }
        if before.state is ComponentState.WAITING and life.alive:
            self._spawned_at[name] = at
        match life.state:
            case ComponentState.READY if name in self._spawned_at and not runner.spec.creates:
                facts["took_s"] = round(at - self._spawned_at[name], 3)
            case ComponentState.EXITED if name in self._spawned_at and runner.spec.creates:
                facts["took_s"] = round(at - self._spawned_at[name], 3)
            case ComponentState.STOPPING:
                self._stopping_at[name] = at
            case ComponentState.STOPPED if name in self._stopping_at:
                facts |= {"took_s": round(at - self._stopping_at[name], 3), "stopped": True}
            case ComponentState.BACKOFF if life.retry_at is not None:
                facts["retry_in_s"] = round(max(0.0, life.retry_at - at), 3)
        if not life.alive:
            self._spawned_at.pop(name, None)
            self._stopping_at.pop(name, None)
        return facts

    def alert(self, runner: Told, at: float) -> Alert | None:
        """What a person should notice of a change of state: that it failed, or runs again after that."""
        life, name = runner.life, runner.spec.id
        match life.state:
            case ComponentState.FAILED:
                self._trouble_at.setdefault(name, at)
                text = life.reason or "no reason known"
                return Alert(
                    kind="crash", severity="error", title=f"{name} failed", text=text, component=name
                )
            case ComponentState.BACKOFF if life.failures:  # without, a job that ended well is repeated
                self._trouble_at.setdefault(name, at)
                pause = (
                    f", starts again in {duration(life.retry_at - at)}" if life.retry_at is not None else ""
                )
                text = life.reason or "no reason known"
                return Alert(
                    kind="crash", severity="warning", title=f"{name} failed{pause}", text=text, component=name
                )
            case ComponentState.READY if name in self._trouble_at:
                text = f"{duration(at - self._trouble_at.pop(name))} after it failed"
                return Alert(
                    kind="recovered",
                    severity="information",
                    title=f"{name} runs again",
                    text=text,
                    component=name,
                )
            case ComponentState.STOPPED:
                self._trouble_at.pop(name, None)
        return None
