"""Messages of the app: a line at the foot of each screen, and the history, to be read again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from textual import events
from textual.app import App
from textual.content import Content
from textual.message import Message
from textual.notifications import Notify, SeverityLevel
from textual.screen import Screen, ScreenResultType
from textual.widget import Widget

from rltui.base.text import duration
from rltui.core.experiment.api import Alert
from rltui.core.experiment.states import SEVERITIES
from rltui.ui.styles import FAINT, SEVERITY_MARKS
from rltui.ui.terminal.driver import TerminalDriver
from rltui.ui.text import clean, clean_line

PATIENCE_S = 0.5
"""Work that takes longer is announced."""
_STAY_S: dict[SeverityLevel, float] = {"information": 4.0, "warning": 8.0, "error": 15.0}
_CELLS_READ_PER_S = 12
_LONGEST_STAY_S = 8.0
"""Warnings and errors may stay longer."""
_SEEN_S = 1.0
"""A key takes an error away only if it has been there for so long: else it was not meant for it."""
_MOST_SAID = 500
_INFORMATION = ("·", "$foreground")
_GOOD_NEWS = ("recovered", "finished")


@dataclass(frozen=True, slots=True)
class Notification:
    number: int
    """Position in the history, from 0."""
    at: float
    """The time, in seconds since the epoch."""
    text: str
    """Safe to show; may have several lines."""
    severity: SeverityLevel = "information"
    alert: Alert | None = None
    """The supervisor's alert, where the message came from one."""

    @property
    def mark(self) -> tuple[str, str]:
        """Symbol and style that stand before it."""
        if self.alert is not None:
            return alert_mark(self.alert)
        return SEVERITY_MARKS.get(self.severity, _INFORMATION)

    @property
    def full(self) -> str:
        """All of it, its symbol and the word for it first: colour is not the only thing that tells."""
        if self.alert is not None:
            return f"{self.mark[0]} {clean_line(self.alert.title)}: {self.text}"
        word = f"{SEVERITIES[self.severity].word}: " if self.severity in SEVERITIES else ""
        return f"{self.mark[0]} {word}{self.text}"

    def line(self, width: int, *, more: int | None = None) -> Content:
        """One line of `width` cells, with the key that shows the rest, or a count of other messages.

        `None`: the line is in the list of messages, where both are clear.
        """
        first, _, rest = self.full.partition("\n")
        style = self.mark[1] if self.severity == "information" else f"bold {self.mark[1]}"
        text = Content.styled(f"{first} …" if rest else first, style)
        hint = f"  +{more} more (!)" if more else ""
        if more == 0 and (rest or text.cell_length > width):
            hint = "  (! shows all)"
        return _ending(text, width, hint)


def _ending(text: Content, width: int, hint: str) -> Content:
    """`text` as far as there is room before the faint `hint`."""
    return text.truncate(max(1, width - len(hint)), ellipsis=True) + Content.styled(hint, FAINT)


def alert_mark(alert: Alert) -> tuple[str, str]:
    if alert.kind in _GOOD_NEWS:
        return "✓", "$text-success"
    return SEVERITY_MARKS.get(alert.severity, _INFORMATION)


@dataclass(eq=False)
class _Live:
    said: Notification
    since: float
    until: float


@dataclass(eq=False)
class _Wait:
    order: int
    what: str
    since: float
    task: asyncio.Task[Any] | None
    """The task that a person ends who does not want to wait."""
    is_cancelled: bool = field(default=False)


