"""`rltui gpus orphans` and what else holds GPU memory: listed, ended where named, never anybody else's."""

from __future__ import annotations

import json
import os

import pytest
from tests.conftest import Box
from tests.e2e.gpu_box import SERVING, scenario_of, with_gpus
from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.core import hints
from rltui.services.processes import ProcessId, is_alive

__all__ = ["start"]  # a fixture, used by name
pytestmark = [pytest.mark.e2e, pytest.mark.tmux]

SCENARIO = """\
driver 580.95.05
count 1
0.name NVIDIA H200
0.uuid GPU-8932f937-d72c-4106-c12f-20bd9faed9f6
0.total 150323855360
0.used 12884901888
"""


@pytest.fixture
def gpu_box(box: Box) -> Box:
    """A box with one GPU and an experiment that is not started."""
    (box.work / "run.toml").write_text("max_steps = 1\n")
    (box.work / "parts.toml").write_text(SERVING)
    return with_gpus(box, SCENARIO)


def hold(box: Box, *pids: int) -> None:
    """Make these processes the only ones that hold GPU memory."""
    lines = "".join(f"0.compute {pid} {(5 - number) << 30}\n" for number, pid in enumerate(pids))
    # A change of what is used makes the reader look at the processes at once.
    used = (6 + 6 * len(pids)) << 30
    scenario_of(box).write_text(SCENARIO.replace("12884901888", str(used)) + lines)


def up(box: Box) -> int:
    """Start it; the pid of its component."""
    result = box.run("up", "run.toml", "-l", "parts.toml", "-n", "one", "-o", "out")
    assert result.returncode == 0, result.stderr
    pid: int = box.component("serve")["pid"]
    return pid


def stranger_pids(box: Box) -> list[int]:
    return sorted(stranger["pid"] for stranger in box.json("gpus", "orphans", "one")["strangers"])


def journal(box: Box) -> str:
    return (box.work / "out/.rltui/journal.jsonl").read_text()


@pytest.mark.slow
def test_a_stranger_is_listed_and_ended_only_where_it_is_named(gpu_box: Box, start: Start) -> None:
    component = up(gpu_box)
    one, other = start("sleep", "1000"), start("sleep", "1001")
    hold(gpu_box, one.pid, other.pid, component)
    retry_until(lambda: stranger_pids(gpu_box) == sorted([one.pid, other.pid]), timeout_s=30)
    text = gpu_box.run("gpus", "orphans").stdout
    assert hints.FREE() in text
    assert text.startswith(
        "one has no leftover process\nalso on the GPU, but of no running component; to end one: "
    )
    assert f"{one.pid}  sleep 1000  " in text
    assert "5.0 GiB\n  holds GPU memory, not started by rltui\n" in text

    assert gpu_box.json("gpus", "orphans", "--end", "--yes")["ended"] == []
    refusal = gpu_box.run("gpus", "orphans", "--end", str(component), "--yes")
    assert refusal.returncode == 2
    assert f"not a leftover of one: pid {component}" in refusal.stderr
    assert is_alive(one)

    document = gpu_box.json("gpus", "orphans", "--end", str(one.pid), "--yes")
    assert [(orphan["pid"], orphan["evidence"]) for orphan in document["ended"]] == [(one.pid, "gpu")]
    assert [stranger["pid"] for stranger in document["strangers"]] == [other.pid]
    assert not is_alive(one)
    assert is_alive(other)
    assert gpu_box.component("serve")["pid"] == component
    assert f"ending 1 process: pid {one.pid} sleep 1000 on request" in journal(gpu_box)


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of another user")
def test_another_users_process_is_refused(gpu_box: Box, start: Start) -> None:
    up(gpu_box)
    mine, theirs = start("sleep", "1000"), start("sleep", "1000", user=65534)
    hold(gpu_box, mine.pid, theirs.pid)
    retry_until(lambda: stranger_pids(gpu_box) == [mine.pid], timeout_s=30)
    refusal = gpu_box.run("gpus", "orphans", "--end", str(theirs.pid), str(mine.pid), "--yes")
    assert refusal.returncode == 2
    assert f"not a leftover of one: pid {theirs.pid}" in refusal.stderr
    assert is_alive(theirs)
    assert is_alive(mine), "all or nothing"


@pytest.mark.slow
def test_without_a_supervisor_too(gpu_box: Box, start: Start) -> None:
    up(gpu_box)
    assert gpu_box.run("down", "one").returncode == 0
    one, other = start("sleep", "1000"), start("sleep", "1001")
    hold(gpu_box, one.pid, other.pid)
    assert stranger_pids(gpu_box) == sorted([one.pid, other.pid])
    assert gpu_box.json("gpus", "orphans", "one", "--end", "--yes")["ended"] == []
    document = gpu_box.json("gpus", "orphans", "one", "--end", str(one.pid), "--yes")
    assert [orphan["pid"] for orphan in document["ended"]] == [one.pid]
    assert not is_alive(one)
    assert is_alive(other)
    last = json.loads(journal(gpu_box).splitlines()[-1])
    assert last["text"] == f"ending 1 process: pid {one.pid} sleep 1000 on request"


@pytest.mark.slow
def test_one_that_ignores_sigterm_is_killed(gpu_box: Box, start: Start) -> None:
    up(gpu_box)
    gpu_box.run("down", "one")
    ready = gpu_box.work / "ready"
    deaf: ProcessId = start("sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done")
    retry_until(ready.exists)
    hold(gpu_box, deaf.pid)
    assert gpu_box.run("gpus", "orphans", "one", "--end", str(deaf.pid), "--yes").returncode == 0
    assert not is_alive(deaf)
