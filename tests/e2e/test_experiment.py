"""A whole experiment of small programs through the command line: real tmux, shims, supervisor."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.fakes import rollouts
from tests.waiting import retry_until

from rltui.services.processes import ProcessId, is_alive

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

UP = ("up", "run.toml", "-l", "counters.toml", "-n", "one", "-o", "out")


def pids(box: Box) -> dict[str, int | None]:
    return {item["id"]: item["pid"] for item in box.status()["components"]}


def assert_counts_up(log: Path) -> None:
    """No byte is missing: the counter has no gap."""
    numbers = [int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("count ")]
    assert numbers == list(range(len(numbers)))


def test_up_status_logs_down(counters: Box) -> None:
    status = counters.json(*UP)
    assert {item["id"]: item["state"] for item in status["components"]} == {
        "inference": "ready",
        "orchestrator": "ready",
        "trainer": "ready",
    }
    assert status["max_steps"] == 20
    experiments = counters.json("status", "--all")["runs"]
    assert [(row["experiment"], row["state"]) for row in experiments] == [("one", "running")]
    lines = retry_until(lambda: counters.run("logs", "-c", "trainer", "--limit", "5").stdout.splitlines())
    assert lines[-1].startswith("count ")
    assert "serving on" in counters.run("logs", "-c", "inference", "--grep", "serv").stdout
    rollouts.write_flat_run(counters.work / "out")
    best = counters.json("rollouts", "--step", "2", "--best", "1")
    assert best["samples"][0]["reward"] == 1.0

    result = counters.run("down")
    assert result.returncode == 0, result.stderr
    assert counters.tagged("one") == []
    after = counters.status()
    assert after["state"] == "stopped"
    assert {item["state"] for item in after["components"]} == {"stopped"}
    assert not list((counters.root / "run/rltui").iterdir()), "the socket is gone"


def test_restart_one_keeps_the_others_and_stop_takes_dependents(counters: Box) -> None:
    counters.json(*UP)
    second = counters.run(*UP)
    assert second.returncode == 4
    assert "is running" in second.stderr
    assert "Traceback" not in second.stderr

    before = pids(counters)
    plan = counters.json("restart", "-c", "trainer", "--plan")
    assert plan["stop"] == plan["start"] == ["trainer"]
    assert plan["keep"] == ["inference", "orchestrator"]
    assert pids(counters) == before, "--plan does nothing"
    assert counters.run("restart", "-c", "trainer", "--yes", "--wait").returncode == 0
    after = pids(counters)
    assert after["inference"] == before["inference"]
    assert after["orchestrator"] == before["orchestrator"]
    assert after["trainer"] != before["trainer"]
    assert counters.component("trainer")["attempt"] == 2

    assert counters.run("stop", "-c", "inference", "--yes", "--wait").returncode == 0
    assert {item["state"] for item in counters.status()["components"]} == {"stopped"}
    assert counters.run("start", "--yes", "--wait").returncode == 0
    assert {item["state"] for item in counters.status()["components"]} == {"ready"}


def test_killed_shim_leaves_the_component_and_a_killed_component_is_told_with_its_signal(
    counters: Box,
) -> None:
    counters.json(*UP)
    attempt = json.loads((counters.work / "out/.rltui/components/trainer/attempt-1/attempt.json").read_text())
    os.kill(attempt["shim_pid"], signal.SIGKILL)
    before = counters.component("trainer")
    assert (before["state"], before["pid"]) == ("ready", attempt["pid"])
    assert counters.run("restart", "-c", "trainer", "--yes", "--wait").returncode == 0
    # Not a look at /proc: where pid 1 does not reap, a zombie stays.
    assert not is_alive(ProcessId(attempt["pid"], attempt["pid_start"]))
    assert counters.component("trainer")["attempt"] == 2

    victim = pids(counters)["trainer"]
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    component = counters.wait_for("trainer", "failed")
    assert component["signal"] == "SIGKILL"
    assert component["reason"].startswith("killed by SIGKILL (from outside")
    assert counters.component("inference")["state"] == "ready"
    assert "trainer failed: killed by SIGKILL" in counters.run("events").stdout


@pytest.mark.slow
def test_set_edits_one_value_and_without_the_config_nothing_is_restarted(counters: Box) -> None:
    counters.json(*UP)
    dry = counters.json("set", "max_steps=30", "--plan")
    assert "+max_steps = 30 # steps" in dry["diff"]
    assert (counters.work / "run.toml").read_text().startswith("# how long\nmax_steps = 20 # steps")
    assert counters.run("set", "max_steps=30").returncode == 0
    assert (
        counters.work / "run.toml"
    ).read_text() == '# how long\nmax_steps = 30 # steps\nname = "counters"\n'
    row = next(knob for knob in counters.json("knobs")["knobs"] if knob["key"] == "max_steps")
    assert (row["running"], row["value"]) == (20, 30)
    assert counters.status()["max_steps"] == 20, "it runs with 20"

    (counters.work / "run.toml").unlink()
    assert counters.status()["state"] == "running"
    refusal = counters.run("restart", "-c", "trainer", "--yes")
    assert refusal.returncode == 3
    assert (
        f"file not found: {counters.work / 'run.toml'}\n→ the run reads this file: restore it"
        in refusal.stderr
    )
    assert counters.component("trainer")["attempt"] == 1


@pytest.mark.slow
def test_killed_supervisor_is_replaced_and_nothing_else_dies(counters: Box) -> None:
    counters.json(*UP)
    before = pids(counters)
    first = counters.supervisor_pid()
    os.kill(first, signal.SIGKILL)
    assert pids(counters) == before
    assert counters.supervisor_pid() != first
    states = {item["id"]: item["state"] for item in counters.status()["components"]}
    assert states == dict.fromkeys(states, "ready")
    assert counters.run("restart", "-c", "trainer", "--yes", "--wait").returncode == 0
    counters.run("stop", "--yes", "--wait")
    for name in ("trainer", "orchestrator"):
        for log in (counters.work / "out/.rltui/components" / name).glob("*/output.log"):
            assert_counts_up(log)


@pytest.mark.slow
def test_many_clients_at_once_find_one_new_supervisor(counters: Box) -> None:
    counters.json(*UP)
    os.kill(counters.supervisor_pid(), signal.SIGKILL)
    argv = [sys.executable, "-m", "rltui", "status", "--json"]
    clients = [
        subprocess.Popen(argv, cwd=counters.work, env=counters.env, stdout=subprocess.PIPE) for _ in range(8)
    ]
    outputs = [client.communicate(timeout=100)[0] for client in clients]
    assert [client.returncode for client in clients] == [0] * 8
    for output in outputs:
        assert {item["state"] for item in json.loads(output)["runs"][0]["components"]} == {"ready"}
    journal = (counters.work / "out/.rltui/journal.jsonl").read_text()
    assert journal.count("supervisor started") == 2


@pytest.mark.slow
def test_two_experiments_side_by_side(counters: Box, free_port: int) -> None:
    counters.json(*UP)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        other = probe.getsockname()[1]
    text = (counters.work / "counters.toml").read_text().replace(str(free_port), str(other))
    (counters.work / "second.toml").write_text(text)
    counters.json("up", "run.toml", "-l", "second.toml", "-n", "two", "-o", "out2")
    pids = {item["id"]: item["pid"] for item in counters.json("status", "one")["components"]}
    assert counters.run("down", "two").returncode == 0
    assert counters.tagged("two") == []
    assert {item["id"]: item["pid"] for item in counters.json("status", "one")["components"]} == pids


@pytest.mark.slow
def test_busy_port_names_its_holder(counters: Box, free_port: int) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", free_port))
        holder.listen()
        result = counters.run(*UP)
    assert result.returncode == 4
    assert f"port {free_port}" in result.stderr
    assert f"pid {os.getpid()}" in result.stderr


def test_failing_component_ends_up_with_exit_code_5(counters: Box) -> None:
    (counters.work / "service.py").write_text("import sys; print('no GPU'); sys.exit(3)\n")
    result = counters.run(*UP)
    assert result.returncode == 5
    assert "inference failed: exited 3" in result.stderr
    assert "rltui logs -c inference" in result.stderr
    assert "no GPU" in result.stderr, "its last words"
    reasons: dict[str, Any] = {item["id"]: item["reason"] for item in counters.status()["components"]}
    assert reasons["trainer"] == "inference failed: exited 3"


@pytest.mark.slow
def test_job_that_makes_something_runs_once_and_others_wait_for_it(counters: Box) -> None:
    layout = counters.work / "counters.toml"
    job = """
