"""Nodes behind real sshds: torchrun over three of them, connections that break and freeze, forwarding."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import SERVICE, Box
from tests.fakes.sshd import Sshd, needs_sshd
from tests.waiting import retry_until

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.tmux, needs_sshd, pytest.mark.timeout(300)]

COUNT = """\
import sys, time
for number in range(int(sys.argv[1])):
    print("line", number, flush=True)
    time.sleep(0.01)
"""
SUMS = """\
import datetime, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
for step in range(int(sys.argv[1])):
    one = torch.ones(1)
    dist.all_reduce(one)
    print("rank", dist.get_rank(), "step", step, "sum", int(one), flush=True)
    time.sleep(0.1)
dist.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Machines:
    """Some behind sshds, and an experiment `one` on them."""

    def __init__(self, box: Box, count: int) -> None:
        self.box = box
        self.machines = [Sshd(box.root / f"m{number}", f"m{number}") for number in range(1, count + 1)]

    def up(self, components: str) -> None:
        tables = [
            f'[[node]]\nname = "m{number}"\nreach = {machine.reach}\naddress = "127.0.0.1"\n'
            f'python = "{sys.executable}"\ncwd = "{machine.home}"\ngpus = false\n'
            for number, machine in enumerate(self.machines, 1)
        ]
        layout = f'framework = "generic"\n{"".join(tables)}{components}'
        (self.box.work / "nodes.toml").write_text(layout)
        result = self.box.run("up", "-l", "nodes.toml", "-n", "one", "-o", "out", timeout_s=240)
        assert result.returncode == 0, result.stderr

    def log(self, component: str) -> str:
        path: Path = self.box.work / f"out/.rltui/components/{component}/attempt-1/output.log"
        return path.read_text()


@pytest.fixture
def machines(box: Box, request: pytest.FixtureRequest) -> Iterator[Machines]:
    rig = Machines(box, request.param)
    yield rig
    down = box.run("down", "one")
    for machine in rig.machines:
        machine.close()
    assert down.returncode == 0, down.stderr
    remaining = [path for machine in rig.machines for path in machine.home.glob(".cache/rltui/attempts/*")]
    assert not remaining


@pytest.mark.parametrize("machines", [3], indirect=True)
def test_torchrun_over_three_nodes_outlives_its_connections(machines: Machines) -> None:
    for machine in machines.machines:
        (machine.home / "sums.py").write_text(SUMS)
    port = free_port()
    machines.up(f"""
[[component]]
id = "trainer"
each = "nodes"
command = [
    "{{python}}", "-m", "torch.distributed.run", "--nnodes={{nodes}}", "--nproc_per_node=1",
    "--node-rank={{rank}}", "--rdzv_endpoint={{head.address}}:{port}", "sums.py", "200",
]
ports = ["{port}"]
env = {{ GLOO_SOCKET_IFNAME = "lo", OMP_NUM_THREADS = "1" }}
progress = ['step (?P<step>\\d+) sum (?P<reward>\\d+)']
""")
    ids = [f"trainer-m{number}" for number in (1, 2, 3)]
    retry_until(lambda: all("step 3 sum 3" in machines.log(name) for name in ids), timeout_s=120)
    machines.machines[1].signal(signal.SIGKILL)
    machines.machines[2].signal(signal.SIGSTOP)
    for name in ids:
        machines.box.wait_for(name, "exited", timeout_s=120)
    for rank, name in enumerate(ids):
        lines = [line for line in machines.log(name).splitlines() if line.startswith("rank")]
        assert lines == [f"rank {rank} step {step} sum 3" for step in range(200)]
    output = machines.box.run("events", "one").stdout
    assert "trainer-m2: no answer from m2" in output
    assert "trainer-m2: m2 answers again" in output


@pytest.mark.parametrize("machines", [1], indirect=True)
def test_a_forwarded_port_is_ready_and_a_frozen_connection_is_left(machines: Machines) -> None:
    (machines.machines[0].home / "service.py").write_text(SERVICE)
    (machines.machines[0].home / "count.py").write_text(COUNT)
    here, there = free_port(), free_port()
    machines.up(f"""
[[component]]
id = "serve"
kind = "service"
node = "m1"
command = ["{{python}}", "service.py", "{there}"]
port = "{there}"
forward = ["{here}:{there}"]
ready = {{ http = "http://127.0.0.1:{here}/health", timeout_s = 60 }}

[[component]]
id = "count"
node = "m1"
command = ["{{python}}", "count.py", "4000"]
""")
    assert machines.box.component("serve")["state"] == "ready"
    machines.machines[0].signal(signal.SIGSTOP)
    machines.box.wait_for("count", "exited", timeout_s=150)
    assert machines.log("count") == "".join(f"line {number}\n" for number in range(4000))


@pytest.mark.parametrize("machines", [1], indirect=True)
def test_with_a_terminal_the_way_there_is_the_component(machines: Machines) -> None:
    machines.up("""
[[component]]
id = "shell"
node = "m1"
tty = true
command = ["sh", "-c", "test -t 0 && echo in $PWD with $VALUE; sleep 600"]
env = { VALUE = "a value" }
""")
    machines.box.wait_for("shell", "ready")
    retry_until(lambda: f"in {machines.machines[0].home} with a value" in machines.log("shell"))


@pytest.mark.parametrize("machines", [1], indirect=True)
def test_what_a_node_lacks_is_said(machines: Machines) -> None:
    layout = f"""
framework = "generic"
[[node]]
name = "m1"
reach = {machines.machines[0].reach}
python = "python9"
[[component]]
id = "count"
node = "m1"
command = ["true"]
"""
    (machines.box.work / "nodes.toml").write_text(layout)
    result = machines.box.run("up", "-l", "nodes.toml", "-n", "one", "-o", "out")
    assert result.returncode == 5
    assert "m1: cannot run Python there: " in result.stderr
    assert "python9: not found" in result.stderr
