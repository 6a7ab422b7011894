"""Tasks whose failure is logged at once: asyncio logs a failed task only when it is collected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

logger = logging.getLogger(__name__)

PAUSE_S = 2.0
"""Pause before work that failed is started again."""
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
