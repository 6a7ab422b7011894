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
from rltui.ui.terminal.incoming import PATIENCE_S, Incoming

if TYPE_CHECKING:
    from textual.app import App
    from textual.geometry import Offset, Size


FAST_BYTES_PER_S = 8000
SLOW_BYTES_PER_S = 3500
"""What frames that nobody asked for may take, on a slow line."""
LONGEST_PAUSE_S = 0.5
"""Between such frames where the line is not slow, however large the screen."""
_SLOW_ANSWER_S = 0.15
"""A line that takes longer to show a frame and to say so is slow."""
WINDOW_BYTES = 8192
"""Written and not shown yet: more than that waits, also where a person waits, or keys would queue up."""


class Pacing:
    """Says when the next frame may be written. After each the terminal is asked whether it is shown."""

    def __init__(self) -> None:
        self._unanswered: deque[tuple[float, int]] = deque()
        self._answers_s: deque[float] = deque(maxlen=5)
        self._next_at = 0.0
        self._asks = True

    @property
    def asks(self) -> bool:
        """Whether to ask after a frame: not where no answer came."""
        return self._asks

    @property
    def is_slow(self) -> bool:
        return bool(self._answers_s) and median(self._answers_s) > _SLOW_ANSWER_S

    def wait_s(self, now: float, *, hurry: bool) -> float:
        """Seconds until a frame may be written; 0 means now. An answer may shorten it."""
        if self._unanswered and now - self._unanswered[0][0] >= PATIENCE_S:
            self._unanswered.clear()
            self._asks = False
        left = self._unanswered[0][0] + PATIENCE_S - now if self._unanswered else 0.0
        if hurry:
            return left if sum(size for _, size in self._unanswered) >= WINDOW_BYTES else 0.0
        return max(0.0, self._next_at - now, left)

    def wrote(self, now: float, size: int) -> None:
        """A frame of `size` bytes, and the question after it if `asks`."""
        if self._asks:
            self._unanswered.append((now, size))
        pause_s = size / SLOW_BYTES_PER_S if self.is_slow else min(LONGEST_PAUSE_S, size / FAST_BYTES_PER_S)
        self._next_at = max(now, self._next_at) + pause_s

    def answered(self, now: float) -> None:
        """The terminal has shown the oldest frame it was asked about."""
        self._asks = True
        if self._unanswered:
            self._answers_s.append(now - self._unanswered.popleft()[0])


_FOLLOW = "\x1b]11;?\x1b\\\x1b[?2031h"
"""Which colour is the background? And from now on, tell when dark and light change. Most terminals answer the
one or do the other, all others take no notice."""
_UNFOLLOW = "\x1b[?2031l"
_ASK = "\x1b[6n"
"""Where is the cursor? Answered in order with what was written before, and by every terminal we know of."""
_HURRY_S = 0.5
"""What changes so soon after a key is what the person waits for."""
_BACKLOG_S = 0.05
"""Looked at again when something is still being written."""
_LEAVE_S = 1.0
"""Waited, on leaving, for answers on their way, which would else be typed into the shell."""
READ_BYTES = 4096
_ENDING_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
GONE = 128 + signal.SIGHUP
"""Exit code where the terminal has gone, as if by SIGHUP, which may come later or not at all."""


