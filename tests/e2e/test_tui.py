"""The app in a real terminal on the embedded engine: watch, edit, restart, lose the terminal, come back."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from tests.conftest import Box
from tests.engine import write_example
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.timeout(180)]


TAKING_TURNS = {"interval = 10": "interval = 2", "max_async_level = 1": "max_async_level = 0"}
"""Checkpoints come soon, and trainer and inference leave a core to the screen."""


@pytest.fixture
def learning(box: Box, free_port: int) -> Box:
    """A box where the embedded engine runs, with a hasty warm-up and more steps than the test waits for."""
    pytest.importorskip("torch")
    box.env["OMP_NUM_THREADS"] = "1"
    write_example(box.work, port=free_port, steps=5000, replaced=TAKING_TURNS, sft_steps=3)
    assert box.run("up", "rl.toml", "-n", "demo", "-o", "out", timeout_s=90).returncode == 0
    return box


@pytest.fixture
def terminal(learning: Box) -> Iterator[Terminal]:
    with closing(open_terminal(learning)) as opened:
        yield opened


def open_terminal(box: Box, *, columns: int = 160, rows: int = 45) -> Terminal:
    argv = [sys.executable, "-m", "rltui"]
    return Terminal(argv, cwd=box.work, env=box.env, columns=columns, rows=rows)


def knob_under_cursor(screen: str) -> str:
    """Name and value of the selected row of the knob table, `""` while it is being painted."""
    knobs = re.findall(r"[│┃]▸ *(\S+ +\S+)", screen)
    return knobs[-1] if knobs else ""


def another_knob(before: str, screen: str) -> str:
    """The knob under the cursor, once it is another than `knob`."""
    knob = knob_under_cursor(screen)
    return "" if knob == before else knob


def pids(box: Box) -> dict[str, tuple[int, int]]:
    return {item["id"]: (item["pid"], item["attempt"]) for item in box.status()["components"]}


def step(box: Box) -> int:
    return int(box.status()["step"])


def test_edit_and_restart_keep_inference_warm(learning: Box, terminal: Terminal) -> None:
    screen = terminal.wait_for("trainer ● running")
    assert "inference ● ready" in screen
    assert "GPU" in screen
    terminal.wait_for(" S Step")
    retry_until(lambda: step(learning) >= 3, timeout_s=60)
    before = pids(learning)
    text = (learning.work / "rl.toml").read_text()

    terminal.press(typed("knob.focus"), typed("cursor.first"))
    knob = terminal.wait_until(knob_under_cursor, "the cursor of the knob table")
    while not re.search(r"batch_size +128", knob):
        terminal.press(typed("cursor.next"))
        knob = terminal.wait_until(partial(another_knob, knob), "the next knob")
    terminal.press(typed("edit"))
    terminal.wait_for("enter: write")
    terminal.press("BSpace", "BSpace", "BSpace", "1", "0", "0")
    screen = terminal.wait_for("divisible")
    for fragment in ("96", "112", "rollouts_per_example"):
        assert fragment in screen
    terminal.press(typed("editor.write-restart"))
    assert (learning.work / "rl.toml").read_text() == text, "an invalid value is not written"
    terminal.press("BSpace", "BSpace", "BSpace", "6", "4")
    terminal.wait_for("+batch_size = 64")
    terminal.press(typed("editor.write-restart"))
    retry_until(lambda: pids(learning)["trainer"][1] == 2, timeout_s=30)
    assert (learning.work / "rl.toml").read_text() == text.replace("batch_size = 128", "batch_size = 64")
    after = pids(learning)
    assert after["inference"] == before["inference"]
    assert after["orchestrator"][1] == after["trainer"][1] == 2
    first_step = step(learning)
    retry_until(lambda: step(learning) > first_step, timeout_s=60)


@pytest.mark.slow
def test_killed_app_and_lost_terminal_stop_nothing(learning: Box, terminal: Terminal) -> None:
    terminal.wait_for("trainer ● running")
    before = pids(learning)
    os.kill(terminal.pid, signal.SIGKILL)
    assert pids(learning) == before
    with closing(open_terminal(learning, columns=80, rows=24)) as second_terminal:
        second_terminal.wait_for("trainer ● running")
    assert pids(learning) == before
    reached = step(learning)
    retry_until(lambda: step(learning) > reached, timeout_s=60)


@pytest.mark.slow
def test_app_survives_its_supervisor_and_detaches_with_q(counters: Box) -> None:
    box = counters
    box.json("up", "run.toml", "-l", "counters.toml", "-n", "demo", "-o", "out")
    with closing(open_terminal(box)) as terminal:
        terminal.wait_for("trainer ● running")
        before = pids(box)
        journal = box.work / "out/.rltui/journal.jsonl"
        first = box.json("events")["events"][0]
        assert first["kind"] == "supervisor"
        os.kill(first["data"]["pid"], signal.SIGKILL)
        retry_until(lambda: journal.read_text().count("supervisor started") == 2)
        terminal.wait_for("trainer ● running")
        assert pids(box) == before
        os.kill(before["trainer"][0], signal.SIGKILL)
        terminal.wait_for("trainer ✗ failed")
        terminal.wait_for("SIGKILL")
        terminal.press("q")
        retry_until(lambda: "ready" in box.component("inference")["state"])


@pytest.mark.slow
def test_after_sigkill_all_is_found_and_mended_from_the_screen(counters: Box) -> None:
    """The command of what failed, a restart, the log of the first attempt, another terminal."""
    counters.json("up", "run.toml", "-l", "counters.toml", "-n", "demo", "-o", "out")
    with closing(open_terminal(counters)) as terminal:
        terminal.wait_for("trainer ● running")
        terminal.press(typed("component.trainer"))
        terminal.wait_for("▸ trainer")
        os.kill(pids(counters)["trainer"][0], signal.SIGKILL)
        terminal.wait_for("trainer ✗ failed")
        terminal.press(typed("describe"))
        terminal.wait_for("trainer of demo")
        terminal.wait_for("attempt 1")
        terminal.wait_for("SIGKILL")
        terminal.press("Enter")
        terminal.wait_for("Copied the command")
        terminal.press("Escape")
        terminal.wait_until(lambda screen: "" if "trainer of demo" in screen else "closed", "no dialog")
        terminal.press(typed("component.restart"))
        terminal.wait_for("Restart trainer?")
        terminal.press("Enter")
        retry_until(lambda: pids(counters)["trainer"][1] == 2, timeout_s=20)
        terminal.wait_for("trainer ● running")
        terminal.press(typed("component.full-log"))
        terminal.wait_for("attempt 2 of 2")
        terminal.press(typed("earlier"))
        terminal.wait_for("attempt 1 of 2")
        terminal.press("q")
    with closing(open_terminal(counters, columns=80, rows=24)) as second_terminal:
        assert "attempt 2 of 2" in second_terminal.wait_for("▸ trainer"), "a new session follows the newest"
