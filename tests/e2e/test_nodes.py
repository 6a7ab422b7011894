"""Experiments whose components run on nodes: what the supervisor makes of cuts, kills and of what goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Box
from tests.fakes.nodes import FakeNode
from tests.fakes.prime_rl.boxed import prime_box
from tests.following import follow
from tests.waiting import retry_until

from rltui import paths
from rltui.core import hints
from rltui.services import processes
from rltui.services.hosts.job_status import read_job_status
from rltui.services.processes import AttemptRecord

pytestmark = [pytest.mark.e2e, pytest.mark.tmux, pytest.mark.slow]

COUNT = """\
import itertools, time
for number in itertools.count():
    print("line", number, flush=True)
    time.sleep(0.01)
"""
NODE = """\
[[node]]
name = "n{number}"
reach = {node.reach}
cwd = "{node.home}"
python = "{python}"
"""
LAYOUT = """\
framework = "generic"

{nodes}
[[component]]
id = "trainer"
{where}
command = ["{{python}}", "-u", "{{workspace}}/count.py"]
stop = {{ grace_s = 5 }}
"""


class Cluster:
    """Nodes, and an experiment `one` on them."""

    def __init__(self, box: Box, count: int, where: str) -> None:
        self.box = box
        self.nodes = [FakeNode(box.root / f"n{number}") for number in range(1, count + 1)]
        tables = [
            NODE.format(number=number, node=node, python=sys.executable)
            for number, node in enumerate(self.nodes, 1)
        ]
        (box.work / "nodes.toml").write_text(LAYOUT.format(nodes="".join(tables), where=where))
        for node in self.nodes:
            (node.home / "count.py").write_text(COUNT)

    def up(self) -> None:
        result = self.box.run("up", "-l", "nodes.toml", "-n", "one", "-o", "out")
        assert result.returncode == 0, result.stderr

    def folder(self, component: str = "trainer", attempt: int = 1) -> Path:
        return self.box.work / f"out/.rltui/components/{component}/attempt-{attempt}"

    def remote(self, **values: Any) -> Any:
        return read_job_status(self.folder(**values))

    def records(self) -> list[AttemptRecord]:
        """Records of the shims there that still look after something."""
        records = (processes.read_attempt(folder) for node in self.nodes for folder in node.attempts)
        return [record for record in records if record is not None and record.living_main is not None]

    def runner_pid(self, component: str = "trainer") -> int:
        """Pid of the component's remote runner."""

        def main() -> int | None:
            record = processes.read_attempt(self.folder(component))
            return record.living_main.pid if record is not None and record.living_main is not None else None

        return retry_until(main)

    def lines(self) -> list[str]:
        return (self.folder() / "output.log").read_text().splitlines()

    def goes_on(self) -> None:
        """New lines come, and each came once."""
        before = len(self.lines())
        retry_until(lambda: len(self.lines()) > before + 5, timeout_s=60)
        lines = self.lines()
        assert lines[:-1] == [f"line {number}" for number in range(len(lines) - 1)]

    def events(self) -> str:
        return self.box.run("events", "one").stdout

    def end(self) -> None:
        for node in self.nodes:
            node.end()
        for record in self.records():
            assert record.shim is not None
            processes.send_signal(record.shim, signal.SIGUSR1)
        retry_until(lambda: not self.records())


