"""All that leaves the supervisor unasked: the journal on disk, events to subscribers, alerts."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Literal

from rltui.base.text import duration
from rltui.base.values import Value
from rltui.core.experiment.api import Alert, EventKind
from rltui.core.experiment.journal import JournalEntry, state_entry
from rltui.core.experiment.lifecycle import Lifecycle
from rltui.core.experiment.states import ComponentState
from rltui.core.metrics.alert_limits import AlertLimits
from rltui.errors import ConfigError
from rltui.services.actor import requester
from rltui.services.experiment.journal import Journal
from rltui.services.redaction import without_secrets
from rltui.settings import AlertSettings
from rltui.supervisor.component import ComponentRunner

logger = logging.getLogger(__name__)

Message = tuple[EventKind, bytes]
"""Kind and the encoded value."""

Topic = EventKind | Literal["pending", "servers"]
"""A thing that can change: a state that clients see, the work in hand, or servers that starts wait for."""
LifecycleListener = Callable[[ComponentRunner, Lifecycle], None]
"""Called with a component and its lifecycle before."""
_STATES: frozenset[EventKind] = frozenset({"status", "gpus", "knobs"})
"""Kinds of which only the newest value matters."""
BACKLOG = 1000
"""Most journal entries and alerts that wait for a subscriber that does not read; the oldest are dropped."""
CAUSE_S = 6.0
"""The alert of a failed component waits for so long for a failure of a component that it needs, which is then
sent first: a server clears up for seconds while its clients fail at once.
"""
OUTBOX = 100
"""Most alerts that wait for the sinks; the oldest are dropped."""


class Subscription:
    """The messages that one subscriber has yet to receive. Bounded: a slow one costs nothing and slows
    nobody.
    """

    def __init__(self) -> None:
        self._latest: dict[EventKind, bytes] = {}
        self._queue: deque[Message] = deque(maxlen=BACKLOG)
        self._filled = asyncio.Event()
        self._closed = False

    def put(self, message: Message) -> None:
        """Add a message; a state replaces an older one that was not received yet."""
        kind, value = message
        if kind in _STATES:
            self._latest[kind] = value
        else:
            self._queue.append(message)
        self._filled.set()

    def close(self) -> None:
        """Let the iteration end with the messages that are there now."""
        self._closed = True
        self._filled.set()

    async def __aiter__(self) -> AsyncIterator[Message]:
        while not self._closed or self._filled.is_set():
            await self._filled.wait()
            self._filled.clear()
            pending = [*self._latest.items(), *self._queue]
            self._latest.clear()
            self._queue.clear()
            for message in pending:
                yield message


class Broadcast:
    """The subscriptions, and the current state that a new one receives first."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()

    def __len__(self) -> int:
        return len(self._subscriptions)

    def subscribe(self, current: Iterable[Message]) -> Subscription:
        """A new subscription that begins with `current`. No change between the two is missed."""
        subscription = Subscription()
        for message in current:
            subscription.put(message)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """Let every subscription end once its subscriber has received what is pending."""
        for subscription in self._subscriptions:
            subscription.close()

    def publish(self, kind: EventKind, encode: Callable[[], bytes]) -> None:
        """Send a value to all. It is encoded once, and only if there is a subscriber."""
        if not self._subscriptions:
            return
        message = (kind, encode())
        for subscription in self._subscriptions:
            subscription.put(message)


class _StateHistory:
    """Remembers when components began to start and stop, and when they failed. Times are monotonic."""

    def __init__(self) -> None:
        self._spawned_at: dict[str, float] = {}
        self._stopping_at: dict[str, float] = {}
        self._failed_at: dict[str, float] = {}

    def took_s(self, runner: ComponentRunner, previous: Lifecycle, now: float) -> float | None:
        """Duration of a start or stop that is complete now; `None` if its beginning was not seen.

        To be called once for each change of state, in order.
        """
        lifecycle, name = runner.lifecycle, runner.spec.id
        if previous.state is ComponentState.WAITING and lifecycle.alive:
            self._spawned_at[name] = now
        begin = None
        match lifecycle.state:
            case ComponentState.READY if not runner.spec.creates:
                begin = self._spawned_at.get(name)
            case ComponentState.EXITED if runner.spec.creates:
                begin = self._spawned_at.get(name)
            case ComponentState.STOPPING:
                self._stopping_at[name] = now
            case ComponentState.STOPPED:
                begin = self._stopping_at.get(name)
        if not lifecycle.alive:
            self._spawned_at.pop(name, None)
            self._stopping_at.pop(name, None)
        return None if begin is None else now - begin

    def alert(self, runner: ComponentRunner, now: float) -> Alert | None:
        """The alert for a change of state: that it failed, or runs again after that; `None` for other
        changes.
        """
        lifecycle, name = runner.lifecycle, runner.spec.id
        match lifecycle.state:
            case ComponentState.FAILED:
                self._failed_at.setdefault(name, now)
                text = lifecycle.reason or "reason unknown"
                return Alert(
                    kind="crash",
                    severity="error",
                    title=f"{name} {lifecycle.word}",
                    text=text,
                    component=name,
                )
            case ComponentState.BACKOFF if lifecycle.failures:  # without, a job that ended well is repeated
                self._failed_at.setdefault(name, now)
                pause = (
                    f", restarts in {duration(lifecycle.retry_at - now)}"
                    if lifecycle.retry_at is not None
                    else ""
                )
                text = lifecycle.reason or "reason unknown"
                return Alert(
                    kind="crash", severity="warning", title=f"{name} failed{pause}", text=text, component=name
                )
            case ComponentState.READY if name in self._failed_at:
                text = f"{duration(now - self._failed_at.pop(name))} after failing"
                return Alert(
                    kind="recovered",
                    severity="information",
                    title=f"{name} is {lifecycle.word} again",
                    text=text,
                    component=name,
                )
            case ComponentState.STOPPED:
                self._failed_at.pop(name, None)
        return None


