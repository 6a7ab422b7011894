"""`rltui gpus orphans` on processes that really outlived their component."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.waiting import retry_until

from rltui.services.processes import ProcessId, is_alive, read_process_id

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

FAMILY = Path(__file__).parents[1] / "fakes/programs/family.py"
LAYOUT = """\
framework = "generic"

[[component]]
id = "serve"
command = ["{python}", "-I", "-S", "FAMILY", "{workspace}/pids", "wait", "daemon", "port"]
stop = { grace_s = 2, leftovers = "keep" }
"""


@pytest.fixture
def family(box: Box) -> dict[str, int]:
    """A component that was killed; by kind, the pids of the two processes it left. Both can be recognised."""
    (box.work / "run.toml").write_text("max_steps = 20\n")
    (box.work / "family.toml").write_text(LAYOUT.replace("FAMILY", str(FAMILY)))
    started = box.run("up", "run.toml", "-l", "family.toml", "-n", "one", "-o", "out", "--no-wait")
    assert started.returncode == 0, started.stderr
    pids_file = box.work / "pids"
    retry_until(pids_file.exists)
    pids: dict[str, int] = json.loads(pids_file.read_text())
    main = retry_until(lambda: box.component("serve")["pid"])
    os.kill(main, signal.SIGKILL)
    retry_until(lambda: len(box.status()["orphans"]) == 2)
    return pids


def identity(pid: int) -> ProcessId:
    process = read_process_id(pid)
    assert process is not None
    return process


def journal(box: Box) -> list[dict[str, Any]]:
    lines = (box.work / "out/.rltui/journal.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def forget_supervisor(box: Box) -> None:
    """Kill the supervisor and the shims, so that nothing of the experiment but its leftovers lives."""
    attempt = json.loads((box.work / "out/.rltui/components/serve/attempt-1/attempt.json").read_text())
    supervisor = [entry for entry in journal(box) if entry["kind"] == "supervisor"][-1]["data"]["pid"]
    doomed = [identity(supervisor), identity(attempt["shim_pid"])]
    for process in doomed:
        os.kill(process.pid, signal.SIGKILL)
    retry_until(lambda: not any(is_alive(process) for process in doomed))


def test_leftovers_are_listed_and_they_alone_are_ended_one_or_all(box: Box, family: dict[str, int]) -> None:
    daemon, port = identity(family["daemon"]), identity(family["port"])
    text = box.run("gpus", "orphans").stdout
    assert f"{daemon.pid}  " in text
    assert f":{family['listens']}" in text
    assert "  serve attempt 1  " in text
    assert box.run("status").stdout.count("⚠ leftover: pid") == 2

    refusal = box.run("gpus", "orphans", "--end", str(os.getpid()), "--yes")
    assert refusal.returncode == 2
    assert f"not a leftover of one: pid {os.getpid()}" in refusal.stderr
    assert box.run("gpus", "orphans", "--end", "serve").returncode == 2
    assert is_alive(port)

    planned = box.json("gpus", "orphans", "--end", str(daemon.pid), "--plan")
    assert [orphan["pid"] for orphan in planned["free"]] == [daemon.pid]
    one = box.json("gpus", "orphans", "--end", str(daemon.pid), "--yes")
    assert [orphan["pid"] for orphan in one["ended"]] == [daemon.pid]
    assert [orphan["pid"] for orphan in one["orphans"]] == [port.pid]
    assert not is_alive(daemon)
    assert is_alive(port)

    all_of_them = box.run("gpus", "orphans", "one", "--end", "--yes")
    assert all_of_them.returncode == 0, all_of_them.stderr
    assert f"ended pid {port.pid} " in all_of_them.stdout
    assert not is_alive(port)
    assert box.run("gpus", "orphans").stdout == "one has no leftover process\n"
    assert box.run("gpus", "orphans", "--end").returncode == 0


@pytest.mark.slow
def test_leftovers_of_an_experiment_without_a_supervisor_are_not_hidden(
    box: Box, family: dict[str, int]
) -> None:
    port = identity(family["port"])
    forget_supervisor(box)
    assert {orphan["pid"] for orphan in box.json("status", "one")["orphans"]} == {
        family["daemon"],
        family["port"],
    }
    listing = box.run("gpus", "orphans", "one").stdout
    assert f"{port.pid}  " in listing
    assert f":{family['listens']}" in listing

    result = box.run("gpus", "orphans", "one", "--end", str(port.pid), "--yes")
    assert result.returncode == 0, result.stderr
    assert not is_alive(port)
    text = journal(box)[-1]["text"]
    assert text.startswith(f"ending 1 leftover process of attempt 1: pid {port.pid} ")
    assert text.endswith(" on request")
    assert is_alive(identity(family["daemon"]))
    rest = box.json("gpus", "orphans", "one", "--end", "--yes")
    assert [orphan["pid"] for orphan in rest["ended"]] == [family["daemon"]]
    assert rest["orphans"] == []
