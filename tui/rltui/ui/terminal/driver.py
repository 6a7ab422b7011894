"""Between Textual and the terminal: writes only cells that changed, no faster than the line takes them."""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import sys
import threading
import time
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Iterable
from functools import partial
from io import TextIOWrapper
from statistics import median
from typing import TYPE_CHECKING, cast

from rich.control import Control
from textual import events
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from rltui.ui.terminal.abilities import Abilities
from rltui.ui.terminal.cells import Cells
from rltui.ui.terminal.incoming import ANSWER_TIMEOUT_S, Incoming

if TYPE_CHECKING:
    from textual.app import App
    from textual.geometry import Offset, Size


FAST_BYTES_PER_S = 8000
SLOW_BYTES_PER_S = 3500
"""Rates at which frames may be written that nobody waits for, on a fast and on a slow line."""
MAX_PAUSE_S = 0.5
"""Longest pause between such frames on a fast line, however large the screen."""
_SLOW_ANSWER_S = 0.15
"""A line is slow if it takes longer from a frame to the answer that it is displayed."""
WINDOW_BYTES = 8192
"""Bytes under way at most, also where a person waits: keys would queue up behind more."""


class Pacing:
    """Says when the next frame may be written. After each the terminal is asked whether it is shown."""

    def __init__(self) -> None:
        self._unanswered: deque[tuple[float, int]] = deque()
        self._answers_s: deque[float] = deque(maxlen=5)
        self._next_at = 0.0
        self.expects_answers = True
        """Whether to ask the terminal after a frame: not where it did not answer before."""

    @property
    def is_slow(self) -> bool:
        return bool(self._answers_s) and median(self._answers_s) > _SLOW_ANSWER_S

    def wait_s(self, now: float, *, is_urgent: bool) -> float:
        """Seconds until a frame may be written; 0 means now. An answer may shorten it."""
        if self._unanswered and now - self._unanswered[0][0] >= ANSWER_TIMEOUT_S:
            self._unanswered.clear()
            self.expects_answers = False
        answer_s = self._unanswered[0][0] + ANSWER_TIMEOUT_S - now if self._unanswered else 0.0
        if is_urgent:
            return answer_s if sum(size for _, size in self._unanswered) >= WINDOW_BYTES else 0.0
        return max(0.0, self._next_at - now, answer_s)

    def record_frame(self, now: float, size: int) -> None:
        if self.expects_answers:
            self._unanswered.append((now, size))
        pause_s = size / SLOW_BYTES_PER_S if self.is_slow else min(MAX_PAUSE_S, size / FAST_BYTES_PER_S)
        self._next_at = max(now, self._next_at) + pause_s

    def record_answer(self, now: float) -> None:
        """The terminal displays the oldest frame that it was asked about."""
        self.expects_answers = True
        if self._unanswered:
            self._answers_s.append(now - self._unanswered.popleft()[0])


_WATCH_BACKGROUND = "\x1b]11;?\x1b\\\x1b[?2031h"
"""Asks for the background colour, and for a report whenever dark and light change. Most terminals do one of
both, all others ignore it.
"""
_UNWATCH_BACKGROUND = "\x1b[?2031l"
_QUERY_CURSOR = "\x1b[6n"
"""Asks for the cursor's position. Answered in order with the output before it, by every terminal we know of.
"""
_URGENT_S = 0.5
"""A person waits for what changes so soon after a key."""
_BACKLOG_S = 0.05
"""Pause before the next try while something is still being written."""
_LEAVE_TIMEOUT_S = 1.0
"""How long to wait on leaving for answers under way, which would else be typed into the shell."""
READ_BYTES = 4096
_ENDING_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
TERMINAL_GONE = 128 + signal.SIGHUP
"""Exit code where the terminal has gone, as if by SIGHUP, which may come later or not at all."""


