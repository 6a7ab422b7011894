"""`rltui wait` on real runs: what ends it, and what it says then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

from rltui.base.interpreter import module_command

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

RESTARTS = ('"{workspace}/counter.py"]', '"{workspace}/counter.py"]\nrestart = { policy = "on-failure" }')
UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


@pytest.fixture
def restarting(counters: Box) -> Box:
    """A box whose jobs are started again when they fail."""
    layout = counters.work / "counters.toml"
    layout.write_text(layout.read_text().replace(*RESTARTS))
    return counters


def wait(box: Box, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document."""
    result = box.run("wait", *arguments, timeout_s=60)
    assert result.stdout.count("\n") == 1, result.stderr
    return result.returncode, json.loads(result.stdout)


def _connections(box: Box) -> int:
    """Clients of the supervisor now."""
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines())
    folder, connected = str(box.root / "run"), "03"
    return sum(row[-1].startswith(folder) and row[5] == connected for row in rows)


@contextmanager
def waiting(box: Box, *arguments: str) -> Iterator[dict[str, Any]]:
    """What a wait says that begins before something is done, and its exit code."""
    cursor = box.json("events", "one", "--limit", "1")["cursor"]
    argv = module_command("rltui", "wait", "one", *arguments, "--since", cursor, "--timeout", "40")
    process = subprocess.Popen(argv, cwd=box.work, env=box.env, stdout=subprocess.PIPE, text=True)
    said: dict[str, Any] = {}
    retry_until(lambda: _connections(box) > 0)
    yield said
    output, _ = process.communicate(timeout=60)
    said.update(json.loads(output), code=process.returncode)


def test_a_wait_ends_at_what_happens(restarting: Box) -> None:
    restarting.json(*UP, "--no-wait")
    code, ready = wait(restarting, "--until", "ready")
    assert (code, ready["reached"], ready["run"], ready["state"]) == (0, True, "one", "running")
    code, late = wait(restarting, "one", "--until", "step>=5 or done", "--timeout", "0.1")
    assert (code, late["reached"], late["reason"]["code"]) == (1, False, "timeout")
    with waiting(restarting, "--until", "alert:crash and alert") as said:
        os.kill(restarting.component("trainer")["pid"], signal.SIGKILL)
    assert (said["code"], said["reason"]["text"]) == (0, "alert:crash and alert")
    assert any("trainer" in event["text"] for event in said["events"])
    assert len(json.dumps(said)) < 2000
    code, again = wait(restarting, "one", "--until", "alert", "--since", ready["cursor"])
    assert (code, again["waited_s"] < 5) == (0, True), "it happened after the cursor"
    with waiting(restarting, "--until", "step>=5") as said:
        restarting.run("down", "one", "--yes")
    assert (said["code"], said["reason"]["code"], said["state"]) == (1, "run_ended", "stopped")
    assert "shut down by" in said["reason"]["text"]
    assert wait(restarting, "one", "--until", "settled")[0] == 0, "by its files"


def test_a_supervisor_that_dies_ends_the_wait_unless_another_takes_over(restarting: Box) -> None:
    restarting.json(*UP)
    with waiting(restarting, "--until", "alert:crash") as said:
        os.kill(restarting.supervisor_pid(), signal.SIGKILL)
        assert restarting.run("status", "one").returncode == 0  # starts a successor
        os.kill(restarting.component("trainer")["pid"], signal.SIGKILL)
    assert (said["code"], said["reached"]) == (0, True)
    with waiting(restarting, "--until", "done") as said:
        os.kill(restarting.supervisor_pid(), signal.SIGKILL)
    assert (said["code"], said["reason"]["code"]) == (1, "supervisor_gone")


def test_a_queued_run_is_waited_for_before_it_exists(counters: Box) -> None:
    layout = 'framework = "generic"\n[[component]]\nid = "job"\nrestart = { policy = "never" }\n'
    for name, code in (("good", 0), ("bad", 3)):
        (counters.work / f"{name}.toml").write_text(
            f'{layout}command = ["/bin/sh", "-c", "sleep 0.2; exit {code}"]\n'
        )
    counters.run("queue", "pause")
    for name in ("good", "bad"):
        added = counters.run("queue", "add", "run.toml", "-l", f"{name}.toml", "-n", name)
        assert added.returncode == 0, added.stderr
    assert wait(counters, "good", "--until", "done", "--timeout", "0.2")[1]["reason"]["code"] == "timeout"
    counters.run("queue", "resume")
    code, done = wait(counters, "good", "--until", "done", "--timeout", "30")
    assert (code, done["state"]) == (0, "done")
    code, failed = wait(counters, "bad", "--until", "done", "--timeout", "30")
    assert (code, failed["reason"]["code"]) == (5, "run_failed")
    assert wait(counters, "bad", "--until", "failed")[0] == 0
    code, first = wait(counters, "bad", "good", "--until", "done")
    assert (code, first["run"]) in ((0, "good"), (5, "bad"))
