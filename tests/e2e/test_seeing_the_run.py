"""A run that goes wrong, seen from everywhere: it learns, an edit ruins it, it is told, and it goes back."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from tests.conftest import Box
from tests.engine import write_example
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow, pytest.mark.timeout(300)]

SCREENS = {
    "metrics": "demo · Metrics",
    "rollouts": "demo · Rollouts",
    "logs": "all merged",
    "events": "demo · Events",
    "checkpoints": "demo · Checkpoints",
    "overview": "trainer ●",
}
"""Screen → text of its heading."""


@pytest.fixture
def learning(box: Box, free_port: int) -> Box:
    """The embedded engine, warmed up as in the demo, with more steps than the test waits for."""
    pytest.importorskip("torch")
    write_example(box.work, port=free_port, steps=5000, replaced={"interval = 10": "interval = 5"})
    assert box.run("up", "rl.toml", "-n", "demo", "-o", "out", timeout_s=120).returncode == 0
    return box


def status(box: Box) -> dict[str, Any]:
    return dict(box.status())


def issue_titles(box: Box) -> list[str]:
    return [concern["word"] for concern in status(box)["progress"]["concerns"]]


def rewards(box: Box) -> dict[int, float]:
    """Step → reward, of the line that counts."""
    lines = box.run("metrics", "reward", "--csv").stdout.splitlines()
    assert lines[0] == "step,time,reward"
    cells = (line.split(",") for line in lines[1:])
    return {int(step): float(reward) for step, _, reward in cells}


def test_collapse_is_told_and_taken_back(learning: Box) -> None:
    retry_until(lambda: status(learning)["step"] >= 30, timeout_s=120)
    first = rewards(learning)
    assert max(first.values()) > first[min(first)] + 0.2, "the curve rises"
    assert issue_titles(learning) == []
    assert learning.run("events", "add", "what if it were faster").returncode == 0

    edit = learning.run("set", "optim.lr=2.5", "--restart", "--yes")
    assert edit.returncode == 0, edit.stderr
    first_step = status(learning)["step"]
    retry_until(lambda: "reward collapsed" in issue_titles(learning), timeout_s=90)
    assert status(learning)["step"] <= first_step + 25
    issue = next(item for item in status(learning)["progress"]["concerns"] if "collapsed" in item["word"])
    good = int(re.search(r"restart --from (\d+)", issue["text"])[1])  # type: ignore[index]  # it says so
    assert good <= first_step
    assert "lr 0.00025 → 2.5" in issue["text"]

    terminal = Terminal([sys.executable, "-m", "rltui", "demo"], cwd=learning.work, env=learning.env)
    try:
        terminal.wait_for("reward collapsed")
        terminal.press(typed("knob.roll-back"))
        screen = terminal.wait_for("y: Write + restart")
        assert f"Go back to checkpoint {good} and undo: trainer.optim.lr 0.00025 → 2.5?" in screen
        terminal.press(typed("dialog.yes"))
        retry_until(lambda: issue_titles(learning) == [], timeout_s=60)
        retry_until(lambda: status(learning)["step"] >= good + 10, timeout_s=90)
        later_rewards = rewards(learning)
        assert min(value for step, value in later_rewards.items() if step > good + 3) > 0.5
        for name, sign in SCREENS.items():
            terminal.press(typed(f"screen.{name}"))
            terminal.wait_for(sign)
    finally:
        terminal.close()

    kinds = [entry["kind"] for entry in learning.json("events")["events"]]
    assert {"note", "edit", "resume", "alert", "checkpoint"} <= set(kinds)
    worst = learning.json("rollouts", "--step", str(good), "--worst", "3")
    assert len(worst["samples"]) == 3
    log_lines = learning.run("logs", "--all", "--grep", rf"Step {good} \|").stdout
    assert "trainer#1" in log_lines
    assert "orchestrator#1" in log_lines
