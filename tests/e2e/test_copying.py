"""Selecting with the mouse and copying, in a real terminal inside tmux."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.conftest import Box
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.tmux]


@contextmanager
def open_app(counters: Box, *first: str) -> Iterator[Terminal]:
    """Open the app on a run whose logs count."""
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    terminal = Terminal([*first, sys.executable, "-m", "rltui"], cwd=counters.work, env=counters.env)
    try:
        terminal.wait_for("q detach")
        yield terminal
    finally:
        terminal.close()


def buffer(terminal: Terminal) -> str:
    """The text in tmux's paste buffer; empty where there is none."""
    try:
        return terminal._tmux("show-buffer")
    except subprocess.CalledProcessError:
        return ""


def select_count(terminal: Terminal) -> None:
    """Drag over the first word of a line, as a terminal tells it."""
    lines = terminal.wait_for("count ").splitlines()
    row, line = next((row, text) for row, text in enumerate(lines, start=1) if "count " in text)
    first = line.index("count ") + 1
    for event in (f"0;{first};{row}M", f"32;{first + 4};{row}M", f"0;{first + 4};{row}m"):
        terminal._tmux("send-keys", "-t", "term", "-l", f"\x1b[<{event}")
    terminal.wait_for("5 characters selected: y copies")


@pytest.mark.parametrize("option", ["on", "external", "off"])
def test_what_the_mouse_selects_reaches_tmux_however_it_is_set(counters: Box, option: str) -> None:
    with open_app(counters) as terminal:
        terminal._tmux("set-option", "-s", "set-clipboard", option)
        select_count(terminal)
        terminal.press(typed("copy"))
        terminal.wait_for("Copied “count”; also in tmux's buffer")
        assert buffer(terminal) == "count"
        assert not list(counters.root.rglob("copied.txt"))


def test_where_tmux_cannot_be_asked_it_may_take_it_and_a_file_has_it(counters: Box) -> None:
    with open_app(counters, "env", "TMUX=/nowhere,1,0") as terminal:
        terminal._tmux("set-option", "-s", "set-clipboard", "on")
        select_count(terminal)
        terminal.press("C-c")
        terminal.wait_for("Copied “count”; if tmux blocks the clipboard, see")
        assert retry_until(lambda: buffer(terminal)) == "count"
        (copy,) = counters.root.rglob("copied.txt")
        assert copy.read_text() == "count"
        terminal.press(typed("messages"))
        terminal.wait_for("Messages")
        terminal.wait_for("esc: close")
