"""Runs of jobs: a sweep of them in the queue, and how others that are made of them are submitted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import Box
from tests.slurm.rig import Rig
from tests.waiting import retry_until

pytestmark = [pytest.mark.slurm, pytest.mark.tmux, pytest.mark.slow, pytest.mark.timeout(240)]

LAYOUT = """\
title = "A job"
framework = "generic"

[[component]]
id = "train"
command = ["bash", "-c", "echo begun with $0; while test ! -e go; do sleep 0.1; done", "{config.run}"]
slurm = { partition = "main" }
restart = { policy = "never" }
"""


def _entries(box: Box) -> list[dict[str, Any]]:
    found = box.json("queue")["entries"]
    return [{"why": "", **entry} for entry in found]


def _words(rig: Rig, job: str, words: str) -> list[str]:
    return rig.say("squeue", "-h", "-n", job, "-o", words).split()


def test_sweep_of_jobs_submits_as_many_as_were_allowed_until_all_have_run(cluster_box: Box, rig: Rig) -> None:
    box, in_the_way = cluster_box, rig.fill()
    (box.work / "job.toml").write_text(LAYOUT)
    (box.work / "run.toml").write_text("seed = 0\n")
    refused = box.run("queue", "add", "run.toml", "-l", "./job.toml", "--gpus", "1")
    assert "uses no GPUs of this machine" in refused.stderr
    swept = box.run(
        "sweep", "run.toml", "-l", "./job.toml", "seed=1..4", "--slurm", "--time", "7", "--max-parallel", "3",
        "-n", "s", timeout_s=120.0,
    )  # fmt: skip
    assert swept.returncode == 0, swept.stderr

    def submitted() -> list[str]:
        return rig.say("squeue", "-h", "-t", "pending", "-o", "%j %l").splitlines()

    retry_until(lambda: len(submitted()) == 3, timeout_s=90.0)
    assert set(submitted()) == {f"s-seed{seed}-train 7:00" for seed in (1, 2, 3)}
    retry_until(
        lambda: sum("waiting" in each["why"] and each["state"] == "starting" for each in _entries(box)) == 3,
        timeout_s=30.0,
    )
    last = _entries(box)[-1]
    assert (last["state"], last["why"]) == ("queued", "s: 3 of at most 3 running")
    assert box.run("queue").stdout.count("starting") == 3

    (box.work / "go").touch()
    rig.say("scancel", *in_the_way)
    retry_until(lambda: all(each["state"] == "done" for each in _entries(box)), timeout_s=120.0)
    retry_until(lambda: not any(entry["why"] for entry in _entries(box)))  # the queue follows its runs


def test_sweep_as_one_array_whose_tasks_are_runs(cluster_box: Box, rig: Rig) -> None:
    box = cluster_box
    (box.work / "job.toml").write_text(LAYOUT)
    (box.work / "run.toml").write_text("seed = 0\n")
    swept = box.run(
        "sweep", "run.toml", "-l", "./job.toml", "seed=1..4", "--array", "--max-parallel", "2", "--slurm",
        "--time", "7", "-n", "s", timeout_s=120.0,
    )  # fmt: skip
    assert swept.returncode == 0, swept.stderr

    def tasks() -> list[list[str]]:
        found = rig.say("squeue", "-h", "-r", "-o", "%i %T %j %l").splitlines()
        return sorted(line.split() for line in found)

    retry_until(lambda: [state for _, state, *_ in tasks()].count("RUNNING") == 2, timeout_s=120.0)
    number = tasks()[0][0].partition("_")[0]
    states = ("RUNNING", "RUNNING", "PENDING", "PENDING")
    assert tasks() == [[f"{number}_{task}", state, "s", "7:00"] for task, state in enumerate(states)]
    waits = "waiting for other tasks of its array (JobArrayTaskLimit)"
    retry_until(
        lambda: [each["why"].partition(",")[0] for each in _entries(box)] == ["", "", waits, waits],
        timeout_s=30.0,
    )
    [status] = box.json("status", "s-seed3")["components"]
    assert status["host"]["where"] == f"job {number}_2"

    assert box.run("down", "s-seed4", timeout_s=90.0).returncode == 0
    assert box.run("down", "s-seed1", timeout_s=90.0).returncode == 0
    retry_until(
        lambda: [task[:2] for task in tasks()] == [[f"{number}_{task}", "RUNNING"] for task in (1, 2)]
    )
    (box.work / "go").touch()
    ends = ["stopped", "done", "done", "stopped"]
    retry_until(lambda: [each["state"] for each in _entries(box)] == ends, timeout_s=120.0)
    for seed in (2, 3):
        said = box.run("logs", f"s-seed{seed}", "-c", "train").stdout
        assert said.count("begun with") == 1
        assert f"s-seed{seed}/" in said

    (box.work / "go").unlink()
    assert box.run("queue", "retry", "s-seed4").returncode == 0
    retry_until(lambda: _words(rig, "s-seed4-train", "%l") == ["7:00"], timeout_s=60.0)
    assert box.run("down", "s-seed4", timeout_s=90.0).returncode == 0


def test_resumed_and_repeated_runs_are_submitted_as_before(cluster_box: Box, rig: Rig) -> None:
    box = cluster_box
    (box.work / "job.toml").write_text(LAYOUT)
    (box.work / "run.toml").write_text("seed = 0\n")
    blocker = rig.submit()
    first = ("--time", "7", "--dependency", f"afterany:{blocker}", "--no-wait")
    assert (
        box.run("up", "run.toml", "-l", "./job.toml", "--slurm", "-n", "one", "-o", "o", *first).returncode
        == 0
    )
    retry_until(lambda: _words(rig, "one-train", "%l %E") == ["7:00", f"afterany:{blocker}(unfulfilled)"])
    assert box.run("down", "one", timeout_s=90.0).returncode == 0

    again = box.run("up", "run.toml", "-l", "./job.toml", "-n", "one", "-o", "o", "--resume", "--no-wait")
    assert again.returncode == 0, again.stderr
    retry_until(lambda: _words(rig, "one-train", "%l %E") == ["7:00", "(null)"])
    assert box.run("down", "one", timeout_s=90.0).returncode == 0
    longer = box.run(
        "up", "run.toml", "-l", "./job.toml", "--slurm", "--partition", "urgent", "-n", "one", "-o", "o",
        "--resume", "--no-wait",
    )  # fmt: skip
    assert longer.returncode == 0, longer.stderr
    retry_until(lambda: _words(rig, "one-train", "%P %l") == ["urgent", "7:00"])
    repeated = box.run("rerun", "one", "--yes", "-n", "two", "--no-wait")
    assert repeated.returncode == 0, repeated.stderr
    forked = box.run("fork", "one", "-n", "three", "--no-wait")
    assert forked.returncode == 0, forked.stderr
    for job in ("two-train", "three-train"):
        retry_until(lambda job=job: _words(rig, job, "%P %l") == ["urgent", "7:00"])  # type: ignore[misc]
    for name in ("one", "two", "three"):
        assert box.run("down", name, timeout_s=90.0).returncode == 0
