"""The log, copied to the terminal in which the shim runs."""

from __future__ import annotations

import contextlib
import os
import time

_PANE_BYTES = 64 * 1024
"""Most bytes of the log that are shown at once."""
_INTERVALS_S = (0.5, 2.0)
"""Pauses between two polls of the log: the shortest while it grows, the longest while it is quiet."""
_FINISH_TIMEOUT_S = 0.5
"""Longest time spent on showing the last lines."""


class Pane:
    """Shows the log in the shim's own terminal, without ever waiting for that terminal."""

    def __init__(self, log: str) -> None:
        self._log = log
        self._reader = os.open(log, os.O_RDONLY)
        self._offset = os.fstat(self._reader).st_size
        self._screen = open_screen(os.O_WRONLY)
        self._interval_s = _INTERVALS_S[0]

    def show(self) -> float:
        """Show new lines of the log. Returns the seconds until the next call."""
        grew = os.fstat(self._reader).st_size != self._offset
        self._interval_s = _INTERVALS_S[0] if grew else min(2 * self._interval_s, _INTERVALS_S[1])
        self._pump()
        return self._interval_s

    def _pump(self) -> bool:
        """Show at most `_PANE_BYTES` of new lines; True when there are more."""
        if self._screen is None:
            return False
        size = os.fstat(self._reader).st_size
        self._offset = min(self._offset, size)
        if size - self._offset > _PANE_BYTES and not self._skip_to(size - _PANE_BYTES):
            return True
        data = os.pread(self._reader, _PANE_BYTES, self._offset)
        self._offset += self._write(data)
        return self._offset < size

    def note(self, text: str) -> None:
        self._write(f"\n— {text} —\n".encode())

    def finish(self, text: str) -> None:
        """Show the rest of the log and a last line, for at most `_FINISH_TIMEOUT_S`."""
        deadline = time.monotonic() + _FINISH_TIMEOUT_S
        while self._pump() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.note(text)

    def _skip_to(self, offset: int) -> bool:
        line_start = os.pread(self._reader, _PANE_BYTES, offset).find(b"\n") + 1
        skipped = offset + line_start - self._offset
        if not self._write(f"\n… skipped {skipped} bytes, see {self._log}\n".encode()):
            return False
        self._offset += skipped
        return True

    def _write(self, data: bytes) -> int:
        if self._screen is None or not data:
            return 0
        try:
            return os.write(self._screen, data)
        except BlockingIOError:  # scroll lock, or a terminal slower than the log
            return 0
        except OSError:  # the terminal is gone: the log file has it all
            os.close(self._screen)
            self._screen = None
            return 0


def open_pane(log: str) -> Pane | None:
    """None where the log cannot be read, or no descriptor is left: then nothing is shown, and all else goes
    on.
    """
    with contextlib.suppress(OSError):
        return Pane(log)
    return None


def open_screen(access: int) -> int | None:
    """Open stdout again, as a non-blocking descriptor: O_NONBLOCK set on stdout itself would hold for all
    processes that share it.
    """
    with contextlib.suppress(OSError):  # closed, or a socket: then nothing is shown
        return os.open("/proc/self/fd/1", access | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
    return None
