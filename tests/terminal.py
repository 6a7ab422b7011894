"""A real terminal: tmux on a socket of its own runs a program, takes keys and returns the screen."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from tests.waiting import retry_until

_numbers = count(1)


class Terminal:
    """`argv` in a terminal of `columns` × `rows`. Closing it is what a lost ssh connection does."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int = 160, rows: int = 45
    ) -> None:
        self._env = {**env}
        # One of its own each time: a server that is about to leave would take new sessions with it.
        self._socket = f"term{next(_numbers)}-{env['RLTUI_TMUX_SOCKET']}"
        size = ("-x", str(columns), "-y", str(rows))
        new = ("new-session", "-d", "-s", "term", *size, "-c", str(cwd), shlex.join(argv))
        # Its end can be told from a broken server. Of its last words tmux may have lost some by then.
        self._tmux(*new, ";", "set-option", "-g", "remain-on-exit", "on")

    def screen(self, *, styled: bool = False) -> str:
        """The text on the screen; `styled`: with its colours, as escape sequences."""
        return self._tmux("capture-pane", "-p", *(["-e", "-N"] if styled else []), "-t", "term")

    def press(self, *keys: str) -> None:
        """Press keys, all at once, in tmux's names: `Enter`, `Escape`, `C-r`, `a`."""
        self._tmux("send-keys", "-t", "term", *keys)

    def wait_for(self, text: str, *, timeout_s: float = 20.0) -> str:
        """The screen, once it shows `text`.

        Raises:
            AssertionError: with the last screen, if it never does.
        """
        probe = partial(_with_text, text)
        return self.wait_until(probe, repr(text), timeout_s=timeout_s)

    def wait_until(self, probe: Callable[[str], str], what: str, *, timeout_s: float = 20.0) -> str:
        """The result of `probe` on the screen, once it is not empty.

        Raises:
            AssertionError: with the last screen, if it stays empty.
        """
        try:
            return retry_until(lambda: probe(self.screen()), timeout_s=timeout_s, interval_s=0.1)
        except TimeoutError:
            raise AssertionError(f"{what} never appeared on:\n{self.screen()}") from None

    def wait_for_end(self) -> None:
        """Wait until the program has ended."""
        retry_until(lambda: self._tmux("display-message", "-p", "-t", "term", "#{pane_dead}") == "1\n")

    @property
    def pid(self) -> int:
        """Pid of the program."""
        return int(self._tmux("display-message", "-p", "-t", "term", "#{pane_pid}"))

    def close(self) -> None:
        """End the terminal; what runs in it gets SIGHUP."""
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], env=self._env, check=False)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", *arguments]
        result = subprocess.run(command, env=self._env, capture_output=True, text=True, check=True)
        return result.stdout


def _with_text(text: str, screen: str) -> str:
    return screen if text in screen else ""
