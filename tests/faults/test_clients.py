"""Many clients, clients that never read, clients that ask without end."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.faults import events, invariants
from tests.faults.harness import TRUE_WITHIN_S, Experiment
from tests.waiting import retry_until

from rltui.client.transports.unix import Wire
from rltui.errors import ConflictError

pytestmark = [pytest.mark.e2e, pytest.mark.tmux]


def open_files(pid: int) -> int:
    """But the logs of components: it begins to read each some moments after the component was ready."""
    count = 0
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            count += not str(file.readlink()).endswith("/output.log")
    return count


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
def test_fifty_clients_that_never_read_slow_nobody(experiment: Experiment) -> None:
    before = experiment.up()
    supervisor = experiment.supervisor_pid()
    assert supervisor is not None
    files, memory = open_files(supervisor), resident_bytes(supervisor)
    silent = events.silent_subscribers(experiment, 50)
    try:
        with Wire(experiment.socket_path) as reader:
            states = reader.events("status")
            next(states)
            for _ in range(3):
                asked = time.monotonic()
                experiment.request("restart", "trainer")
                assert time.monotonic() - asked < 2 * TRUE_WITHIN_S
            invariants.assert_all(experiment, before, may_end={"trainer"})
            ready = {"id": "trainer", "state": "ready", "attempt": 4}
            assert any(ready.items() <= item.items() for data in states for item in data["components"])
        assert resident_bytes(supervisor) - memory < 32 << 20
    finally:
        for client in silent:
            client.close()
    retry_until(lambda: open_files(supervisor) <= files, timeout_s=5)
    assert experiment.supervisor_pid() == supervisor


@pytest.mark.slow
def test_200_restarts_as_fast_as_they_can_be_asked(experiment: Experiment) -> None:
    before = experiment.up()
    taken = 0
    for _ in range(200):
        try:
            experiment.execute("restart", "trainer")
        except ConflictError:
            continue
        taken += 1
    experiment.settle()
    assert experiment.shown()["trainer"]["state"] == "ready"
    mains = [being for being in experiment.truth.beings("trainer") if being.role == "main"]
    assert 2 <= len(mains) <= taken + 1
    assert experiment.attempts("trainer")[-1] <= taken + 1
    invariants.assert_all(experiment, before, may_end={"trainer"})


@pytest.mark.faults
def test_start_stop_and_restart_at_once_from_many_clients(experiment: Experiment) -> None:
    before = experiment.up()
    wires = [Wire(experiment.socket_path) for _ in range(10)]
    for turn in range(60):
        action = ("restart", "stop", "start")[turn % 3]
        params = {"action": action, "components": ["trainer"], "kill": turn % 2 == 1 and action == "stop"}
        try:
            wires[turn % 10].call("execute", params, timeout_s=10)
        except ConflictError:
            continue
    for wire in wires:
        wire.close()
    experiment.settle()
    invariants.assert_all(experiment, before, may_end={"trainer"})
    experiment.request("start", "trainer")
    assert experiment.shown()["trainer"]["state"] == "ready"
    invariants.assert_all(experiment, before, may_end={"trainer"})
