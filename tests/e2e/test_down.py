"""`rltui down` beside other clients: nothing starts after it was asked for, and all who ask get the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.conftest import Box
from tests.faults import events
from tests.keys import typed
from tests.terminal import Terminal
from tests.waiting import retry_until

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

SLOW = """\
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("asked to end", flush=True))
print("up", flush=True)
time.sleep(600)
"""
LAYOUT = """\
title = "A slow one and a quick one"
framework = "generic"

[[component]]
id = "slow"
command = ["{python}", "-u", "{workspace}/slow.py"]
ready = { log = "^up", timeout_s = 20 }
stop = { grace_s = 60 }

[[component]]
id = "quick"
command = ["sleep", "600"]
"""


@pytest.fixture
def slow(box: Box) -> Box:
    """An experiment `one` whose component `slow` takes long to stop."""
    (box.work / "slow.py").write_text(SLOW)
    (box.work / "slow.toml").write_text(LAYOUT)
    (box.work / "run.toml").write_text("max_steps = 20\n")
    box.json("up", "run.toml", "-l", "slow.toml", "-n", "one", "-o", "out")
    return box


@contextmanager
def asking(box: Box, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run `rltui …` without waiting for its end."""
    command = [sys.executable, "-m", "rltui", *arguments]
    with subprocess.Popen(
        command, cwd=box.work, env=box.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        yield process


def being_taken_down(box: Box) -> bool:
    log = box.work / "out/.rltui/components/slow/attempt-1/output.log"
    return "asked to end" in log.read_text()


def test_down_all_ends_what_lives_and_is_asked_about_as_any_other(box: Box) -> None:
    """Finding G8: seven supervisors lived, each to be ended by name."""
    (box.work / "sleeper.toml").write_text(
        'title = "x"\nframework = "generic"\n\n[[component]]\nid = "sleeper"\ncommand = ["sleep", "600"]\n'
    )
    (box.work / "run.toml").write_text("max_steps = 20\n")
    assert box.run("down", "--all").stdout == "nothing is running\n"
    box.json("up", "run.toml", "-l", "sleeper.toml", "-n", "one", "-o", "one")
    box.json("queue", "limit", "1")
    for name in ("two", "three"):
        box.json("queue", "add", "run.toml", "-l", "sleeper.toml", "-n", name, "-o", name)
    retry_until(lambda: [entry["state"] for entry in box.json("queue")["entries"]] == ["running", "queued"])
    assert "2 are running; to stop all: rltui down --all\n" in box.run("status").stdout
    refusal = box.run("down").stderr
    assert (
        "2 runs are running: two and one\n→ name one: rltui down two; to stop all: rltui down --all"
        in refusal
    )
    plan = box.run("down", "--all", "--plan").stdout
    assert plan.splitlines()[::2] == ["two", "one", "queue: 1 run would start next; the queue will be paused"]
    assert [experiment["experiment"] for experiment in box.json("down", "--all", "--plan")["runs"]] == [
        "two",
        "one",
    ]
    assert box.run("down", "--all", "one").returncode == 2
    assert {row["state"] for row in box.json("status", "--all")["runs"]} == {"running"}
    assert [status["state"] for status in box.json("down", "--all")["runs"]] == ["stopped", "stopped"]
    assert box.tagged("one") == box.tagged("two") == []
    queue = box.json("queue")
    assert queue["paused"]
    assert queue["entries"][1]["state"] == "queued"


@pytest.mark.slow
def test_an_agent_ends_its_own_runs_and_no_others(box: Box) -> None:
    (box.work / "serve.toml").write_text(
        'title = "x"\nframework = "generic"\n\n[[component]]\nid = "serve"\n'
        'command = ["python3", "-m", "http.server", "0", "--bind", "127.0.0.1"]\n'
    )
    (box.work / "run.toml").write_text("max_steps = 20\n")
    agent = box.as_agent()
    for owner, name in ((box, "theirs"), (agent, "mine")):
        owner.json("up", "run.toml", "-l", "serve.toml", "-n", name, "-o", name)
    box.json("queue", "limit", "1")
    for name in ("sooner", "later"):  # the first is just starting when all is to end
        agent.json("queue", "add", "run.toml", "-l", "serve.toml", "-n", name, "-o", name)
    retry_until(lambda: box.json("queue")["entries"][0]["state"] != "queued")
    refusal = agent.run("down", "--all")
    assert (refusal.returncode, "theirs\n" in refusal.stderr, "--yes" in refusal.stderr) == (2, True, True)
    assert agent.run("down", "--mine").returncode == 2
    answer = agent.run("down", "--all", "--mine", "--json")
    assert (answer.returncode, len(answer.stdout) <= 300) == (0, True), answer.stderr
    assert json.loads(answer.stdout) == {
        "runs": [{"experiment": name, "state": "stopped"} for name in ("sooner", "mine")],
        "cancelled": ["later"],
        "left": [],
    }
    assert box.tagged("sooner") == []
    assert box.tagged("mine") == []
    assert box.status("theirs")["state"] == "running"
    assert box.json("down", "--all", "--mine")["runs"] == [{"experiment": "theirs", "state": "stopped"}]


@pytest.mark.slow
def test_nothing_starts_while_everything_is_being_stopped(slow: Box) -> None:
    """Findings A5 and H17: it started, lived on, and the journal said that no process is left."""
    with asking(slow, "down") as down:
        retry_until(lambda: being_taken_down(slow), timeout_s=30)
        for command in (("start", "-c", "quick"), ("restart", "-c", "quick")):
            refusal = slow.run(*command, "--yes")
            assert refusal.returncode == 4
            assert "one is being shut down by " in refusal.stderr
            assert f"pid {down.pid}" in refusal.stderr
        status = slow.status()
        assert status["down"]["complete"] is False
        assert slow.run("stop", "-c", "slow", "--kill", "--yes").returncode == 0, "impatience is no start"
        assert down.wait(60) == 0
        assert "no process is left" in (down.stdout.read() if down.stdout else "")
    assert slow.tagged("one") == []
    journal = (slow.work / "out/.rltui/journal.jsonl").read_text()
    assert "stopped: no process is left" in journal


@pytest.mark.slow
def test_an_open_app_says_who_took_it_down_and_revives_nothing(counters: Box) -> None:
    """Finding A6: an open app started again what somebody else had taken down."""
    up = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    counters.json(*up)
    terminal = Terminal([sys.executable, "-m", "rltui", "one"], cwd=counters.work, env=counters.env)
    try:
        terminal.wait_for("trainer ● running")
        assert counters.run("down").returncode == 0
        terminal.wait_for("one was shut down by")
        terminal.wait_for("S starts it again")
        assert "keep running" not in terminal.screen()
        down = counters.status()["down"]
        assert counters.run("restart", "-c", "trainer", "--plan").returncode == 0
        assert counters.status()["down"]["by"] == down["by"], "a look changes nothing"
        counters.json("up", "run.toml", "-l", "counters.toml", "-n", "two", "-o", "out2", "--only", "trainer")
        assert counters.status()["experiment"] == "two", "the only one of which something runs"
        terminal.press(typed("component.start-all"))
        terminal.wait_for("Start everything?")
        assert counters.status()["experiment"] == "two", "a supervisor alone is nothing"
        terminal.press("Escape")
        assert counters.run("down", "two").returncode == 0, "it had the port"
        terminal.press(typed("component.start-all"))
        terminal.wait_for("Start everything?")
        terminal.press("Enter")
        terminal.wait_for("trainer ● running")
        counters.run("stop", "one", "--yes", "--wait")
        assert counters.json(*up, "--resume", "--only", "trainer")["state"] == "running"
    finally:
        terminal.close()


@pytest.mark.slow
def test_a_failed_up_leaves_nothing_behind(box: Box) -> None:
    """Finding G4: the next `up` said that it is running, though nothing ever ran."""
    (box.work / "run.toml").write_text("max_steps = 20\n")
    layout = box.work / "own.toml"
    layout.write_text(
        'framework = "generic"\n[[component]]\nid = "a"\ncommand = ["sleep", "600"]\nport = "x"\n'
    )
    up = ("up", "run.toml", "-l", "own.toml", "-o", "out", "--no-wait")
    refusal = box.run(*up, "-n", "one")
    assert (refusal.returncode, "port is 'x'" in refusal.stderr) == (3, True), refusal.stderr
    assert not (box.work / "out").exists()
    assert box.json("status", "--all")["runs"] == []
    layout.write_text(layout.read_text().replace('port = "x"', ""))
    assert box.json(*up, "-n", "another")["state"] in ("starting", "running")
    box.wait_for("a", "ready")


@pytest.mark.slow
def test_everybody_who_takes_it_down_gets_the_end(slow: Box) -> None:
    """Finding H22: of three at once, two said that the supervisor died."""
    with (
        asking(slow, "down") as first,
        asking(slow, "down") as second,
        asking(slow, "down", "--json") as third,
    ):
        retry_until(lambda: being_taken_down(slow), timeout_s=30)
        slow.run("stop", "-c", "slow", "--kill", "--yes")
        outputs = [process.communicate(timeout=60) for process in (first, second, third)]
        assert [process.returncode for process in (first, second, third)] == [0, 0, 0], outputs
    assert json.loads(outputs[2][0])["state"] == "stopped"
    result = slow.run("up", "run.toml", "-l", "slow.toml", "-n", "one", "-o", "out", "--no-wait")
    assert result.returncode == 0, "at once: nothing of the old supervisor is in the way"
    slow.run("stop", "--kill", "--yes", "--wait")


@pytest.mark.slow
def test_ctrl_c_on_down_is_honest(slow: Box) -> None:
    """Finding H8: it said that running components are unaffected."""
    with asking(slow, "down") as down:
        retry_until(lambda: being_taken_down(slow), timeout_s=30)
        down.send_signal(signal.SIGINT)
        _, errors = down.communicate(timeout=60)
    assert down.returncode == 130
    assert "one is still stopping" in errors
    os.kill(slow.component("slow")["pid"], signal.SIGKILL)
    retry_until(lambda: slow.tagged("one") == [], timeout_s=30)


@pytest.mark.slow
def test_a_killed_supervisors_successor_finishes_taking_it_down(slow: Box) -> None:
    with asking(slow, "down") as down:
        retry_until(lambda: being_taken_down(slow), timeout_s=30)
        os.kill(slow.supervisor_pid(), signal.SIGKILL)
        down.communicate(timeout=60)
        assert down.returncode == 1
    pid = slow.component("slow")["pid"]
    assert slow.run("start", "-c", "quick", "--yes").returncode == 4
    os.kill(pid, signal.SIGKILL)
    retry_until(lambda: slow.status()["down"]["complete"], timeout_s=30)
    assert slow.tagged("one") == []


@pytest.mark.slow
def test_what_no_supervisor_can_end_is_ended_from_here(slow: Box) -> None:
    """Finding F10: on a read-only disk none can start, and the processes stayed."""
    os.kill(slow.supervisor_pid(), signal.SIGKILL)
    os.kill(slow.component("slow")["pid"], signal.SIGKILL)  # starts a supervisor, too
    os.kill(slow.supervisor_pid(), signal.SIGKILL)
    with events.read_only(slow.work / "out/.rltui"):
        result = slow.run("down")
        assert result.returncode == 0, result.stderr
        assert "stopping the components directly" in result.stderr
        assert slow.tagged("one") == []


def test_what_ran_elsewhere_is_not_called_ended(box: Box) -> None:
    """Finding A9: `no process is left`, while that of an ssh command lived on."""
    (box.root / "bin").mkdir()
    ssh = box.root / "bin/ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 600\n")
    ssh.chmod(0o755)
    box.env["PATH"] = f"{ssh.parent}:{box.env['PATH']}"
    (box.work / "run.toml").write_text("max_steps = 20\n")
    layout = '[[component]]\nid = "trainer"\ncommand = ["ssh", "-tt", "node7", "train"]\n'
    (box.work / "own.toml").write_text(f'framework = "generic"\n{layout}')
    box.json("up", "run.toml", "-l", "own.toml", "-n", "one", "-o", "out")
    assert (
        "trainer on node7 (by ssh): rltui cannot observe its end there"
        in box.run("stop", "-c", "trainer", "--plan").stdout
    )
    output = box.run("down").stdout
    assert "no process is left on this machine." in output
    assert "Programs started over ssh may still run: trainer on node7 (" in output


@pytest.mark.slow
def test_a_refused_request_leaves_no_supervisor_behind(counters: Box) -> None:
    """Finding U22: after `restart --from 7` of a stopped run one stayed."""
    up = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")
    assert counters.json(*up)["alive"]
    assert counters.run("down", "one").returncode == 0
    refusal = counters.run("restart", "one", "--from", "7", "--yes")
    assert refusal.returncode != 0
    assert not list((counters.root / "run/rltui").iterdir()), "its socket is gone"
    assert counters.json("status", "one")["reason"]["code"] == "down", "who took it down is still known"
