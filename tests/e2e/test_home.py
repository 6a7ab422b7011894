"""Several experiments in one terminal: bare `rltui` lists them, and one is opened in place of another."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from contextlib import closing, suppress

import pytest
from tests.conftest import Box
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

from rltui.base.interpreter import module_command

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.timeout(180)]

LAYOUT = """\
title = "Sleepers"
framework = "generic"

[[component]]
id = "PROGRAM"
command = ["{python}", "-u", "-c", "import time; print('PROGRAM is here', flush=True); time.sleep(600)"]
stop = { grace_s = 5 }
"""


def start(box: Box, name: str, program: str) -> None:
    (box.work / f"{name}.layout.toml").write_text(LAYOUT.replace("PROGRAM", program))
    (box.work / f"{name}.toml").write_text("max_steps = 20\n")
    box.json("up", f"{name}.toml", "-l", f"{name}.layout.toml", "-n", name, "-o", f"out-{name}")


@pytest.mark.slow
def test_two_experiments_are_looked_at_one_after_the_other(box: Box) -> None:
    start(box, "one", "walker")
    argv = [sys.executable, "-m", "rltui"]
    with closing(Terminal(argv, cwd=box.work, env=box.env, columns=130, rows=40)) as terminal:
        terminal.wait_for("walker is here")  # it is the only one that lives
        start(box, "two", "sitter")
        terminal.press(typed("screen.runs"))
        terminal.wait_for("two")
        terminal.press("q")
        terminal.wait_for_end()

    with closing(Terminal(argv, cwd=box.work, env=box.env, columns=130, rows=40)) as terminal:
        screen = terminal.wait_for("two")
        assert "one" in screen
        assert "is here" not in screen, "with two of them, neither is opened unasked"
        terminal.press(typed("cursor.first"), "Enter")
        first, other = (
            ("walker", "sitter") if "walker is here" in wait_for_overview(terminal) else ("sitter", "walker")
        )
        terminal.press(typed("screen.runs"))
        terminal.wait_for("2 in total")
        name = {"walker": "one", "sitter": "two"}[other]
        terminal.press(":", "~", *name)  # in the list it may be first or second, by when it was seen to live
        terminal.wait_for(f"run        {name}")
        terminal.press("Enter")
        screen = terminal.wait_for(f"{other} is here")
        assert f"{first} is here" not in screen

        assert box.run("down", name).returncode == 0
        terminal.wait_for("was shut down")
        terminal.press(typed("screen.runs"))
        terminal.wait_for("stopped")
        terminal.press("q")
        terminal.wait_for_end()
    assert box.component(first, experiment={"walker": "one", "sitter": "two"}[first])["state"] == "ready"

    argv = ["sh", "-c", f"{sys.executable} -m rltui {name}; read line"]  # its words stay on the screen
    foreign_tag = {"RLTUI_EXPERIMENT": "one@/somewhere"}
    with closing(Terminal(argv, cwd=box.work, env=box.env | foreign_tag, columns=130, rows=40)) as terminal:
        terminal.wait_for("this terminal belongs to one")


def wait_for_overview(terminal: Terminal) -> str:
    return terminal.wait_until(lambda screen: screen if "is here" in screen else "", "an overview")


@pytest.mark.slow
def test_a_finished_run_is_looked_at_without_a_supervisor_and_started_again(box: Box) -> None:
    start(box, "one", "walker")
    start(box, "two", "sitter")
    assert (box.run("down", "one").returncode, box.run("down", "two").returncode) == (0, 0)
    argv = [sys.executable, "-m", "rltui"]
    with closing(Terminal(argv, cwd=box.work, env=box.env, columns=130, rows=40)) as terminal:
        terminal.wait_for("two")
        terminal.press(typed("cursor.first"), "Enter")
        screen = wait_for_overview(terminal)
        assert "read-only" in screen
        name = "one" if "walker" in screen else "two"
        journal = box.work / f"out-{name}" / ".rltui" / "journal.jsonl"
        assert journal.read_text().count("supervisor started") == 1, "none was started to look at it"
        terminal.press(typed("component.start-all"))
        terminal.wait_for("Start everything?")
        terminal.press(typed("dialog.yes"))
        retry_until(
            lambda: [component["state"] for component in box.json("status", name)["components"]] == ["ready"],
            timeout_s=40,
        )
        terminal.press("q")
        terminal.wait_for_end()


@pytest.mark.slow
def test_a_folder_of_configs_does_not_hide_the_run_of_its_name(box: Box) -> None:
    start(box, "one", "walker")
    (box.work / "one").mkdir()
    (box.work / "one/rl.toml").write_text("max_steps = 20\n")
    for name in ("one", "out-one"):
        argv = [sys.executable, "-m", "rltui", name]
        with closing(Terminal(argv, cwd=box.work, env=box.env, columns=130, rows=40)) as terminal:
            terminal.wait_for("walker is here")
            terminal.press("q")
            terminal.wait_for_end()
    assert [experiment["experiment"] for experiment in box.json("status", "--all")["runs"]] == ["one"]


def test_a_terminal_that_reports_no_rows_can_be_worked_in(box: Box) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 0, 80, 0, 0))
        os.chdir(box.work)
        os.execve(sys.executable, module_command("rltui"), box.env)
    try:
        painted = b""
        while b"detach" not in painted:
            painted += os.read(terminal, 1 << 16)
        os.write(terminal, b"q")
        with suppress(OSError):  # its end, as Linux says it
            while data := os.read(terminal, 1 << 16):
                painted += data
        assert os.waitpid(pid, 0)[1] == 0
        assert len(painted) < 20_000
    finally:
        os.close(terminal)