class Messages:
    """All that was said, and what of it the line shows. Times are the loop's, but for those to read."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.said: list[Notification] = []
        """The oldest notification stands first."""
        self._order = count()
        self._live: list[_Live] = []
        self._waits: list[_Wait] = []
        self._watchers: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """`watcher` is called when the line is another one, until what is returned is called."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def say(
        self,
        text: str,
        severity: SeverityLevel = "information",
        *,
        alert: Alert | None = None,
        stays_s: float | None = None,
    ) -> None:
        notification = Notification(next(self._order), self._clock(), clean(text).strip(), severity, alert)
        self.said = [*self.said, notification][-_MOST_SAID:]
        if stays_s is None:
            read_s = min(_LONGEST_STAY_S, len(notification.text) / _CELLS_READ_PER_S)
            stays_s = max(_STAY_S[severity], read_s)
        now = self._now()
        self._live = [message for message in self._live if message.said.full != notification.full]
        self._live.append(_Live(notification, now, now + stays_s))
        self._turn()

    @asynccontextmanager
    async def waiting(self, label: str, *, cancels: bool) -> AsyncIterator[None]:
        """Say what is waited for, and for how long, where that is longer than a moment.

        `cancels`: esc ends the task that waits, which changes nothing.
        """
        wait = _Wait(
            next(self._order), clean_line(label), self._now(), asyncio.current_task() if cancels else None
        )
        self._waits.append(wait)
        self._turn()
        try:
            yield
        except asyncio.CancelledError:
            if wait.is_cancelled:
                self.say(f"Cancelled: {wait.what}")
            raise
        finally:
            self._waits.remove(wait)
            self._turn()

    def cancel(self) -> bool:
        """End what is waited for, if the line says so and it may be ended."""
        wait = self._current_wait()
        if wait is None or wait.task is None:
            return False
        wait.is_cancelled = True
        wait.task.cancel()
        return True

    def seen(self) -> None:
        """A person is there, and has had time to read: errors go."""
        now = self._now()
        rest = [
            message
            for message in self._live
            if message.said.severity != "error" or now - message.since < _SEEN_S
        ]
        if len(rest) != len(self._live):
            self._live = rest
            self._turn()

    def read(self) -> None:
        self._live = []
        self._turn()

    def line(self, width: int) -> Content | None:
        """`None`: there is nothing to show."""
        newest = self._live[-1] if self._live else None
        wait = self._current_wait()
        if wait is not None and (newest is None or newest.said.number < wait.order):
            time = duration(self._now() - wait.since)
            hint = " · esc cancels" if wait.task is not None else ""
            return _ending(Content.styled(f"… {wait.what}: {time}", "$text-accent"), width, hint)
        if newest is None:
            return None
        return newest.said.line(width, more=len(self._live) - 1)

    def _current_wait(self) -> _Wait | None:
        """The newest that takes longer than a moment."""
        now = self._now()
        return next((wait for wait in reversed(self._waits) if now - wait.since >= PATIENCE_S), None)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _turn(self) -> None:
        """Show what is to be shown now, and look again when that is another thing."""
        now = self._now()
        self._live = [message for message in self._live if message.until > now]
        for watcher in tuple(self._watchers):
            watcher()
        if self._timer is not None:
            self._timer.cancel()
        ends = [message.until for message in self._live]
        for wait in self._waits:
            lasted_s = now - wait.since
            ends.append(wait.since + (PATIENCE_S if lasted_s < PATIENCE_S else int(lasted_s) + 1.0))
        self._timer = asyncio.get_running_loop().call_at(min(ends), self._turn) if ends else None


class MessageLine(Widget):
    """Shows what is to be said now. It lies on nothing but the keys, and is not there without a word."""

    DEFAULT_CSS = """
    MessageLine {
        dock: bottom;
        layer: messages;
        display: none;
        height: 1;
        padding: 0 1;
        background: $panel;
        text-wrap: nowrap;
    }
    MessageLine.-shown {
        display: block;
    }
    """

    @dataclass
    class AllWanted(Message):
        pass

    def on_mount(self) -> None:
        if isinstance(self.app, NotifyingApp):
            self._leave = self.app.messages.watch(self._look)
            self._look()

    def on_unmount(self) -> None:
        if isinstance(self.app, NotifyingApp):
            self._leave()

    def _look(self) -> None:
        if isinstance(self.app, NotifyingApp):
            self.set_class(self.app.messages.line(self.app.size.width) is not None, "-shown")
            self.refresh()

    def render(self) -> Content:
        line = self.app.messages.line(self.size.width) if isinstance(self.app, NotifyingApp) else None
        return line or Content("")

    def on_click(self) -> None:
        self.post_message(self.AllWanted())


class NotifyingScreen(Screen[ScreenResultType]):
    """A screen with the line that says something; its keys may call methods of parts that it is made of."""

    def action_command(self, command: str, *arguments: object) -> object:
        """`config.undo`: a method of a part that this screen is composed of; what it returns is awaited."""
        owner, _, method = command.rpartition(".")
        return getattr(getattr(self, owner), method)(*arguments)

    def _extend_compose(self, widgets: list[Widget]) -> None:
        super()._extend_compose(widgets)
        widgets.append(MessageLine())


class NotifyingApp(App[None]):
    """An app that says what it has to say on a line of the screen, in place of Textual's toasts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds since the epoch."""
        super().__init__(driver_class=TerminalDriver)
        self.touched_at = -math.inf
        """When a person last pressed a key or a button, on the loop's clock."""
        self.messages = Messages(clock)

    def _on_notify(self, event: Notify) -> None:
        """Whoever says it: our screens, their widgets, Textual."""
        event.prevent_default()
        event.stop()
        notification = event.notification
        text = (
            Content.from_markup(notification.message).plain if notification.markup else notification.message
        )
        if notification.title:
            text = f"{notification.title}: {text}"
        stays_s = None if notification.timeout == self.NOTIFICATION_TIMEOUT else notification.timeout
        self.messages.say(text, notification.severity, stays_s=stays_s)

    async def on_event(self, event: events.Event) -> None:
        """A key ends what is waited for, and takes away what was read."""
        if isinstance(event, events.Key | events.MouseDown | events.MouseScrollDown | events.MouseScrollUp):
            self.touched_at = asyncio.get_running_loop().time()
        if isinstance(event, events.Key) and not event.is_forwarded:
            if event.key == "escape" and not self.screen.is_modal and self.messages.cancel():
                return
            self.messages.seen()
        await super().on_event(event)


@asynccontextmanager
async def waiting(app: App[Any], label: str, *, cancels: bool = False) -> AsyncIterator[None]:
    """`Messages.waiting` where the app has messages, else nothing."""
    if not isinstance(app, NotifyingApp):
        yield
        return
    async with app.messages.waiting(label, cancels=cancels):
        yield
