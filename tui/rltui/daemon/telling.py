"""What the supervisor tells: the journal on disk, events to subscribers, alerts to both."""

from __future__ import annotations

import time
from pathlib import Path

from rltui.core.api import Alert, ComponentState, EventKind, JournalEntry, Value
from rltui.core.lifecycle import Life
from rltui.daemon.broadcast import Broadcast
from rltui.daemon.component import ComponentRunner
from rltui.daemon.journal import Journal
from rltui.errors import ConfigError

_KINDS = {
    ComponentState.STARTING: "start",
    ComponentState.READY: "ready",
    ComponentState.STOPPING: "stop",
    ComponentState.EXITED: "exit",
    ComponentState.FAILED: "exit",
    ComponentState.STOPPED: "exit",
}
"""Journal kind of entering a state; waiting is not worth an entry."""


class Teller:
    """Everything that leaves the supervisor without being asked for goes through here."""

    def __init__(self, journal_file: Path) -> None:
        self.broadcast = Broadcast()
        self.journal = Journal(journal_file, clock=time.time, listener=self._pass_on)
        self._config_error: str | None = None

    def publish(self, kind: EventKind, value: Value) -> None:
        """Send a value to all subscribers."""
        self.broadcast.publish(kind, lambda: encoded(value))

    def alert(self, alert: Alert) -> None:
        """Something a person should notice."""
        self.journal.add("alert", f"{alert.title}: {alert.text}", component=alert.component)
        self.publish("alert", alert)

    def change(self, runner: ComponentRunner, before: Life) -> None:
        """A component entered another state."""
        life, name = runner.life, runner.spec.id
        if life.state is before.state or life.state not in _KINDS:
            return
        self.journal.add(
            _KINDS[life.state],
            f"{name} {life.state}" + (f": {life.reason}" if life.reason else ""),
            component=name,
            attempt=runner.attempt,
            pid=runner.pid,
            exit_code=life.exit.code if life.exit else None,
            signal=life.exit.signal if life.exit else None,
        )
        if life.state is ComponentState.FAILED:
            reason = life.reason or "no reason known"
            self.alert(Alert(severity="error", title=f"{name} failed", text=reason, component=name))

    def config_error(self, error: ConfigError | None) -> None:
        """The config files cannot be read, told once; `None`: they can be read again."""
        text = str(error) if error is not None else None
        if error is not None and text != self._config_error:
            self.alert(config_alert(error))
        self._config_error = text

    def _pass_on(self, entry: JournalEntry) -> None:
        self.publish("journal", entry)


def encoded(value: Value) -> bytes:
    """A value as it travels."""
    return value.model_dump_json().encode()


def config_alert(error: ConfigError) -> Alert:
    """An unreadable config, for people."""
    return Alert(severity="error", title="a config file cannot be read", text=str(error))
