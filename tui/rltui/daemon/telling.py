"""What the supervisor tells: the journal on disk, events to subscribers, alerts to both and outside."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from rltui.core.alert_limits import AlertLimits
from rltui.core.api import Alert, ComponentState, EventKind, JournalEntry
from rltui.core.lifecycle import Life
from rltui.core.values import Value
from rltui.daemon.broadcast import Broadcast
from rltui.daemon.component_news import JOURNAL_KINDS, ComponentNews, Told
from rltui.daemon.journal import Journal
from rltui.errors import ConfigError
from rltui.settings import AlertSettings

logger = logging.getLogger(__name__)

CAUSE_S = 6.0
"""So long the failure of a component waits for that of what it needs, which is then told first: a server
clears up for seconds while its clients fail at once."""
OUTBOX = 100
"""Alerts kept for the sinks while they are busy; the oldest are dropped."""


class Teller:
    """Everything that leaves the supervisor without being asked for goes through here."""

    def __init__(
        self,
        journal_file: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        needs: Callable[[str], Collection[str]] = lambda _: (),
    ) -> None:
        """`needs`: what a component waits for before it starts, and fails without."""
        self.broadcast = Broadcast()
        self.journal = Journal(journal_file, clock=time.time, listener=self._pass_on)
        self.limits = AlertLimits(AlertSettings().repeat_s)
        self.outbox: asyncio.Queue[Alert] = asyncio.Queue(OUTBOX)
        """Alerts that passed, for who tells them outside (`daemon/alerts.py`)."""
        self._monotonic = monotonic
        self._news = ComponentNews()
        self._config_error: str | None = None
        self._needs = needs
        self._crashed_at: dict[str, float] = {}
        self._held: dict[str, Alert] = {}
        """Failures that wait for the failure they may follow from."""
        self._thread = threading.get_ident()
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:  # whoever has no loop has no other threads either
            self._loop = None

    def publish(self, kind: EventKind, value: Value) -> None:
        """Send a value to all subscribers."""
        self.broadcast.publish(kind, lambda: encoded(value))

    def trouble(self, text: str) -> None:
        """Something of rltui itself failed and goes on."""
        self.alert(Alert(kind="notice", severity="warning", title="an error in rltui itself", text=text))

    def alert(self, alert: Alert) -> None:
        """Something a person should notice. One that comes too soon after its like is only counted."""
        passed = self.limits.admit(alert, self._monotonic())
        if passed is None:
            return
        alert, suppressed = passed
        self.journal.add(
            "alert",
            f"{alert.title}: {alert.text}",
            component=alert.component,
            severity=alert.severity,
            alert=alert.kind,
            suppressed=suppressed,
        )
        self.publish("alert", alert)
        if self.outbox.full():
            dropped = self.outbox.get_nowait()
            logger.warning("too many alerts at once, not told outside: %s: %s", dropped.title, dropped.text)
        self.outbox.put_nowait(alert)

    def change(self, runner: Told, before: Life) -> None:
        """A component entered another state."""
        life, name, now = runner.life, runner.spec.id, self._monotonic()
        if life.state is before.state:
            return
        facts = self._news.facts(runner, before, now)
        if life.state in JOURNAL_KINDS:
            text = f"{name} {life.state}" + (f": {life.reason}" if life.reason else "")
            kind = JOURNAL_KINDS[life.state]
            self.journal.add(kind, text, component=name, attempt=runner.attempt, **facts)
        alert = self._news.alert(runner, now)
        if alert is None:
            return
        self._release(name)
        is_final = life.state is ComponentState.FAILED  # one that starts again is told at once
        needed = self._needs(name) if is_final else ()
        is_explained = any(now - self._crashed_at.get(other, -math.inf) < CAUSE_S for other in needed)
        if needed and not is_explained:
            self._held[name] = alert
            asyncio.get_running_loop().call_later(CAUSE_S, self._release, name)
            return
        self.alert(alert)
        if alert.kind == "crash":
            self._crashed_at[name] = now
            for other in [held for held in self._held if name in self._needs(held)]:
                self._release(other)

    def _release(self, name: str) -> None:
        """Tell a failure that was held back."""
        if (alert := self._held.pop(name, None)) is not None:
            self.alert(alert)

    def config_error(self, error: ConfigError | None) -> None:
        """The config files cannot be read, told once; `None`: they can be read again."""
        text = str(error) if error is not None else None
        if error is not None and text != self._config_error:
            self.alert(config_alert(error))
        self._config_error = text

    def _pass_on(self, entry: JournalEntry) -> None:
        """From any thread: an edit is journaled where it is written."""
        if self._loop is None or threading.get_ident() == self._thread:
            self.publish("journal", entry)
        else:
            self._loop.call_soon_threadsafe(self.publish, "journal", entry)


def encoded(value: Value) -> bytes:
    """A value as it travels."""
    return value.model_dump_json().encode()


def config_alert(error: ConfigError) -> Alert:
    """An unreadable config, for people."""
    return Alert(kind="config", severity="error", title="a config file cannot be read", text=str(error))