@pytest.fixture
def cluster(box: Box, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    count, where = getattr(request, "param", (1, 'node = "n1"'))
    nodes_box = Cluster(box, count, where)
    yield nodes_box
    box.run("down", "one")
    nodes_box.end()


def test_without_its_shim_a_runner_goes_on_and_a_killed_one_is_replaced(cluster: Cluster) -> None:
    cluster.up()
    first = cluster.records()
    runner_pid = cluster.runner_pid()
    os.kill(next(pid for pid in processes.ancestors(runner_pid) if pid != runner_pid), signal.SIGKILL)
    cluster.goes_on()
    assert cluster.runner_pid() == runner_pid
    os.kill(runner_pid, signal.SIGKILL)
    retry_until(lambda: cluster.runner_pid() != runner_pid, timeout_s=30)
    cluster.goes_on()
    status = cluster.box.component("trainer")
    assert (status["state"], status["attempt"]) == ("ready", 1)
    assert [record.main for record in cluster.records()] == [record.main for record in first]
    assert cluster.box.run("down", "one").returncode == 0
    assert not cluster.records()
    assert not any(node.attempts for node in cluster.nodes)


@pytest.mark.parametrize("what", ["supervisor", "everything here"])
def test_the_next_supervisor_takes_up_with_what_goes_on(cluster: Cluster, what: str) -> None:
    cluster.up()
    first = cluster.records()
    pids = [cluster.box.supervisor_pid()]
    if what == "everything here":  # as a reboot does
        runner_pid = cluster.runner_pid()
        pids += {runner_pid, *[*processes.ancestors(runner_pid)][:2]}  # with its shim
        command = ["up", "-l", "nodes.toml", "-n", "one", "-o", "out", "--resume"]
    else:
        command = ["status", "one"]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    result = cluster.box.run(*command)
    assert result.returncode == 0, result.stderr
    cluster.goes_on()
    assert cluster.box.component("trainer")["attempt"] == 1
    assert [record.main for record in cluster.records()] == [record.main for record in first]
    stop = cluster.box.run("stop", "one", "-c", "trainer", "--yes", "--wait")
    assert stop.returncode == 0, stop.stderr
    assert not cluster.records()


def test_a_stop_that_reaches_nobody_says_so_and_no_start_makes_a_second(cluster: Cluster) -> None:
    cluster.up()
    first = cluster.records()
    cluster.nodes[0].close()
    retry_until(lambda: "no answer from n1" in cluster.events(), timeout_s=60)
    stop = cluster.box.run("stop", "one", "-c", "trainer", "--yes", "--wait", timeout_s=120)
    assert stop.returncode != 0
    assert "n1 has not answered for" in stop.stderr + stop.stdout
    down = cluster.box.run("down", "one", timeout_s=120)
    assert down.returncode == 1
    assert (
        "is down, but some processes could not be ended:\n  trainer: n1 has not answered for " in down.stderr
    )
    assert "; it may still be running there\n→ list them: rltui gpus orphans one" in down.stderr
    listing = cluster.box.run("gpus", "orphans", "one").stdout
    assert "trainer may still be running: n1, silent for " in listing
    cluster.nodes[0].open()
    assert cluster.box.run("up", "-l", "nodes.toml", "-n", "one", "-o", "out", "--resume").returncode == 0
    cluster.goes_on()
    assert [record.main for record in cluster.records()] == [record.main for record in first]
    assert cluster.box.run("down", "one").returncode == 0
    assert not cluster.records()


def test_what_ran_on_a_machine_that_is_gone_for_good_is_forgotten_on_request(cluster: Cluster) -> None:
    cluster.up()
    (records,) = cluster.records()
    refusal = cluster.box.run("gpus", "orphans", "one", "--forget", "trainer", "--yes")
    assert refusal.returncode == 2
    assert hints.STOP(components="trainer", name="one") in refusal.stderr
    cluster.nodes[0].close()
    assert cluster.box.run("down", "one", timeout_s=120).returncode == 1
    assert records.shim is not None
    processes.send_signal(records.shim, signal.SIGUSR1)
    retry_until(lambda: not cluster.records())
    cluster.nodes[0].open()
    listing = cluster.box.run("gpus", "orphans", "one")
    follow(cluster.box, listing, hints.FORGET, "--yes", code=0, component="trainer")
    assert "trainer was given up, at n1" in cluster.events()
    assert cluster.box.run("up", "-l", "nodes.toml", "-n", "one", "-o", "out", "--resume").returncode == 0
    assert cluster.box.component("trainer")["attempt"] == 2


@pytest.mark.parametrize("cluster", [(3, 'each = "nodes"')], indirect=True)
def test_ranks_start_on_their_nodes_and_restart_together(cluster: Cluster) -> None:
    cluster.up()
    assert len(cluster.records()) == 3
    plan = cluster.box.json("restart", "one", "-c", "trainer-n2", "--plan")
    assert sorted(plan["start"]) == ["trainer-n1", "trainer-n2", "trainer-n3"]
    assert any("ranks of one program" in reason for reason in plan["reasons"])
    before = {record.main for record in cluster.records()}
    restarted = cluster.box.run("restart", "one", "-c", "trainer-n2", "--yes", "--wait")
    assert restarted.returncode == 0, restarted.stderr
    assert [cluster.box.component(f"trainer-n{number}")["attempt"] for number in (1, 2, 3)] == [2, 2, 2]
    assert len(before | {record.main for record in cluster.records()}) == 6
    assert cluster.box.run("down", "one").returncode == 0
    assert not cluster.records()


def test_prime_rl_of_2025_over_two_nodes(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped layout runs on machines that are other ones here."""
    key = f"a secret of {box.root.name}"
    monkeypatch.setitem(box.env, "INFERENCE_SERVER_API_KEY", key)
    prime = prime_box(box, "A1")
    nodes = [FakeNode(box.root / name) for name in ("infer", "train")]
    for node in nodes:
        (node.home / ".profile").write_text(f"export PATH={box.env['PATH']} STANDIN_STEP_S=0.05\n")
    text = (paths.shipped_dir("layouts") / "prime-rl-nodes.toml").read_text()
    for number, node in enumerate(nodes):
        text = text.replace(f'["ssh", "node-{number}"]', str(node.reach)).replace(
            f"10.15.42.{number + 1}", "127.0.0.1"
        )
    (box.work / "nodes.toml").write_text(text)
    try:
        prime.up("nodes.toml")
        prime.wait_for_steps("trainer", 3, timeout_s=60)
        assert all(len(node.attempts) == count for node, count in zip(nodes, (1, 2), strict=True))
        spec = json.loads((nodes[0].attempts[0] / "spec.json").read_text())
        assert spec["env"]["INFERENCE_SERVER_API_KEY"] == key
        ps = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True)
        assert key not in ps.stdout
        assert not [
            path
            for path in (box.work / "out").rglob("*")
            if path.is_file() and key.encode() in path.read_bytes()
        ]
        prime.done("down", "one")
        assert not any(node.attempts for node in nodes)
    finally:
        box.run("down", "one")
        for node in nodes:
            node.end()
