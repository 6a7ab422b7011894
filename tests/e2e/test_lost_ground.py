"""The ground of living experiments is taken away: their tmux server, their folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Box
from tests.waiting import remove_at_once, retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


def states(box: Box) -> set[str]:
    return {item["state"] for item in box.status()["components"]}


def pids(box: Box) -> dict[str, int]:
    return {item["id"]: item["pid"] for item in box.status()["components"]}


def tmux(box: Box, *arguments: str) -> str:
    command = ["tmux", "-L", box.env["RLTUI_TMUX_SOCKET"], *arguments]
    return subprocess.run(command, env=box.env, capture_output=True, text=True, check=False).stdout


def kill_tmux(box: Box) -> None:
    server = int(tmux(box, "display-message", "-p", "-t", "one", "#{pid}"))
    os.kill(server, signal.SIGKILL)
    retry_until(lambda: not tmux(box, "list-sessions"))


@pytest.mark.slow
def test_killed_tmux_server_costs_only_the_terminals(counters: Box) -> None:
    counters.json(*UP)
    before, supervisor = pids(counters), counters.supervisor_pid()
    kill_tmux(counters)
    assert pids(counters) == before
    assert counters.supervisor_pid() == supervisor, "it is the same one"

    attach = counters.run("attach", "-c", "trainer")
    assert attach.returncode == 1
    assert "the terminal of trainer's attempt 1 is gone; trainer itself keeps running" in attach.stderr
    assert "rltui logs one -c trainer -f" in attach.stderr
    assert "read its log" in counters.run("attach", "-c", "supervisor").stderr
    assert counters.run("logs", "one", "-c", "trainer", "--limit", "1").stdout.startswith("count ")

    assert counters.run("restart", "-c", "trainer", "--yes", "--wait").returncode == 0
    assert tmux(counters, "list-windows", "-t", "one", "-F", "#{window_name}").split() == ["trainer"]
    assert counters.component("trainer")["attempt"] == 2
    needs_terminal = counters.run("attach", "-c", "trainer")
    assert "attach needs a terminal" in needs_terminal.stderr, "there is one again"
    log = counters.work / "out/.rltui/components/trainer/attempt-1/output.log"
    numbers = [int(line.split()[1]) for line in log.read_text().splitlines()]
    assert numbers == list(range(len(numbers))), "no line was lost with the terminal"

    assert counters.run("down").returncode == 0
    assert counters.tagged("one") == []
    assert not tmux(counters, "list-sessions")


@pytest.mark.slow
def test_supervisor_and_tmux_server_killed_together(counters: Box) -> None:
    counters.json(*UP)
    before, supervisor = pids(counters), counters.supervisor_pid()
    os.kill(supervisor, signal.SIGKILL)
    kill_tmux(counters)
    assert pids(counters) == before
    assert counters.supervisor_pid() != supervisor
    assert "supervisor" in tmux(counters, "list-windows", "-t", "one", "-F", "#{window_name}")
    assert counters.run("down").returncode == 0
    assert counters.tagged("one") == []


@pytest.mark.slow
def test_deleted_folder_of_a_running_experiment(counters: Box) -> None:
    counters.json(*UP)
    before, supervisor = pids(counters), counters.supervisor_pid()
    out = counters.work / "out"
    remove_at_once(out)
    refusal = counters.run(*UP)
    assert refusal.returncode == 4, "the name is in use, folder or not"
    assert "is running" in refusal.stderr
    record = out / ".rltui/experiment.toml"
    retry_until(record.exists)
    assert pids(counters) == before
    alerts = retry_until(
        lambda: re.findall(r"the output folder was deleted.*", counters.run("events").stdout)
    )
    assert "The components keep running" in alerts[0]
    assert len(alerts) == 1

    # No second supervisor, though the first one's lock was on a file that is gone.
    argv = [sys.executable, "-m", "rltui.supervisor", str(out)]
    second = subprocess.run(argv, env=counters.env, capture_output=True, timeout=20, check=False)
    assert second.returncode == 4
    assert supervisor_is(counters, supervisor)

    assert counters.run("restart", "-c", "trainer", "--yes", "--wait").returncode == 0
    assert counters.component("trainer")["attempt"] == 2, "the first attempt is remembered"
    assert counters.run("logs", "-c", "trainer", "--limit", "1").stdout.startswith("count ")
    without_log = counters.run("logs", "-c", "orchestrator")
    assert "Traceback" not in without_log.stderr
    assert counters.run("down").returncode == 0
    assert counters.tagged("one") == []


@pytest.mark.slow
def test_deleted_folder_and_then_a_killed_supervisor(counters: Box, free_port: int) -> None:
    counters.json(*UP)
    before, supervisor = pids(counters), counters.supervisor_pid()
    out = counters.work / "out"
    remove_at_once(out)
    specs = [out / f".rltui/components/{name}/attempt-1/spec.json" for name in before]
    retry_until(lambda: all(spec.exists() and spec.with_name("attempt.json").exists() for spec in specs))
    os.kill(supervisor, signal.SIGKILL)
    assert pids(counters) == before, "a new supervisor takes them over"
    assert counters.component("inference")["port"] == free_port
    victim = before["trainer"]
    os.kill(victim, signal.SIGKILL)
    assert counters.wait_for("trainer", "failed")["signal"] == "SIGKILL"
    assert counters.run("down").returncode == 0
    assert counters.tagged("one") == []


def supervisor_is(box: Box, pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and states(box) == {"ready"}
