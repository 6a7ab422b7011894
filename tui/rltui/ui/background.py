"""Work that goes on while the screen does other things, and whether anybody sees what it is for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from textual.app import ScreenStackError
from textual.css.query import QueryError
from textual.dom import DOMNode, NoScreen
from textual.widget import MountError
from textual.worker import Worker


def in_background(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, object]], *, group: str, exclusive: bool = True
) -> Worker[object]:
    """Await `work()` until it ends or `node` goes; `exclusive`: calls off what the group has under way.

    It is given as what to call: a coroutine that is called off before it began is never awaited, and Python
    warns of that. Textual calls work off only after the children of `node` have gone: an answer that comes in
    between has nothing left to be shown on, and is dropped here.
    """

    async def until_it_goes() -> object:
        try:
            return await work()
        except (QueryError, NoScreen, ScreenStackError, MountError):
            if is_there(node):
                raise
            return None

    return node.run_worker(until_it_goes, name=group, group=group, exclusive=exclusive)


@dataclass(frozen=True, slots=True)
class Pace:
    """The time between two looks at something, so that all of them take a small part of a core."""

    interval_s: float
    pause_per_work: float
    """The pause is so many times as long as the look took of the processor."""
    longest_s: float

    async def follow(self, look: Callable[[], Coroutine[Any, Any, object]], wake: asyncio.Event) -> None:
        """Look again and again, for ever; at once where `wake` is set."""
        while True:
            wake.clear()
            began = time.process_time()
            await look()
            pause_s = max(self.interval_s, (time.process_time() - began) * self.pause_per_work)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(pause_s, self.longest_s)):
                    await wake.wait()


def is_there(node: DOMNode) -> bool:
    """It is mounted, and is not about to go."""
    return node.is_attached and not (node._pruning or node._closing or node.app._exit)  # noqa: SLF001


def is_in_front(node: DOMNode) -> bool:
    """A screen behind dialogs alone counts as in front; none does while the app closes."""
    if not node.screen.is_current:  # which also counts a covered screen
        return False
    top = node.app.screen
    return node.screen is top or top.is_modal
