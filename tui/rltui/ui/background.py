"""Work that goes on while the screen does other things, and whether anybody sees what it is for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker


def in_background(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, object]], *, group: str, exclusive: bool = True
) -> Worker[object]:
    """Await `work()` until it ends or `node` goes; `exclusive`: calls off what the group has under way.

    It is given as what to call: a coroutine that is called off before it began is never awaited, and Python
    warns of that.
    """
    return node.run_worker(work, name=group, group=group, exclusive=exclusive)


def is_in_front(node: DOMNode) -> bool:
    """Whether its screen is the top one, or lies behind dialogs alone; never while the app closes."""
    if not node.screen.is_current:  # which also counts a covered screen
        return False
    top = node.app.screen
    return node.screen is top or top.is_modal
