"""Tasks whose failure is seen: asyncio says nothing of one that died until it is collected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

logger = logging.getLogger(__name__)


def spawn(work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
    """Run `work` in a task of that name. An unexpected error goes to the supervisor's log at once."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)
    return task


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the task %r failed", task.get_name(), exc_info=error)
