"""A program on a terminal of 160×45 that somebody reads, and when texts were painted on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROWS, COLUMNS = 45, 160
TAIL_BYTES = 8192
"""Searched again with what comes next, since a text may arrive in two reads."""
ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[ -/]*[0-OQ-Z\\^-~])"
)
BARE_APP = [sys.executable, str(Path(__file__).with_name("bare_app.py"))]
BARE_TEXT = "bare peer painted"


class Terminal:
    """The emulator's side. A thread reads all that is written, as it comes."""

    def __init__(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._awaited: dict[bytes, float | None] = {}
        self._painted = threading.Condition()
        self._tail = b""
        self.bytes_total = 0
        """Written to the terminal so far."""
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def expect(self, *texts: str) -> None:
        """From now on, look for these; earlier paintings do not count."""
        with self._painted:
            self._tail = b""
            self._awaited = {text.encode(): None for text in texts}

    def painted_at(self, *, timeout_s: float = 30.0) -> float:
        """When the last of the expected texts was painted, on the monotonic clock."""
        with self._painted:
            if not self._painted.wait_for(lambda: None not in self._awaited.values(), timeout_s):
                missing = [text.decode() for text, at in self._awaited.items() if at is None]
                raise TimeoutError(f"{missing} not painted; last: {ESCAPE.sub(b'', self._tail)[-2000:]!r}")
            return max(at for at in self._awaited.values() if at is not None)

    def press(self, keys: str) -> float:
        """Type; returns when."""
        at = time.monotonic()
        os.write(self._master, keys.encode())
        return at

    def close(self) -> None:
        """Detach, by force where `q` does not do."""
        with contextlib.suppress(OSError):
            self.press("q")
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:  # EIO: the program has closed its side
                return
            if not data:
                return
            self._take(data, time.monotonic())

    def _take(self, data: bytes, at: float) -> None:
        with self._painted:
            self.bytes_total += len(data)
            pending = [text for text, seen in self._awaited.items() if seen is None]
            self._tail = (self._tail + data)[-TAIL_BYTES - len(data) :]
            plain = ESCAPE.sub(b"", self._tail) if pending else b""
            for text in pending:
                if text in plain:
                    self._awaited[text] = at
            self._painted.notify_all()


@contextlib.contextmanager
def opened(
    argv: Sequence[str], *texts: str, cwd: Path, env: Mapping[str, str]
) -> Iterator[tuple[Terminal, float]]:
    """A program whose first frame shows `texts`, and the seconds that took."""
    terminal = Terminal(argv, cwd=cwd, env=env)
    try:
        terminal.expect(*texts)
        yield terminal, terminal.painted_at() - terminal.started
    finally:
        terminal.close()