[[component]]
id = "sft"
command = ["{python}", "-c", "import pathlib, time; time.sleep(0.5); pathlib.Path('model').touch()"]
creates = "model"
"""
    text = layout.read_text().replace('id = "inference"\n', 'id = "inference"\nafter = ["sft"]\n')
    layout.write_text(text + job)
    result = counters.run(*UP)
    assert result.returncode == 0, result.stderr
    assert "inference waiting: waiting for sft to be done" in result.stderr
    assert counters.component("sft")["state"] == "exited"
    assert counters.component("inference")["state"] == "ready"
    counters.run("stop", "--yes", "--wait")
    plan = counters.json("start", "--plan")
    assert "sft" not in plan["start"]
    assert any("sft is skipped" in reason for reason in plan["reasons"])


@pytest.mark.slow
def test_two_experiments_that_need_the_same_thing_made_make_it_once(box: Box) -> None:
    (box.work / "make.py").write_text(
        "import pathlib, sys, time\n"
        "pathlib.Path('begun').open('a').write('x')\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.02)\n"
        "pathlib.Path('model').touch()\n"
    )
    (box.work / "both.toml").write_text(
        '[[component]]\nid = "sft"\ncommand = ["{python}", "make.py"]\ncreates = "model"\n'
        '[[component]]\nid = "trainer"\nafter = ["sft"]\ncommand = ["{python}", "-c", "pass"]\n'
    )
    for name in ("one", "two"):
        assert box.run("up", "-l", "./both.toml", "-o", name, "-n", name, "--no-wait").returncode == 0
    wait = "waiting for one, which is producing the same output"
    retry_until(lambda: box.component("sft", experiment="two")["reason"] == wait, timeout_s=30.0)
    os.kill(box.supervisor_pid("one"), signal.SIGKILL)  # the next one goes on making it
    box.run("status", "one")
    (box.work / "go").touch()
    for name in ("one", "two"):
        retry_until(lambda name=name: box.component("trainer", experiment=name)["state"] == "exited")  # type: ignore[misc]
    assert (box.work / "begun").read_text() == "x"
    assert box.component("sft", experiment="two")["state"] == "stopped"
    retry_until(lambda: "done in" in box.run("events", "two").stdout)
