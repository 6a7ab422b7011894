"""A terminal of the component's own: the log and the shim's terminal show its output, keys come back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import termios
import time
import tty

_ROUND_BYTES = 256 * 1024
"""Most that is carried over at once."""
_MOST_WAITING = 256 * 1024
"""Bytes kept for a screen that does not take them; beyond, it misses some. Keys are read up to as many."""
_AGAIN_S = 0.02
"""Until the next look while one side takes nothing more."""
_QUIET_S = 2.0
"""Until the next look otherwise: SIGIO tells of anything sooner."""
_FAREWELL_S = 0.5
"""Longest time spent on the last of the output."""
_UNKNOWN_SIZE = bytes(8)
"""Rows and columns, and twice nothing, in two bytes each."""
_USUAL_SIZE = b"".join(number.to_bytes(2, sys.byteorder) for number in (24, 80, 0, 0))
_SANE = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[r\x1b[0m\x1b(B"
"""Ends what a program that was killed has left on: other screen, mouse, pasting, hidden cursor, colours."""


class Terminal:
    """Carries bytes between a component's terminal and the screen, the shim's own terminal.

    The log gets all of the output, the screen what it can take: a slow or lost one slows nothing.
    """

    def __init__(self, log: int, screen: int | None) -> None:
        """Raises OSError where no terminal can be had. `screen` is opened for both ways, without blocking."""
        leader, self.component = os.openpty()
        """The component's end, until it has it."""
        self._leader = _watched(leader)
        self._log = os.dup(log)
        self._log_problem = ""
        self._screen = screen
        self._unshown, self._untyped = bytearray(), bytearray()
        self._skipped = 0
        self._modes = termios.tcgetattr(screen) if screen is not None and os.isatty(screen) else None
        """Those of the screen before; `None`: it is no terminal."""
        if screen is not None and self._modes is not None:
            tty.setraw(screen, termios.TCSANOW)
            _watched(screen)
        self.resize()

    def handed_over(self) -> None:
        """The component has its end: ours would keep the output from ever being over."""
        os.close(self.component)

    def resize(self) -> None:
        """As large as the screen, which the component is told."""
        size = _UNKNOWN_SIZE
        if self._screen is not None and self._modes is not None:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(self._screen, termios.TIOCGWINSZ, _UNKNOWN_SIZE)
        is_known = any(size[:2]) and any(size[2:4])
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, size if is_known else _USUAL_SIZE)

    def show(self) -> float:
        """Carry over what there is, both ways. Returns the seconds until the next look."""
        has_more = self._read_output()
        self._read_keys()
        return _AGAIN_S if has_more or self._unshown or self._untyped else _QUIET_S

    def note(self, text: str) -> None:
        self._show(f"\r\n— {text} —\r\n".encode())

    def finish(self, text: str) -> None:
        """Carry over the rest and show a last line, for at most `_FAREWELL_S`."""
        deadline = time.monotonic() + _FAREWELL_S
        while self._read_output() and time.monotonic() < deadline:
            pass
        self._show(_SANE)
        self.note(text)
        while self._unshown and time.monotonic() < deadline:
            time.sleep(_AGAIN_S)
            self._show(b"")
        if self._screen is not None and self._modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._screen, termios.TCSANOW, self._modes)

    def _read_output(self) -> bool:
        """True when there may be more."""
        read = 0
        while read < _ROUND_BYTES:
            data = _read(self._leader)
            if not data:  # nothing now, or nobody has the other end open
                return False
            read += len(data)
            self._keep(data)
            self._show(data)
        return True

    def _keep(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._log, data) :]
        except OSError as error:  # a full disk
            if error.strerror != self._log_problem:
                self._log_problem = str(error.strerror)
                self.note(f"the log cannot be written: {self._log_problem}")

    def _show(self, data: bytes) -> None:
        if self._screen is None:
            return
        if len(self._unshown) + len(data) > _MOST_WAITING:
            self._skipped += len(self._unshown) + len(data)
            self._unshown.clear()
            return
        if self._skipped and data:
            self._unshown += f"\r\n… skipped {self._skipped} bytes, see the log\r\n".encode()
            self._skipped = 0
        self._unshown += data
        try:
            del self._unshown[: os.write(self._screen, self._unshown)]
        except BlockingIOError:  # a screen slower than the output
            return
        except OSError:  # it is gone: the component goes on, and the log has it all
            self._lose_screen()

    def _read_keys(self) -> None:
        while self._screen is not None and self._modes is not None and len(self._untyped) < _MOST_WAITING:
            data = _read(self._screen)
            if data is None:
                break
            if not data:
                self._lose_screen()
            self._untyped += data
        with contextlib.suppress(OSError):  # it takes no more for now, or nobody has the other end open
            del self._untyped[: os.write(self._leader, self._untyped)]

    def _lose_screen(self) -> None:
        if self._screen is not None:
            os.close(self._screen)
        self._screen = None
        self._unshown.clear()


def _read(descriptor: int) -> bytes | None:
    """What there is, at most a piece of it; `None`: nothing now, empty: the other end is gone."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _watched(descriptor: int) -> int:
    """Never blocks, and tells by SIGIO that there is something to read."""
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK | os.O_ASYNC)
    return descriptor
