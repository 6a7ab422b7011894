"""Many runs of the embedded engine, as a person has them: swept, compared, forked, kept, written back."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.engine import write_example
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow, pytest.mark.timeout(420)]

STEPS = 8


@pytest.fixture
def swept(box: Box, free_port: int) -> Box:
    """Two learning rates with two seeds, two runs at a time; what they ran on is ended, too, which comes
    after "done".
    """
    pytest.importorskip("torch")
    write_example(box.work, port=free_port, steps=STEPS, replaced={"interval = 10": "interval = 4"})
    result = box.run("sweep", "rl.toml", "lr=1e-4,1e-3", "seed=0..1", "--max-parallel", "2", "-n", "s")
    assert result.returncode == 0, result.stderr
    most = 0

    def has_ended() -> bool:
        nonlocal most
        states = [entry["state"] for entry in box.json("queue")["entries"]]
        most = max(most, sum(state in ("starting", "running", "stopping") for state in states))
        return all(state == "done" for state in states) and len(states) == 4

    retry_until(has_ended, timeout_s=240, interval_s=0.5)
    assert most == 2
    retry_until(lambda: "nothing is running" in box.run("down", "--all", "--plan").stdout, timeout_s=60)
    return box


def runs(box: Box, *arguments: str) -> list[dict[str, Any]]:
    return list(box.json("runs", *arguments, "--full")["runs"])


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_sweep_is_listed_compared_forked_and_kept(swept: Box) -> None:
    rows = runs(swept)
    assert {item["state"] for item in rows} == {"done"}
    assert {item["group"] for item in rows} == {"s"}
    assert [len(item["checkpoints"]) for item in rows] == [2, 2, 2, 2]
    gentle = runs(swept, "lr < 5e-4 and reward > 0.2", "--sort", "reward")
    assert len(gentle) == 2
    assert "max_steps" not in gentle[0]["name"]

    compared = swept.json("runs", "compare", *(item["name"] for item in rows))
    assert all(item["config"].keys() == {"trainer.optim.lr", "seed"} for item in compared["runs"])

    through_the_screens(swept)

    parent = gentle[0]
    before = content(Path(parent["folder"]) / "checkpoints")
    forked = swept.run(
        "fork", parent["name"], "--from", "4", "--set", "lr=3e-4", "--set", "max_steps=12", "-n", "higher",
        timeout_s=120,
    )  # fmt: skip
    assert forked.returncode == 0, forked.stderr
    retry_until(lambda: swept.json("status", "higher")["state"] == "done", timeout_s=90)
    assert swept.run("down", "higher").returncode == 0
    (row,) = runs(swept, "name:higher")
    assert (row["parent"], row["parent_step"], row["step"]) == (parent["id"], 4, 12)
    assert row["changed"]["trainer.optim.lr"] == [1e-4, 3e-4]
    assert content(Path(parent["folder"]) / "checkpoints") == before, "the parent is left alone"

    second = swept.run("rerun", "higher", "--yes", timeout_s=120)
    assert "from checkpoint 4, a copy of" in second.stderr, second.stderr
    retry_until(lambda: swept.json("status", "higher-again")["state"] == "done", timeout_s=90)
    assert swept.run("down", "higher-again").returncode == 0
    steps = swept.json("metrics", "higher-again", "reward")["series"][0]["steps"]
    assert min(steps) == 5, "it begins where that one began"

    assert swept.run("promote", "higher", "--yes").returncode == 0
    assert "lr = 0.0003 " in (swept.work / "rl.toml").read_text()

    assert swept.run("runs", "tag", "higher", "+keep").returncode == 0
    assert swept.run("runs", "rm", rows[0]["name"], "--yes").returncode == 0
    assert not Path(rows[0]["folder"]).exists()
    next((swept.root / "state/rltui").glob("runs-*.sqlite")).unlink()
    assert [item["name"] for item in runs(swept, "tag:keep")] == ["higher"]
    assert swept.run("runs", "restore", rows[0]["id"]).returncode == 0
    assert len(runs(swept)) == 6

    exported = swept.run("runs", "export", "higher", "-o", "report")
    assert exported.returncode == 0, exported.stderr
    report = (swept.work / "report/report.md").read_text()
    assert "3e-4" in report or "0.0003" in report
    assert (swept.work / "report/curves/reward.svg").exists()


def through_the_screens(box: Box) -> None:
    """Bare `rltui`: the runs, two of them compared, one opened, back, and away."""
    argv = [sys.executable, "-m", "rltui"]
    with closing(Terminal(argv, cwd=box.work, env=box.env, columns=130, rows=40)) as terminal:
        terminal.wait_for("4 in total")
        terminal.press(typed("mark"))
        terminal.press("Down")
        terminal.press(typed("mark"))
        terminal.wait_for("2 marked")
        terminal.press(typed("compare"))
        terminal.wait_for("Compare")
        terminal.wait_for("lr")
        terminal.press("Escape")
        terminal.wait_for("4 in total")
        terminal.press("Enter")
        terminal.wait_for("read-only")
        terminal.press(typed("screen.metrics"))
        terminal.wait_for("Reward")
        terminal.press(typed("screen.runs"))
        terminal.wait_for("4 in total")
        assert "Traceback" not in terminal.screen()
