"""A terminal for the component: its output goes to the log and the shim's own terminal, keys come back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import termios
import time
import tty

_ROUND_BYTES = 256 * 1024
"""Most bytes copied in one round."""
_MAX_PENDING_BYTES = 256 * 1024
"""Bytes that wait for a slow screen; beyond, it misses some. As many keys wait for the component."""
_BUSY_POLL_S = 0.02
"""Pause between two rounds while one side accepts nothing more."""
_IDLE_POLL_S = 2.0
"""Pause otherwise: SIGIO interrupts it as soon as there is something to read."""
_FINISH_TIMEOUT_S = 0.5
"""Longest time spent on the last of the output."""
_UNKNOWN_SIZE = bytes(8)
"""A `struct winsize` of zeros: rows, columns and two unused numbers, in two bytes each."""
_DEFAULT_SIZE = b"".join(number.to_bytes(2, sys.byteorder) for number in (24, 80, 0, 0))
_RESET_SEQUENCE = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[r\x1b[0m\x1b(B"
"""Switches off modes of a killed program: other screen, mouse, pasting, hidden cursor, colours."""


class Terminal:
    """Copies bytes between the component's terminal and the screen, which is the shim's own terminal.

    The log gets all of the output, the screen what it can take: a slow or lost one slows nothing.
    """

    def __init__(self, log: int, screen: int | None) -> None:
        """`screen` is open for reading and writing, and does not block.

        Raises:
            OSError: if no terminal can be had.
        """
        leader, self.component = os.openpty()
        """File descriptor of the component's end, until that has it."""
        self._leader = _notify_on_input(leader)
        self._log = os.dup(log)
        self._log_problem = ""
        self._screen = screen
        self._pending_output, self._pending_keys = bytearray(), bytearray()
        self._skipped = 0
        self._modes = termios.tcgetattr(screen) if screen is not None and os.isatty(screen) else None
        """Modes of the screen before; `None`: it is no terminal."""
        if screen is not None and self._modes is not None:
            tty.setraw(screen, termios.TCSANOW)
            _notify_on_input(screen)
        self.resize()

    def close_component_end(self) -> None:
        """Close this process's copy of the component's end: while one is open, the output never ends."""
        os.close(self.component)

    def resize(self) -> None:
        """Give the component's terminal the size of the screen; the kernel then tells the component."""
        size = _UNKNOWN_SIZE
        if self._screen is not None and self._modes is not None:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(self._screen, termios.TIOCGWINSZ, _UNKNOWN_SIZE)
        has_size = any(size[:2]) and any(size[2:4])
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, size if has_size else _DEFAULT_SIZE)

    def show(self) -> float:
        """Copy pending bytes both ways. Returns the seconds until the next round."""
        has_more = self._read_output()
        self._read_keys()
        return _BUSY_POLL_S if has_more or self._pending_output or self._pending_keys else _IDLE_POLL_S

    def note(self, text: str) -> None:
        self._write_screen(f"\r\n— {text} —\r\n".encode())

    def finish(self, text: str) -> None:
        """Copy the rest and show a last line, for at most `_FINISH_TIMEOUT_S`."""
        deadline = time.monotonic() + _FINISH_TIMEOUT_S
        while self._read_output() and time.monotonic() < deadline:
            pass
        self._write_screen(_RESET_SEQUENCE)
        self.note(text)
        while self._pending_output and time.monotonic() < deadline:
            time.sleep(_BUSY_POLL_S)
            self._write_screen(b"")
        if self._screen is not None and self._modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._screen, termios.TCSANOW, self._modes)

    def _read_output(self) -> bool:
        """True when there may be more to read."""
        read_bytes = 0
        while read_bytes < _ROUND_BYTES:
            data = _read(self._leader)
            if not data:  # nothing now, or nobody has the other end open
                return False
            read_bytes += len(data)
            self._write_log(data)
            self._write_screen(data)
        return True

    def _write_log(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._log, data) :]
        except OSError as error:  # a full disk
            if error.strerror != self._log_problem:
                self._log_problem = str(error.strerror)
                self.note(f"cannot write the log: {self._log_problem}")

    def _write_screen(self, data: bytes) -> None:
        if self._screen is None:
            return
        if len(self._pending_output) + len(data) > _MAX_PENDING_BYTES:
            self._skipped += len(self._pending_output) + len(data)
            self._pending_output.clear()
            return
        if self._skipped and data:
            self._pending_output += f"\r\n… skipped {self._skipped} bytes, see the log\r\n".encode()
            self._skipped = 0
        self._pending_output += data
        try:
            del self._pending_output[: os.write(self._screen, self._pending_output)]
        except BlockingIOError:  # a screen slower than the output
            return
        except OSError:  # it is gone: the component goes on, and the log has it all
            self._drop_screen()

    def _read_keys(self) -> None:
        while (
            self._screen is not None
            and self._modes is not None
            and len(self._pending_keys) < _MAX_PENDING_BYTES
        ):
            data = _read(self._screen)
            if data is None:
                break
            if not data:
                self._drop_screen()
            self._pending_keys += data
        with contextlib.suppress(OSError):  # it takes no more for now, or nobody has the other end open
            del self._pending_keys[: os.write(self._leader, self._pending_keys)]

    def _drop_screen(self) -> None:
        if self._screen is not None:
            os.close(self._screen)
        self._screen = None
        self._pending_output.clear()


def _read(descriptor: int) -> bytes | None:
    """At most 64 KiB; `None`: nothing now, empty: the other end is gone."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _notify_on_input(descriptor: int) -> int:
    """Make `descriptor` non-blocking and have SIGIO sent when there is something to read."""
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK | os.O_ASYNC)
    return descriptor
