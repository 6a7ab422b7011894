"""A program on a terminal that somebody reads, near or over a slow line, and when texts were shown."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.screen_model import ScreenModel

COLUMNS, ROWS = 160, 45
_LOOK_MS = 100
"""Between two looks whether the terminal was closed."""
BARE_APP = [sys.executable, str(Path(__file__).with_name("bare_app.py"))]
BARE_TEXT = "bare peer painted"


@dataclass(frozen=True, slots=True)
class Line:
    """What lies between the program and the eye, and back to the keys."""

    delay_s: float = 0.0
    """In each direction."""
    bytes_per_s: float | None = None
    """Towards the eye; the program's writes block while the line is full."""


NEAR = Line()


class Terminal:
    """The emulator's side: shows what is written, as it comes, and answers where the cursor is."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = COLUMNS,
        rows: int = ROWS,
        line: Line = NEAR,
        answers: bool = True,
        background: str = "",
    ) -> None:
        """`background`: answered where it is asked for, such as `ffff/ffff/ffff`."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._line = line
        self._answers = answers
        self._background = background
        self._screen = ScreenModel(columns, rows)
        self._awaited: dict[Callable[[str], bool], float | None] = {}
        self._shown = threading.Condition()
        self.bytes_total = 0
        """Written to the terminal so far."""
        self.written = b""
        """All of it, for tests that look at sequences."""
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        self._under_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        self._typed: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._read, self._arrive, self._type)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def text(self) -> str:
        """What the screen shows."""
        with self._shown:
            return self._screen.text

    def expect(self, *texts: str) -> None:
        """From now on, look for these; what is shown already counts."""
        self.expect_that(*((lambda screen, text=text: text in screen) for text in texts))

    def expect_that(self, *conditions: Callable[[str], bool]) -> None:
        """As `expect`, of the text of the screen."""
        with self._shown:
            self._awaited = dict.fromkeys(conditions)
            self._look(time.monotonic())

    def painted_at(self, *, timeout_s: float = 30.0) -> float:
        """When the last of what was expected was shown, on the monotonic clock."""
        with self._shown:
            if not self._shown.wait_for(lambda: None not in self._awaited.values(), timeout_s):
                raise TimeoutError(f"not shown what was expected, but:\n{self._screen.text}")
            return max(at for at in self._awaited.values() if at is not None)

    @property
    def echoes(self) -> bool:
        """Whether the terminal is as a shell wants it."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    def wait_for(self, text: str, *, timeout_s: float = 30.0) -> None:
        """Until `text` is shown."""
        self.expect(text)
        self.painted_at(timeout_s=timeout_s)

    def press(self, keys: str | bytes) -> float:
        """Type; returns when."""
        at = time.monotonic()
        self._typed.put((at + self._line.delay_s, keys if isinstance(keys, bytes) else keys.encode()))
        return at

    def hang_up(self) -> None:
        """The terminal goes away, as when the window is closed."""
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        """Detach, by force where `q` does not do."""
        if self.process.poll() is None and self._master >= 0:
            self.press("q")
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._typed.put((0.0, b""))
        if self._master >= 0:
            for thread in self._threads:
                thread.join(5)
            self.hang_up()

    def _read(self) -> None:
        chunk = 1 << 16 if self._line.bytes_per_s is None else 512
        poll = select.poll()
        poll.register(self._master, select.POLLIN)
        while True:
            # While somebody is reading from it, a closed terminal is not gone.
            while not poll.poll(_LOOK_MS):
                pass
            try:
                data = os.read(self._master, chunk)
            except OSError:  # EIO: the program has closed its side; or we have closed ours
                data = b""
            if self._line.bytes_per_s is not None:
                time.sleep(len(data) / self._line.bytes_per_s)
            self._under_way.put((time.monotonic() + self._line.delay_s, data))
            if not data:
                return

    def _arrive(self) -> None:
        while True:
            at, data = self._under_way.get()
            time.sleep(max(0.0, at - time.monotonic()))
            if not data:
                return
            with self._shown:
                self.bytes_total += len(data)
                asked = self._screen.cursor_requests
                self._screen.feed(data)
                self.written += data
                self._look(time.monotonic())
                self._shown.notify_all()
            if self._background and b"\x1b]11;?" in data:
                self.press(f"\x1b]11;rgb:{self._background}\x1b\\")
            if self._answers:
                self.press("\x1b[1;1R" * (self._screen.cursor_requests - asked))

    def _type(self) -> None:
        while True:
            at, data = self._typed.get()
            time.sleep(max(0.0, at - time.monotonic()))
            if not at:
                return
            with contextlib.suppress(OSError):
                os.write(self._master, data)

    def _look(self, at: float) -> None:
        pending = [condition for condition, seen in self._awaited.items() if seen is None]
        text = self._screen.text if pending else ""
        for condition in pending:
            if condition(text):
                self._awaited[condition] = at


def _take_terminal() -> None:
    """Make the terminal that of the new session, so that closing it hangs up."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextlib.contextmanager
def opened(
    argv: Sequence[str],
    *texts: str,
    cwd: Path,
    env: Mapping[str, str],
    columns: int = COLUMNS,
    rows: int = ROWS,
    line: Line = NEAR,
) -> Iterator[tuple[Terminal, float]]:
    """A program whose first frame shows `texts`, and the seconds that took."""
    terminal = Terminal(argv, cwd=cwd, env=env, columns=columns, rows=rows, line=line)
    try:
        terminal.expect(*texts)
        yield terminal, terminal.painted_at() - terminal.started
    finally:
        terminal.close()
