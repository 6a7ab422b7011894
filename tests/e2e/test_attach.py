"""The raw pane of a component, looked at from within a person's own tmux, whose prefix is the same."""

from __future__ import annotations

import sys

import pytest
from tests.conftest import Box
from tests.keys import typed
from tests.terminal import Terminal

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


@pytest.mark.slow
def test_the_pane_says_how_to_leave_and_ctrl_c_stops_nothing(counters: Box) -> None:
    """Findings G2 and G3: ctrl+c ended the training; the key that was told detached the outer tmux."""
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    before = counters.component("trainer")
    script = f"{sys.executable} -m rltui attach -c trainer; echo back; {sys.executable} -m rltui"
    terminal = Terminal(["sh", "-c", script], cwd=counters.work, env=counters.env)
    try:
        terminal.wait_for("one · q detaches, nothing stops")
        terminal.wait_for("count ")
        terminal.press("C-c")
        terminal.wait_for("ctrl+c does nothing here: rltui stop -c trainer stops it; q detaches")
        terminal.press("q")
        terminal.wait_for("back")

        terminal.wait_for("? help")  # the same from the screen, which comes back and takes keys
        for _ in range(2):
            terminal.press(typed("component.trainer"))
            terminal.wait_for("▸ trainer")
            terminal.press(typed("component.attach"))
            terminal.wait_for("one · q detaches, nothing stops")
            terminal.press("q")
            terminal.wait_for("? help")
        terminal.press(typed("help"))
        terminal.wait_for("Keys")
    finally:
        terminal.close()
    after = counters.component("trainer")
    assert (after["state"], after["pid"]) == ("ready", before["pid"])
