"""Selecting with the mouse and copying, in a real terminal inside tmux."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.conftest import Box
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.tmux]


@pytest.fixture
def terminal(counters: Box) -> Iterator[Terminal]:
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    terminal = Terminal([sys.executable, "-m", "rltui"], cwd=counters.work, env=counters.env)
    try:
        terminal.wait_for("q detach")
        yield terminal
    finally:
        terminal.close()


def buffer(terminal: Terminal) -> str:
    """What tmux has been given to keep; empty where nothing was."""
    try:
        return terminal._tmux("show-buffer")
    except subprocess.CalledProcessError:
        return ""


def drag(terminal: Terminal, row: int, first: int, last: int) -> None:
    """From cell to cell, as a terminal tells it; counted from 0."""
    for event in (f"0;{first + 1};{row + 1}M", f"32;{last + 1};{row + 1}M", f"0;{last + 1};{row + 1}m"):
        terminal._tmux("send-keys", "-t", "term", "-l", f"\x1b[<{event}")


def line_of_log(screen: str) -> int:
    """A row with a line of a log."""
    return next(row for row, text in enumerate(screen.splitlines()) if "count " in text)


def test_what_the_mouse_selects_reaches_tmux_where_that_takes_it(terminal: Terminal) -> None:
    terminal._tmux("set-option", "-s", "set-clipboard", "on")
    screen = terminal.wait_for("count ")
    row = line_of_log(screen)
    first = screen.splitlines()[row].index("count ")
    drag(terminal, row, first, first + 4)
    terminal.wait_for("5 characters selected: y copies")
    terminal.press("y")
    said = terminal.wait_for("Copied “count”")
    assert "in case tmux keeps it for itself" in said
    assert retry_until(lambda: buffer(terminal)) == "count"


def test_where_tmux_keeps_it_for_itself_it_lies_in_a_file(terminal: Terminal, counters: Box) -> None:
    terminal._tmux("set-option", "-s", "set-clipboard", "off")
    screen = terminal.wait_for("count ")
    row = line_of_log(screen)
    first = screen.splitlines()[row].index("count ")
    drag(terminal, row, first, first + 4)
    terminal.wait_for("characters selected")
    terminal.press("C-c")
    terminal.wait_for("Copied “count”")
    (copy,) = counters.root.rglob("copied.txt")
    assert copy.read_text() == "count"
    assert buffer(terminal) == ""
    terminal.press("!")
    terminal.wait_for("Messages")
    terminal.wait_for("esc: close")