class EventBus:
    """Tells observers what happens to the components. Everything that leaves the supervisor unasked goes
    through here, too.
    """

    def __init__(
        self,
        journal_file: Path,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        needs: Callable[[str], Collection[str]] = lambda _: (),
    ) -> None:
        """`needs`: component → components that it waits for before it starts, and fails without."""
        self.broadcast = Broadcast()
        self.journal = Journal(journal_file, listener=self._publish_entry, author=requester)
        self.limits = AlertLimits(AlertSettings().repeat_s)
        self.outbox: asyncio.Queue[Alert] = asyncio.Queue(OUTBOX)
        """Alerts that passed the limits, for delivery outside (`supervisor/alerts.py`)."""
        self._monotonic = monotonic
        self._history = _StateHistory()
        self._config_error: str | None = None
        self._needs = needs
        self._crashed_at: dict[str, float] = {}
        self._delayed: dict[str, Alert] = {}
        """Alerts of failures that wait for the failure they may follow from, by component."""
        self._listeners: defaultdict[Topic, list[Callable[[], None]]] = defaultdict(list)
        self._lifecycle_listeners: list[LifecycleListener] = []
        self._thread = threading.get_ident()
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:  # whoever has no loop has no other threads either
            self._loop = None

    def publish(self, kind: EventKind, value: Value) -> None:
        self.broadcast.publish(kind, lambda: encode(value))

    def on_change(self, topic: Topic, listener: Callable[[], None]) -> None:
        """Register `listener` for when something of the topic has `changed`."""
        self._listeners[topic].append(listener)

    def changed(self, topic: Topic) -> None:
        for listener in self._listeners[topic]:
            listener()

    def on_lifecycle(self, listener: LifecycleListener) -> None:
        """Register `listener` for every transition of a component, after those that are registered."""
        self._lifecycle_listeners.append(listener)

    def internal_error(self, text: str) -> None:
        self.alert(Alert(kind="notice", severity="warning", title="internal error", text=text))

    def alert(self, alert: Alert) -> None:
        """Send an alert. One that comes too soon after one of its kind is only counted."""
        passed = self.limits.admit(alert, self._monotonic())
        if passed is None:
            return
        alert, suppressed = passed
        title, text = without_secrets(alert.title), without_secrets(alert.text)
        alert = alert.replace(title=title, text=text)
        rule: dict[str, Any] = {"rule": alert.rule} if alert.rule else {}
        self.journal.add(
            "alert",
            f"{alert.title}: {alert.text}",
            component=alert.component,
            severity=alert.severity,
            alert=alert.kind,
            suppressed=suppressed,
            **rule,
        )
        self.publish("alert", alert)
        if self.outbox.full():
            dropped = self.outbox.get_nowait()
            logger.warning("too many alerts at once, not told outside: %s: %s", dropped.title, dropped.text)
        self.outbox.put_nowait(alert)

    def lifecycle_changed(self, runner: ComponentRunner, previous: Lifecycle) -> None:
        """Journal a transition of a component, send its alert, and tell the listeners."""
        self._report_state(runner, previous)
        for listener in self._lifecycle_listeners:
            listener(runner, previous)

    def _report_state(self, runner: ComponentRunner, previous: Lifecycle) -> None:
        lifecycle, name, now = runner.lifecycle, runner.spec.id, self._monotonic()
        if lifecycle.state is previous.state:
            return
        took_s = self._history.took_s(runner, previous, now)
        gpus = runner.launch.devices if runner.launch is not None else 0
        entry = state_entry(name, lifecycle, pid=runner.pid, took_s=took_s, now=now, gpus=gpus)
        if entry is not None:
            kind, text, data = entry
            self.journal.add(kind, text, component=name, attempt=runner.attempt, by=runner.actor, **data)
        alert = self._history.alert(runner, now)
        if alert is None:
            return
        self._release(name)
        is_final = (
            lifecycle.state is ComponentState.FAILED
        )  # the alert of one that starts again is sent at once
        needs = self._needs(name) if is_final else ()
        is_explained = any(now - self._crashed_at.get(other, -math.inf) < CAUSE_S for other in needs)
        if needs and not is_explained:
            self._delayed[name] = alert
            asyncio.get_running_loop().call_later(CAUSE_S, self._release, name)
            return
        self.alert(alert)
        if alert.kind == "crash":
            self._crashed_at[name] = now
            for other in [waiting for waiting in self._delayed if name in self._needs(waiting)]:
                self._release(other)

    def _release(self, name: str) -> None:
        if (alert := self._delayed.pop(name, None)) is not None:
            self.alert(alert)

    def config_error(self, error: ConfigError | None) -> None:
        """Alert once that the config files cannot be read; `None`: they can be read again."""
        text = str(error) if error is not None else None
        if error is not None and text != self._config_error:
            self.alert(config_alert(error))
        self._config_error = text

    def _publish_entry(self, entry: JournalEntry) -> None:
        """May be called from any thread: an edit is journaled in the thread that writes it."""
        if self._loop is None or threading.get_ident() == self._thread:
            self.publish("journal", entry)
        else:
            self._loop.call_soon_threadsafe(self.publish, "journal", entry)


def encode(value: Value) -> bytes:
    return value.to_json()


def config_alert(error: ConfigError) -> Alert:
    return Alert(kind="config", severity="error", title="cannot read a config file", text=str(error))
