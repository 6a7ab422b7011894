"""The command line where a person looks on: in a real terminal, with components that run."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from tests.conftest import Box
from tests.terminal import Terminal

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
RLTUI = f"{sys.executable} -m rltui"


@pytest.mark.slow
def test_a_person_sees_what_is_waited_for_and_what_was_written(counters: Box) -> None:
    script = f"{RLTUI} {' '.join(UP)}; {RLTUI} set max_steps=21 --restart --yes; echo over $?; sleep 60"
    terminal = Terminal(["sh", "-c", script], cwd=counters.work, env=counters.env, columns=100, rows=60)
    try:
        screen = terminal.wait_for("over 0", timeout_s=60)
    finally:
        terminal.close()
    assert "COMPONENT" in screen
    assert "written: run.toml: max_steps 20 → 21" in screen
    assert "restarting " in screen
    after = screen.partition("restarting ")[2]
    assert "after the edit" in after, "it has waited"
    assert screen.count("● trainer running") <= 2, "lines are drawn in place"


def test_status_is_drawn_in_place_as_it_changes(counters: Box) -> None:
    counters.json(*UP)
    script = f"trap : INT; {RLTUI} status -w 0.5 one; echo ended $?; sleep 60"
    terminal = Terminal(["sh", "-c", script], cwd=counters.work, env=counters.env, columns=80, rows=24)
    try:
        screen = terminal.wait_for("● trainer")
        assert screen.count("COMPONENT") == 1
        counters.run("stop", "-c", "trainer", "--yes", "--wait")
        screen = terminal.wait_for("○ trainer")
        assert screen.count("trainer") == screen.count("COMPONENT") == 1
        terminal.press("C-c")
        assert terminal.wait_for("ended 130").count("COMPONENT") == 1
    finally:
        terminal.close()


@pytest.mark.slow
def test_a_log_gets_a_sentence_for_each_change(counters: Box) -> None:
    counters.json(*UP)
    argv = [sys.executable, "-u", "-m", "rltui", "status", "-w", "0.5", "--plain"]
    with subprocess.Popen(
        argv, cwd=counters.work, env=counters.env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        sentences = iter(process.stdout)
        assert any("trainer is running." in line for line in sentences)
        counters.run("restart", "-c", "trainer", "--yes", "--wait")
        assert any("trainer is running" in line and "attempt 2." in line for line in sentences)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