class TerminalDriver(LinuxDriver):
    """Paints through `show`. Survives a terminal that goes away."""

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
        self._hurry_until = 0.0
        self._cursor: Offset | None = None
        self._is_painting = False
        self._asked = 0
        self._answers = 0
        self._answer = threading.Event()
        self._follows = False
        """Whether the terminal was asked what it looks like."""
        self._input_end = -1
        """Readable when no more input is wanted; there only while the terminal is ours."""

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
                    self._cells.put(x, y, strip, abilities.colors)
                    x += strip.cell_length
            self._hurry_until = max(self._hurry_until, time.monotonic() + _HURRY_S)
        else:
            for y, start, stop in update.spans:
                for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                    if chop is not None and x < stop and end > start:
                        self._cells.put(x, y, chop.crop(0, min(end, stop) - x), abilities.colors)
        self._cursor = cursor
        self._paint()

    def repaint(self) -> None:
        """Paint all of the screen, whatever the terminal shows."""
        self._cells.forget_shown()
        self._hurry_until = time.monotonic() + _HURRY_S
        self._paint()

    def follow_background(self, *, wanted: bool) -> None:
        """Whether to post a `BackgroundColorReported` now, if the terminal tells, and whenever it changes."""
        if wanted != self._follows:
            self._follows = wanted
            self.write(_FOLLOW if wanted else _UNFOLLOW)

    def process_message(self, message: Message) -> None:
        """In the thread that reads keys: answers are ours, keys make haste."""
        if isinstance(message, events.CursorPosition):
            self._answers += 1
            self._answer.set()
            self._loop.call_soon_threadsafe(self._take_answer, time.monotonic())
            return
        if isinstance(message, events.InputEvent | events.Paste):
            self._hurry_until = time.monotonic() + _HURRY_S
        super().process_message(message)

    def start_application_mode(self) -> None:
        """Take the terminal, whose state is unknown."""
        self._input_end = os.eventfd(0)
        self._key_thread = None
        super().start_application_mode()  # type: ignore[no-untyped-call] # Textual has no types here
        if self._key_thread is None:  # it belongs to another program now: we were continued by `bg`
            self._let_go()
            return
        if self._follows:
            self.write(_FOLLOW)
        self._is_painting = True
        for signum in _ENDING_SIGNALS:
            self._loop.add_signal_handler(signum, partial(self._app.exit, return_code=128 + signum))
        self._pacing = Pacing()
        self._asked = self._answers = 0
        self.repaint()

    def stop_application_mode(self) -> None:
        """Give the terminal back as it was, after what it still has to say to us."""
        self._is_painting = False
        for signum in _ENDING_SIGNALS:
            self._loop.remove_signal_handler(signum)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        end = time.monotonic() + _LEAVE_S
        while (
            self._answers < self._asked and not self._outlet.is_gone and (left := end - time.monotonic()) > 0
        ):
            self._answer.wait(left)
            self._answer.clear()
        if self._follows:
            self.write(_UNFOLLOW)
        super().stop_application_mode()
        self._let_go()

    def _let_go(self) -> None:
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
            self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        if self._must_signal_resume and self._input_end < 0:
            self.resume_application_mode()

    def close(self) -> None:
        """As far as the terminal takes it: one that has stopped reading must not keep us."""
        if self._writer_thread is not None:
            threading.Thread(target=self._writer_thread.stop, daemon=True).start()
            self._writer_thread.join(_LEAVE_S)

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
                ready = {key.fd for key, _ in selector.select(incoming.patience_s)}
                if self._input_end in ready:
                    os.eventfd_read(self._input_end)
                    return
                if self.fileno not in ready:
                    self._take_input(incoming.release())
                    continue
                try:
                    data = os.read(self.fileno, READ_BYTES)
                except OSError:
                    data = b""
                if not data:
                    self._outlet.is_gone = True
                    self._loop.call_soon_threadsafe(partial(self._app.exit, return_code=GONE))
                    return
                self._take_input(incoming.take(decode(data)))

    def _take_input(self, messages: Iterable[Message]) -> None:
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
        wait_s = self._pacing.wait_s(now, hurry=now < self._hurry_until)
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
        if self._pacing.asks:
            frame += _ASK
            self._asked += 1
        self.write(frame)
        self._pacing.wrote(now, len(frame.encode()))

    def _take_answer(self, at: float) -> None:
        self._pacing.answered(at)
        if self._timer is not None:
            self._paint()


class _Outlet:
    """The terminal's file. What is written after it is gone is lost without a word."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_gone = False

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def flush(self) -> None:
        """Nothing is kept back."""

    def write(self, text: str) -> None:
        data = text.encode(errors="replace")
        try:
            while data and not self.is_gone:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self.is_gone = True