class TerminalDriver(LinuxDriver):
    """Paints what `show` is given. Survives a terminal that goes away."""

    def __init__(
        self, app: App[None], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        # Else Textual has two ideas of a terminal that reports no rows, and paints for one after the other.
        super().__init__(app, debug=debug, mouse=mouse, size=size or self._get_terminal_size())
        self._outlet = _Outlet(sys.__stderr__.fileno() if sys.__stderr__ else 2)
        self._file = cast(TextIOWrapper, self._outlet)
        self._cells = Cells(0, 0)
        self._pacing = Pacing()
        self._timer: asyncio.TimerHandle | None = None
        self._urgent_until = 0.0
        self._cursor: Offset | None = None
        self._is_painting = False
        self._queries_sent = 0
        self._answers_received = 0
        self._answer = threading.Event()
        self._watches_background = False
        """Whether the terminal was asked to report its background."""
        self._input_end = -1
        """Event descriptor that ends the input thread; -1 while the terminal is not ours."""

    def show(
        self, update: ChopsUpdate | LayoutUpdate, size: Size, cursor: Offset, abilities: Abilities
    ) -> None:
        """Show `update` on a screen of `size` as soon as the line takes it, together with all before it."""
        if (self._cells.width, self._cells.height) != size:
            self._cells = Cells(*size, is_ascii=abilities.is_ascii)
        if isinstance(update, LayoutUpdate):
            for y, strips in enumerate(update.strips, update.region.y):
                x = update.region.x
                for strip in strips:
                    self._cells.draw(x, y, strip, abilities.colors)
                    x += strip.cell_length
            self._urgent_until = max(self._urgent_until, time.monotonic() + _URGENT_S)
        else:
            for y, start, stop in update.spans:
                for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                    if chop is not None and x < stop and end > start:
                        self._cells.draw(x, y, chop.crop(0, min(end, stop) - x), abilities.colors)
        self._cursor = cursor
        self._paint()

    def repaint(self) -> None:
        """Paint all of the screen, whatever the terminal shows."""
        self._cells.invalidate()
        self._urgent_until = time.monotonic() + _URGENT_S
        self._paint()

    def watch_background(self, *, enabled: bool) -> None:
        """Post a `BackgroundColorReported` now and whenever the background changes, if the terminal tells."""
        if enabled != self._watches_background:
            self._watches_background = enabled
            self.write(_WATCH_BACKGROUND if enabled else _UNWATCH_BACKGROUND)

    def process_message(self, message: Message) -> None:
        """Take answers out, and paint soon after keys. Called in the thread that reads them."""
        if isinstance(message, events.CursorPosition):
            self._answers_received += 1
            self._answer.set()
            self._loop.call_soon_threadsafe(self._record_answer, time.monotonic())
            return
        if isinstance(message, events.InputEvent | events.Paste):
            self._urgent_until = time.monotonic() + _URGENT_S
        super().process_message(message)

    def start_application_mode(self) -> None:
        """Take the terminal, whose state is unknown."""
        self._input_end = os.eventfd(0)
        self._key_thread = None
        super().start_application_mode()  # type: ignore[no-untyped-call] # Textual has no types here
        if self._key_thread is None:  # it belongs to another program now: we were continued by `bg`
            self._release_input()
            return
        if self._watches_background:
            self.write(_WATCH_BACKGROUND)
        self._is_painting = True
        for signum in _ENDING_SIGNALS:
            self._loop.add_signal_handler(signum, partial(self._app.exit, return_code=128 + signum))
        self._pacing = Pacing()
        self._queries_sent = self._answers_received = 0
        self.repaint()

    def stop_application_mode(self) -> None:
        """Give the terminal back as it was, once its answers have come."""
        self._is_painting = False
        for signum in _ENDING_SIGNALS:
            self._loop.remove_signal_handler(signum)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        end = time.monotonic() + _LEAVE_TIMEOUT_S
        while (
            self._answers_received < self._queries_sent
            and not self._outlet.is_gone
            and (remaining_s := end - time.monotonic()) > 0
        ):
            self._answer.wait(remaining_s)
            self._answer.clear()
        if self._watches_background:
            self.write(_UNWATCH_BACKGROUND)
        super().stop_application_mode()
        self._release_input()

    def _release_input(self) -> None:
        os.close(self._input_end)
        self._input_end = -1

    def _sigtstp_application(self, *_: object) -> None:
        """Stop: at once where the terminal is not ours, else as soon as that is given back, which must not
        happen in the midst of taking it.
        """
        if self._input_end < 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            self._loop.call_soon_threadsafe(self._stop_process)

    def _stop_process(self) -> None:
        if self._input_end >= 0:
            self.suspend_application_mode()
            self._must_signal_resume = True
            os.kill(os.getpid(), signal.SIGSTOP)

    def _sigcont_application(self, *_: object) -> None:
        """Take the terminal again, if it was given back for a stop."""
        if self._must_signal_resume:
            self._loop.call_soon_threadsafe(self._resume)

    def _resume(self) -> None:
        if self._must_signal_resume and self._input_end < 0:
            self.resume_application_mode()

    def close(self) -> None:
        """Write what remains, as far as the terminal takes it: one that does not read must not keep us."""
        if self._writer_thread is not None:
            threading.Thread(target=self._writer_thread.stop, daemon=True).start()
            self._writer_thread.join(_LEAVE_TIMEOUT_S)

    def disable_input(self) -> None:
        """Read no more, at once."""
        if self._key_thread is not None and self._key_thread.is_alive() and not self.exit_event.is_set():
            os.eventfd_write(self._input_end, 1)
        super().disable_input()

    def run_input_thread(self) -> None:
        """Read keys until we leave or the terminal goes away. Other bytes than UTF-8 end nothing."""
        incoming = Incoming()
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._input_end, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select(incoming.timeout_s)}
                if self._input_end in ready:
                    os.eventfd_read(self._input_end)
                    return
                if self.fileno not in ready:
                    self._process(incoming.flush())
                    continue
                try:
                    data = os.read(self.fileno, READ_BYTES)
                except OSError:
                    data = b""
                if not data:
                    self._outlet.is_gone = True
                    self._loop.call_soon_threadsafe(partial(self._app.exit, return_code=TERMINAL_GONE))
                    return
                self._process(incoming.feed(decode(data)))

    def _process(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.process_message(message)

    def _paint(self) -> None:
        """Write what changed, or do so when that is possible."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_painting or self._writer_thread is None:
            return
        now = time.monotonic()
        wait_s = self._pacing.wait_s(now, is_urgent=now < self._urgent_until)
        if not wait_s and self._writer_thread._queue.qsize():  # noqa: SLF001 - there is no other way to see it
            wait_s = _BACKLOG_S
        if wait_s:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._paint)
            return
        if not (changes := self._cells.changes()):
            return
        assert self._cursor is not None
        frame = changes + Control.move_to(*self._cursor).segment.text
        if self._app._sync_available:  # noqa: SLF001 - as `App._begin_update`
            frame = f"{SYNC_START}{frame}{SYNC_END}"
        if self._pacing.expects_answers:
            frame += _QUERY_CURSOR
            self._queries_sent += 1
        self.write(frame)
        self._pacing.record_frame(now, len(frame.encode()))

    def _record_answer(self, now: float) -> None:
        self._pacing.record_answer(now)
        if self._timer is not None:
            self._paint()


class _Outlet:
    """The terminal's file. What is written once the terminal is gone is dropped."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_gone = False

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def flush(self) -> None:
        """Writes are not buffered."""

    def write(self, text: str) -> None:
        data = text.encode(errors="replace")
        try:
            while data and not self.is_gone:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self.is_gone = True
