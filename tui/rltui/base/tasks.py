"""Tasks whose failure is logged at once: asyncio logs a failed task only when it is collected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

logger = logging.getLogger(__name__)

PAUSE_S = 2.0
"""Pause before work that failed is started again."""
_QUIET_S = 60.0
_LEAST_SHARE = 0.2
"""Least part of its interval that a loop sleeps."""
_MAX_ERROR_CHARS = 300
"""Longest error that is reported, in characters."""
_MAX_REMEMBERED = 50
"""Errors that are remembered, so as not to be reported again."""


def spawn(work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
    """Run `work` in a task of that name. An unexpected error goes to the supervisor's log at once."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)
    return task


async def run_forever(work: Callable[[], Awaitable[None]], name: str, notify: Callable[[str], None]) -> None:
    """Run `work`, which never returns, for ever: where an error ends it, it is started again after a pause.

    `notify` is called with the first error of a kind; the log has the traceback. One thing that cannot be
    understood must not end a supervisor, and with it all that watches the run.
    """
    reported: set[str] = set()
    while True:
        try:
            await work()
        except Exception as error:
            if (kind := f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS]) not in reported:
                logger.exception("%s failed; it is begun anew", name)
                notify(f"{name} failed and is restarting: {kind}")
            reported = {*list(reported)[-_MAX_REMEMBERED:], kind}
        await asyncio.sleep(PAUSE_S)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the task %r failed", task.get_name(), exc_info=error)


def next_tick(interval_s: float) -> float:
    """The time on the loop's clock of the next poll of those that poll at this interval: they wake together,
    since each time that a process wakes costs it as much as a poll that finds nothing.
    """
    now = asyncio.get_running_loop().time()
    ticks = now // interval_s + 1
    is_near = ticks * interval_s - now < _LEAST_SHARE * interval_s
    return (ticks + is_near) * interval_s


async def tick(interval_s: float) -> None:
    """Sleep until the loops that poll at this interval wake together."""
    await asyncio.sleep(next_tick(interval_s) - asyncio.get_running_loop().time())


class IdleBackoff:
    """The pauses of a loop that polls: twice as long once it has found nothing for a minute."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._found_at = asyncio.get_running_loop().time()

    async def tick(self, *, has_found: bool) -> None:
        """Sleep until the next poll. `has_found`: the last one has."""
        now = asyncio.get_running_loop().time()
        if has_found:
            self._found_at = now
        await tick(self._interval_s * (1 + (now - self._found_at > _QUIET_S)))


class Signal:
    """Wakes all who wait, at every `notify`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Return at the next `notify`."""
        await self._event.wait()
