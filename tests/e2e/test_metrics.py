"""The series of runs: whole whatever is killed, and of runs that rltui did not start."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

WRITER = """\
import json, sys, time
from pathlib import Path
path = Path(sys.argv[1]) / "metrics.jsonl"
step = len(path.read_text().splitlines()) if path.exists() else 0
with path.open("a", buffering=1) as file:
    while True:
        step += 1
        row = {"step": step, "time": time.time(), "loss/mean": 1 / step, "time/step": 0.01}
        file.write(json.dumps(row) + "\\n")
        time.sleep(0.01)
"""
LAYOUT = """\
title = "Writer"
framework = "generic"

[[component]]
id = "trainer"
command = ["{python}", "-S", "-E", "{workspace}/writer.py", "{output_dir}"]
stop = { grace_s = 5 }
"""


def loss(box: Box) -> dict[str, Any]:
    series: dict[str, Any] = box.json("metrics", "loss")["series"][0]
    return series


@pytest.mark.slow
def test_nothing_is_lost_or_told_twice_when_the_supervisor_is_killed(box: Box) -> None:
    (box.work / "writer.py").write_text(WRITER)
    (box.work / "writer.toml").write_text(LAYOUT)
    (box.work / "run.toml").write_text("max_steps = 100000\n")
    box.json("up", "run.toml", "-l", "writer.toml", "-n", "one", "-o", "out")
    retry_until(lambda: (box.work / "out/.rltui/metrics/index.jsonl").exists())
    before = loss(box)
    os.kill(box.supervisor_pid(), signal.SIGKILL)
    between = loss(box)
    assert between["steps"] == list(range(1, len(between["steps"]) + 1)), "read by the command itself"
    assert len(between["steps"]) >= len(before["steps"]) > 0
    box.json("status", "one")
    retry_until(lambda: len(loss(box)["steps"]) > len(between["steps"]) + 20)
    after = loss(box)
    assert after["steps"] == list(range(1, len(after["steps"]) + 1))
    assert after["values"][:5] == [1 / step for step in range(1, 6)]
    assert after["abandoned"] == []
    assert box.run("down", "one").returncode == 0
    written_rows = len((box.work / "out/metrics.jsonl").read_text().splitlines())
    assert loss(box)["steps"] == list(range(1, written_rows + 1)), "of a run that has ended"
    shutil.rmtree(box.work / "out/.rltui/metrics")
    assert loss(box)["steps"] == list(range(1, written_rows + 1)), "filled again from the file"


LINES = Path(__file__).parents[1] / "data" / "prime_rl" / "logs"


@pytest.mark.slow
def test_runs_that_somebody_else_started(box: Box) -> None:
    """Spring 2026 had lines alone; today the file has a producer, and rows without a step."""
    of_spring = box.work / "spring"
    (of_spring / "logs").mkdir(parents=True)
    (of_spring / "configs").mkdir()
    (of_spring / "configs/rl.toml").write_text("max_steps = 20\n")
    lines = (LINES / "merged.log").read_text().splitlines(keepends=True)
    (of_spring / "logs/trainer.log").write_text("".join(line for line in lines if "Loss" in line))
    (of_spring / "logs/orchestrator.log").write_text("".join(line for line in lines if "Reward" in line))
    of_today = box.work / "today"
    (of_today / "monitors/file").mkdir(parents=True)
    (of_today / "logs/attempt_1").mkdir(parents=True)
    (of_today / "logs/latest").symlink_to("attempt_1")
    (of_today / "logs/attempt_1/trainer.log").write_text("")
    rows: list[dict[str, object]] = [
        {"step": 1, "time": 1789000000.0, "optim/grad_norm": 0.1, "producer": "trainer"},
        {"step": None, "time": 1789000001.0, "dispatcher/inflight/train": 48, "producer": "orch"},
    ]
    (of_today / "monitors/file/metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for folder in (of_spring, of_today):
        assert box.run("watch", str(folder), "--no-tui").returncode == 0

    def series(name: str) -> dict[tuple[str, str], list[object]]:
        values = box.json("metrics", name, "--all")["series"]
        return {(item["source"], item["name"]): item["values"] for item in values}

    retry_until(lambda: ("trainer", "loss/mean") in series("spring"))
    values = series("spring")
    assert values["trainer", "loss/mean"] == [1.2345, 0.01, 0.02]
    assert values["orch", "train/agg/effective/agent/reward/mean"] == [0.25]
    retry_until(lambda: ("orch", "dispatcher/inflight/train") in series("today"))
    assert series("today")["trainer", "optim/grad_norm"] == [0.1]
    assert not (of_today / ".rltui").exists(), "nothing is written there"
