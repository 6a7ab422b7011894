"""Work that goes on while the screen does other things."""

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
