"""Supervision of a component on another host: its job status, and a new runner where one ended."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator

from rltui.core.api import Alert
from rltui.core.text import duration
from rltui.daemon.attempt import Attempt
from rltui.daemon.tasks import Signal
from rltui.errors import RltuiError
from rltui.services.job_status import JobStatus

logger = logging.getLogger(__name__)

_POLL_INTERVAL_S = 0.5
"""Pause between two reads of the status that the remote runner writes."""
_FOLLOW_INTERVALS_S = (1.0, 60.0)
"""First and longest pause before a runner that ended soon is replaced; each is twice the one before."""


class RemoteAttempt:
    """The last attempt of a component at its host."""

    def __init__(self, on_change: Callable[[JobStatus | None], None]) -> None:
        """`on_change` is called with the status before, whenever it has changed."""
        self.job_status: JobStatus | None = None
        """The status as last read; `None` until it was started there."""
        self._on_change = on_change
        self._changes = Signal()
        self._runner_started_at, self._pause_s = -math.inf, 0.0

    def refresh(self, attempt: Attempt) -> None:
        """Read the status that the runner of `attempt` wrote."""
        previous, self.job_status = self.job_status, attempt.job_status or self.job_status
        if self.job_status != previous:
            self._changes.notify()
            self._on_change(previous)

    async def watch(self, attempt: Attempt) -> None:
        while True:
            self.refresh(attempt)
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def wait_until_running(self) -> None:
        while self.job_status is None or self.job_status.phase == "pending":
            await self._changes.wait()

    async def restart_runner(
        self, attempt: Attempt, open_window: Callable[[Attempt], Awaitable[None]]
    ) -> None:
        """Replace a runner that ended before its component, by `open_window`.

        At once where that one had run for long, else after a pause that grows.
        """
        first, longest = _FOLLOW_INTERVALS_S
        while True:
            self._pause_s = 0.0 if time.monotonic() - self._runner_started_at >= longest else self._pause_s
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(longest, max(first, 2 * self._pause_s))
            self._runner_started_at = time.monotonic()
            try:
                attempt.forget_shim()
                await open_window(attempt)
            except RltuiError as error:
                logger.warning("%s cannot be followed: %s", attempt.spec.id, error)
            else:
                return

    def still_alive_reason(self) -> str:
        job_status = self.job_status
        where = job_status.where if job_status is not None and job_status.where else "its host"
        if job_status is None or job_status.lost_at is None:
            return f"still running on {where}"
        since = duration(time.time() - job_status.lost_at)
        return f"{where} has not answered for {since} ({job_status.problem}); it may still be running there"


def job_status_alerts(component: str, previous: JobStatus | None, job_status: JobStatus) -> Iterator[Alert]:
    """Alerts for the changes of a status that a person should notice."""

    def alert(title: str, text: str, *, is_good: bool = False) -> Alert:
        return Alert(
            kind="recovered" if is_good else "notice",
            severity="information" if is_good else "warning",
            title=title,
            text=text,
            component=component,
        )

    host = job_status.where or "its host"
    reason_text = f": {job_status.reason}" if job_status.reason else ""
    if previous is not None and (previous.phase, job_status.phase) == ("running", "pending"):
        yield alert(f"{component} was ended by its host, which will restart it", f"{host}{reason_text}")
    if previous is not None and job_status.starts > previous.starts > 0:
        yield alert(
            f"{component} was restarted by its host", f"{host}, start {job_status.starts}{reason_text}"
        )
    lost_at = None if previous is None else previous.lost_at
    if job_status.lost_at is not None and lost_at is None:
        text = f"{job_status.problem}; retrying. Processes there are unaffected."
        yield alert(f"{component}: no answer from {host}", text)
    if job_status.lost_at is None and lost_at is not None:
        text = f"after {duration(time.time() - lost_at)}"
        yield alert(f"{component}: {host} answers again", text, is_good=True)
