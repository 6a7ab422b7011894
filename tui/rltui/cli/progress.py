"""Shows what a command waits for, and how long already: on stderr, drawn in place on a terminal.

Nothing is shown of what takes less than half a second.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType

from rltui.base.text import duration
from rltui.cli.table import clip, room
from rltui.cli.terminal import InPlace, can_be_drawn_on

_QUIET_S = 0.5
_TICK_S = 1.0


class Waiting:
    """A line for each thing that is waited for. A context manager; what is drawn stays behind it.

    Where stderr is no terminal, each line is printed once, when it is told.
    """

    def __init__(self) -> None:
        self._area = InPlace(sys.stderr) if can_be_drawn_on(sys.stderr) else None
        self._lines: dict[str, tuple[str, float | None]] = {}
        self._lock = threading.Lock()
        self._is_visible = False
        self._over = threading.Event()
        self._ticking = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Waiting:
        if self._area is not None:
            self._ticking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        if self._area is not None:
            self._ticking.join()

    def show(self, key: str, text: str, *, since: float | None = None) -> None:
        """Show `text` in place of what stood under this key. `since`: it goes on, and is waited for from
        then on (`time.monotonic`).
        """
        if self._area is None:
            print(text, file=sys.stderr, flush=True)
            return
        with self._lock:
            self._lines[key] = (text, since)
        if self._is_visible:
            self._draw()

    def clear(self) -> None:
        with self._lock:
            self._lines.clear()
        if self._is_visible:
            self._draw()

    def _tick(self) -> None:
        if self._over.wait(_QUIET_S):
            return
        self._is_visible = True
        self._draw()
        while not self._over.wait(_TICK_S):
            self._draw()

    def _draw(self) -> None:
        width, now = room("stderr") or 80, time.monotonic()
        with self._lock:
            lines = [
                text if since is None else f"{clip(text, width - 8)} {duration(now - since)}"
                for text, since in self._lines.values()
            ]
            if self._area is not None:
                self._area.draw([clip(line, width) for line in lines])


@contextmanager
def working(text: str) -> Iterator[None]:
    """Says what is waited for within. Nothing else may be printed meanwhile."""
    if can_be_drawn_on(sys.stderr):
        with Waiting() as waiting:
            waiting.show("", text, since=time.monotonic())
            try:
                yield
            finally:
                waiting.clear()
        return
    with call_after(_QUIET_S, partial(print, f"{text} …", file=sys.stderr, flush=True)):
        yield


@contextmanager
def call_after(seconds: float | None, function: Callable[[], object]) -> Iterator[None]:
    """Call `function`, in a thread, if it takes longer than that within; `None`: never."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
