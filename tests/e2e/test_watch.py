"""A run that somebody else started, from its output folder: looked at, never touched."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


@pytest.fixture
def run(box: Box) -> Path:
    return write_run(box.work / "outputs" / "reverse-text--0bff9f83")


def write_run(folder: Path) -> Path:
    """Write a run as prime-rl of today leaves it, the second attempt under way."""
    logs = folder / "logs" / "attempt_2"
    (logs / "envs" / "train").mkdir(parents=True)
    (folder / "logs" / "latest").symlink_to("attempt_2")
    for name in ("orchestrator", "trainer"):
        (logs / f"{name}.log").write_text(f"23:34:14    INFO {name} says hello\n")
    (folder / "configs").mkdir()
    (folder / "configs" / "trainer.json").write_text('{"max_steps": 20}')
    write_step(folder, 3)
    return folder


def write_step(run: Path, step: int) -> None:
    """Write a step as the trainer does."""
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "time": time.time(), "loss/mean": 0.1}) + "\n")


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.slow
def test_a_run_is_looked_at_and_left_alone(box: Box, run: Path) -> None:
    before = tree(run)
    status = box.json("watch", "outputs", "--no-tui")
    assert (status["observed"], status["framework"], status["run_dir"]) == (True, "prime-rl", str(run))
    assert status["experiment"] == run.name
    assert status["components"] == []
    assert [(log["id"], log["name"]) for log in status["logs"]] == [
        ("inference", ""),
        ("orchestrator", "logs/latest/orchestrator.log"),
        ("trainer", "logs/latest/trainer.log"),
        ("evals", ""),
        ("envs", ""),
    ]
    assert (status["step"], status["max_steps"]) == (3, 20)
    assert "prime-rl" in status["title"].lower()
    assert "orchestrator says hello" in box.run("logs", "-c", "orchestrator").stdout
    none_yet = box.run("logs", "-c", "inference")
    assert none_yet.returncode == 2
    assert "has no log file yet" in none_yet.stderr

    text = box.run("status").stdout
    assert f"{run.name} · prime-rl · ● running · observed · step 3/20" in text
    assert "inference     ◌ no file yet  logs/latest/inference.log" in text
    assert "trainer       ● growing      logs/latest/trainer.log" in text
    for command in (
        ("start",),
        ("restart", "-c", "trainer"),
        ("stop", "--yes"),
        ("gpus", "orphans", "--end", "1"),
    ):
        refusal = box.run(*command)
        assert refusal.returncode == 2, command
        assert "is only observed" in refusal.stderr
    assert box.json("watch", str(run), "--no-tui")["experiment"] == run.name  # the same one again
    assert tree(run) == before

    assert "the run in" in box.run("down").stdout
    assert box.json("status", "--all")["runs"] == []
    assert tree(run) == before


@pytest.mark.slow
def test_what_is_written_later_is_seen(box: Box, run: Path) -> None:
    box.json("watch", "outputs", "--no-tui", "-n", "theirs")
    (run / "logs" / "latest" / "inference.log").write_text("INFO ready\n")
    write_step(run, 4)
    status = retry_until(lambda: (s := box.status())["logs"][0]["path"] and s)
    assert status["logs"][0]["name"] == "logs/latest/inference.log"
    assert box.run("logs", "theirs", "-c", "inference").stdout == "INFO ready\n"
    assert retry_until(lambda: box.status()["step"] == 4)
