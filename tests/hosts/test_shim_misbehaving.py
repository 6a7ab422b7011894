"""Programs, persons and signals that do what nobody planned for."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.hosts.shim_harness import attempt, program
from tests.waiting import retry_until

from rltui.services.processes import is_alive, is_stopped

TRAP = "trap 'exit 4' TERM; echo ready; while :; do sleep 0.02; done"


def test_a_stopped_tree_can_be_killed(tmp_path: Path) -> None:
    with attempt(tmp_path, program("family.py", tmp_path / "pids", "wait", "stopped", "daemon")) as run:
        run.start()
        run.family()
        retry_until(lambda: len(run.record.descendants) == 3)
        family = run.found_processes
        main = run.running().main
        assert main is not None
        os.kill(main.pid, signal.SIGSTOP)
        retry_until(lambda: is_stopped(main) and any(map(is_stopped, family - {main})))
        run.signal(signal.SIGUSR1)
        record = run.wait(3.0)
    assert (record.signal, record.stop_requested) == ("SIGKILL", True)
    assert not any(map(is_alive, family))


def test_a_stopped_one_without_a_request_stays_stopped(tmp_path: Path) -> None:
    """A debugger, or a person, may hold it: no signal of ours may wake it."""
    with attempt(tmp_path, ["sleep", "1000"]) as run:
        run.start()
        main = run.running().main
        assert main is not None
        assert run.process is not None
        os.kill(main.pid, signal.SIGSTOP)
        retry_until(lambda: is_stopped(main))
        looks = switches(run.process.pid)
        retry_until(lambda: switches(run.process.pid) > looks + 1 if run.process else False)
        assert is_stopped(main)
        assert (run.record.state, run.record.ended_at) == ("running", None)


def switches(pid: int) -> int:
    """How often it has gone to sleep."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGUSR1], ids=["SIGTERM", "SIGUSR1"])
def test_one_that_replaces_itself_when_asked_is_ended(tmp_path: Path, stop_signal: signal.Signals) -> None:
    with attempt(tmp_path, program("respawn.py", tmp_path / "ready")) as run:
        run.start()
        retry_until((tmp_path / "ready").exists)
        run.signal(stop_signal)
        if stop_signal == signal.SIGTERM:
            retry_until(lambda: run.record.ended_at)  # each successor is asked in turn, and succeeded
            run.signal(signal.SIGUSR1)
        record = run.wait(3.0)
        assert not any(map(is_alive, run.found_processes))
    assert record.exit_code == 0 if stop_signal == signal.SIGTERM else record.signal == "SIGKILL"
    assert record.descendants == ()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=["SIGTERM", "SIGUSR1"])
def test_a_stop_in_the_first_moment_is_a_stop(tmp_path: Path, number: signal.Signals) -> None:
    """Signals are taken as soon as there is a record to read its pid from."""
    with attempt(tmp_path, ["sleep", "1000"]) as run:
        run.start()
        retry_until((tmp_path / "attempt.json").exists, interval_s=0.0)
        run.signal(number)
        record = run.wait(5.0)
    assert record.stop_requested
    assert record.signal in {"SIGTERM", "SIGKILL"}


def test_many_requests_are_one_stop(tmp_path: Path) -> None:
    """A person presses ctrl+c 200 times."""
    script = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.02; done"
    with attempt(tmp_path, ["sh", "-c", script]) as run:
        run.start()
        run.wait_for_output("ready")
        for _ in range(200):
            run.signal(signal.SIGTERM)
        retry_until(lambda: "asked" in run.log.read_text())
        for _ in range(200):
            run.signal(signal.SIGTERM)
        run.signal(signal.SIGUSR1)
        record = run.wait(3.0)
    assert (record.signal, record.stop_requested) == ("SIGKILL", True)
    assert run.log.read_text() == "ready\nasked\n"


def test_a_stopped_shim_loses_nothing(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sh", "-c", "until [ -e go ]; do sleep 0.02; done; exit 6"]) as run:
        run.start()
        record = run.running()
        assert record.shim is not None
        assert record.main is not None
        main, shim = record.main, record.shim
        run.signal(signal.SIGSTOP)
        retry_until(lambda: is_stopped(shim))
        (tmp_path / "go").touch()
        retry_until(lambda: not is_alive(main))
        assert run.record.exit_code is None
        run.signal(signal.SIGCONT)
        assert run.wait().exit_code == 6
