"""One folder, one experiment: whatever names, links and moments the command lines come with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

ONE = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
CHECKPOINT = "checkpoints/step_3/STABLE"


def up(name: str, folder: str, *more: str) -> tuple[str, ...]:
    return ("up", "run.toml", "-l", "counters.toml", "-n", name, "-o", folder, *more)


def names(box: Box) -> list[str]:
    return [row["experiment"] for row in box.json("status", "--all")["runs"]]


def run_at_once(box: Box, *commands: Sequence[str]) -> list[tuple[int, str]]:
    """Exit code and stderr of commands that are started together."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "rltui", *command],
            cwd=box.work,
            env=box.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    errors = [process.communicate(timeout=60)[1] for process in running]
    return [(process.returncode, error) for process, error in zip(running, errors, strict=True)]


@pytest.mark.parametrize(
    ("folder", "how"),
    [
        pytest.param("out", "", marks=pytest.mark.slow),
        pytest.param("./nowhere/../out", "", marks=pytest.mark.slow),
        pytest.param("link", "", marks=pytest.mark.slow),
        ("link", "--resume"),
    ],
)
def test_folder_of_a_living_experiment_is_refused(counters: Box, folder: str, how: str) -> None:
    counters.json(*ONE)
    (counters.work / "link").symlink_to("out")
    result = counters.run(*up("two", folder, *([how] if how else [])))
    assert result.returncode == 4
    assert f"{counters.work}/out belongs to the running experiment one" in result.stderr
    assert "rltui down one" in result.stderr
    assert names(counters) == ["one"]
    assert counters.status()["experiment"] == "one"
    same = counters.run(*up("one", "link"))
    assert same.returncode == 4
    assert "the experiment one is running" in same.stderr, "through a link it is the same"


@pytest.mark.slow
def test_new_beside_a_living_experiment_takes_another_folder(counters: Box) -> None:
    counters.json(*ONE)
    other = counters.work / "other.toml"  # one has the port of the other layout
    other.write_text('framework = "generic"\n[[component]]\nid = "sleeper"\ncommand = ["sleep", "1000"]\n')
    result = counters.run("up", "run.toml", "-l", "other.toml", "-n", "two", "-o", "out", "--new")
    assert str(counters.work / "out-2") in counters.run("status", "two").stdout, result.stderr
    assert sorted(names(counters)) == ["one", "two"]


@pytest.mark.slow
def test_folder_of_a_dead_experiment_is_taken_over_only_on_request(counters: Box) -> None:
    counters.json(*ONE)
    counters.run("down")
    refusal = counters.run(*up("two", "out"))
    assert refusal.returncode == 4
    assert "holds an earlier run of the experiment one, which stays untouched" in refusal.stderr
    assert names(counters) == ["one"]

    marker = counters.work / "out" / CHECKPOINT
    marker.parent.mkdir(parents=True)
    marker.touch()
    status = counters.json(*up("two", "out", "--resume"))
    assert (status["experiment"], status["state"]) == ("two", "running")
    assert names(counters) == ["two"]
    assert counters.run("status", "one").returncode == 2, "the old name is free"
    assert [entry.name for entry in (counters.root / "state/rltui/experiments").iterdir()] == ["two"]
    assert counters.component("trainer")["attempt"] == 2, "the history stays"
    assert "from checkpoint 3" in counters.run("events").stdout
    assert counters.run("down").returncode == 0

    assert counters.json(*up("one", "fresh"))["output_dir"] == str(counters.work / "fresh")
    assert counters.run("down", "one").returncode == 0


@pytest.mark.slow
def test_killed_experiment_leaves_no_terminal_behind_when_taken_over(counters: Box) -> None:
    status = counters.json(*ONE)
    shims = [int(path.read_text().split('"shim_pid": ')[1].split(",")[0]) for path in attempts(counters)]
    supervisor = counters.run("events").stdout.split("supervisor started, pid ")[1].split()[0]
    for pid in (int(supervisor), *shims, *(item["pid"] for item in status["components"])):
        os.kill(pid, signal.SIGKILL)
    conflict = retry_until(lambda: succeeded(counters.run(*up("two", "out", "--resume"))))
    assert conflict.returncode == 0
    sessions = subprocess.run(
        ["tmux", "-L", counters.env["RLTUI_TMUX_SOCKET"], "list-sessions", "-F", "#{session_name}"],
        env=counters.env, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert sessions.split() == ["two"]
    (socket,) = (counters.root / "run/rltui").glob("*.sock")
    assert socket.name.startswith("two-")


def succeeded(result: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str] | None:
    """None while the dead ones are still being reaped."""
    return result if result.returncode == 0 else None


def attempts(box: Box) -> list[Path]:
    return list((box.work / "out/.rltui/components").glob("*/attempt-1/attempt.json"))


@pytest.mark.slow
def test_of_many_that_start_it_at_the_same_instant_one_wins(counters: Box) -> None:
    results = run_at_once(counters, *[ONE] * 4)
    assert sorted(code for code, _ in results) == [0, 4, 4, 4]
    for code, error in results:
        assert "Traceback" not in error
        assert code == 0 or "the experiment one is running" in error
    journal = (counters.work / "out/.rltui/journal.jsonl").read_text()
    assert journal.count("supervisor started") == 1
    assert counters.component("trainer")["attempt"] == 1


@pytest.mark.slow
def test_of_two_names_for_one_folder_at_the_same_instant_one_wins(counters: Box) -> None:
    results = run_at_once(counters, up("a", "out"), up("b", "./out"))
    assert sorted(code for code, _ in results) == [0, 4]
    (refusal,) = [error for code, error in results if code == 4]
    assert "belongs to the running experiment" in refusal
    assert len(names(counters)) == 1
