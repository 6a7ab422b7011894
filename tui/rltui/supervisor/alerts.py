"""Delivery of alerts outside rltui: to tmux clients and to the user's command, as the settings say."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

from rltui import paths, settings
from rltui.base.tasks import spawn, tick
from rltui.core.experiment.api import Alert
from rltui.core.logs.lines import plain_text
from rltui.core.metrics.alert_limits import severe_enough
from rltui.errors import ConfigError, RltuiError
from rltui.services.own_files import file_fingerprint
from rltui.services.processes import subprocesses
from rltui.services.tmux import show_message
from rltui.settings import AlertSettings, Settings
from rltui.supervisor.events import EventBus
from rltui.supervisor.runtime import Runtime

logger = logging.getLogger(__name__)

_SETTINGS_INTERVAL_S = 2.0
"""Pause between two polls of the settings file: one `stat`."""
WAITING_ALERTS = 50
"""Most alerts that wait for a slow sink; further ones are not delivered there."""
_LONGEST_VARIABLE = 4000
"""Longest value in the command's environment, in characters; the JSON has all of it."""
_COMMAND_S = 10.0
_DISPLAY_S = {"error": 15.0, "warning": 8.0, "information": 5.0}
"""Seconds for which tmux shows a line that no key removes."""


async def deliver_alerts(runtime: Runtime) -> None:
    """Hand every alert that passed the limits to the sinks, in order; no sink waits for another."""
    delivery = AlertDelivery(runtime)
    delivery.refresh_settings()
    settings_task = spawn(delivery.watch_settings(), "settings")
    sinks = [
        Sink("tmux", delivery.show_in_tmux, runtime.events),
        Sink("command", delivery.run_command, runtime.events),
    ]
    try:
        while True:
            alert = await runtime.events.outbox.get()
            if severe_enough(delivery.alerts.min_severity)(alert):
                for sink in sinks:
                    sink.put(alert)
    finally:
        settings_task.cancel()
        for sink in sinks:
            sink.close()


class Sink:
    """One destination of alerts, served in order. A failure is journaled once, until it works again."""

    def __init__(self, name: str, send: Callable[[Alert], Awaitable[None]], events: EventBus) -> None:
        self._name = name
        self._send = send
        self._events = events
        self._failure: str | None = None
        self._queue: asyncio.Queue[Alert] = asyncio.Queue(WAITING_ALERTS)
        self._task = spawn(self._work(), f"alerts by {name}")

    def put(self, alert: Alert) -> None:
        try:
            self._queue.put_nowait(alert)
        except asyncio.QueueFull:
            logger.warning("alerts by %s: too slow, left out: %s", self._name, alert.title)

    def close(self) -> None:
        self._task.cancel()

    async def _work(self) -> None:
        while True:
            alert = await self._queue.get()
            try:
                await self._send(alert)
            except RltuiError as error:
                logger.error("alerts by %s: %s", self._name, error.title)
                if self._failure is None:
                    self._events.journal.add("notice", f"alerts by {self._name} failed: {error.title}")
                self._failure = error.title
            else:
                self._failure = None


class AlertDelivery:
    """Sends alerts as the settings say, which are read again when their file has changed."""

    def __init__(self, runtime: Runtime) -> None:
        self.alerts = AlertSettings()
        self._experiment = runtime.setup.record.name
        self._events = runtime.events
        self._health = runtime.observation.health
        self._file = paths.settings_file()
        self._stamp: tuple[int, int, int] | None = None

    async def watch_settings(self) -> None:
        while True:
            await tick(_SETTINGS_INTERVAL_S)
            self.refresh_settings()

    def refresh_settings(self) -> None:
        """Read the settings file if it has changed. One that cannot be understood raises an alert, and the
        defaults hold.
        """
        stamp = file_fingerprint(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            loaded = settings.load(self._file)
        except ConfigError as error:
            loaded = Settings()
            self._events.alert(
                Alert(kind="config", severity="error", title="cannot read the settings", text=str(error))
            )
        self.alerts = loaded.alerts
        self._events.limits.repeat_s = self.alerts.repeat_s
        self._health.set_thresholds(loaded.health)

    async def show_in_tmux(self, alert: Alert) -> None:
        """Show it on a line to clients attached to the experiment, and to clients named in the settings."""
        text = f"rltui {self._experiment}: {alert.title}: {alert.text}"
        duration_s = _DISPLAY_S[alert.severity]
        session = paths.tmux_session(self._experiment)
        await show_message(paths.tmux_socket(), text, session=session, duration_s=duration_s)
        for server in self.alerts.tmux:
            await show_message(server, text, patterns=self.alerts.tmux_clients, duration_s=duration_s)

    async def run_command(self, alert: Alert) -> None:
        """Run the user's command, if there is one, with the alert as JSON on its stdin. Processes that it
        leaves in the background go on.

        Raises:
            RltuiError: if it failed.
        """
        if not (command := self.alerts.command):
            return
        document = alert.to_plain() | {"experiment": self._experiment}
        result = await subprocesses.run(
            command,
            stdin=json.dumps(document).encode() + b"\n",
            variables=_variables(alert, self._experiment),
            timeout_s=_COMMAND_S,
        )
        if result.code is None:
            raise RltuiError(f"{command[0]} took longer than {_COMMAND_S:g} s and was ended")
        if result.failure:
            raise RltuiError(f"{command[0]} {result.failure}")


def _variables(alert: Alert, experiment: str) -> dict[str, str]:
    """The alert as environment variables, for scripts that do not read JSON. Control characters
    are left out.
    """
    values = {
        "KIND": alert.kind,
        "SEVERITY": alert.severity,
        "TITLE": alert.title,
        "TEXT": alert.text,
        "EXPERIMENT": experiment,
        "COMPONENT": alert.component or "",
    }
    return {
        f"RLTUI_ALERT_{name}": "\n".join(map(plain_text, value[:_LONGEST_VARIABLE].split("\n")))
        for name, value in values.items()
    }
