"""Ends of a component: asked, forced, by itself; and everything below it goes, too."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from tests.hosts.shim_harness import attempt, program
from tests.waiting import retry_until

from rltui.services.processes import (
    is_alive,
    leftovers,
    port_holder,
)
from rltui.services.processes.termination import end_processes

STOP_AT_ONCE = {"signal": "SIGTERM", "grace_s": 0.1}
TRAP = "trap 'echo got it; exit 4' {}; echo ready; while :; do sleep 0.02; done"


@pytest.mark.parametrize("name", ["TERM", "USR2"])
def test_graceful_stop_sends_the_chosen_signal(tmp_path: Path, name: str) -> None:
    stop = {"signal": f"SIG{name}", "grace_s": 20.0}
    with attempt(tmp_path, ["sh", "-c", TRAP.format(name)], stop=stop) as run:
        run.start()
        run.wait_for_output("ready")
        run.signal(signal.SIGTERM)
        record = run.wait()
    assert (record.exit_code, record.stop_requested) == (4, True)
    assert run.log.read_text() == "ready\ngot it\n"


ONLY_TWICE = "trap 'trap \"echo twice; exit 5\" INT; echo once' INT; echo ready; while :; do sleep 0.02; done"


def test_who_takes_no_notice_is_asked_once_more(tmp_path: Path) -> None:
    """Finding R1: an orchestrator that waited for weights let `down` wait for a minute."""
    stop = {"signal": "SIGINT", "grace_s": 60.0, "again_s": 0.2}
    with attempt(tmp_path, ["sh", "-c", ONLY_TWICE], stop=stop) as run:
        run.start()
        run.wait_for_output("ready")
        run.signal(signal.SIGTERM)
        assert run.wait().exit_code == 5
    assert run.log.read_text() == "ready\nonce\ntwice\n"


def test_only_the_main_process_is_asked_first(tmp_path: Path) -> None:
    """A child of vLLM's must not get the signal: its parent ends it in order."""
    script = "sh -c 'trap \"echo child asked\" TERM; echo ready; while :; do sleep 0.02; done' & "
    script += "trap 'kill -KILL $!; exit 0' TERM; wait"
    with attempt(tmp_path, ["sh", "-c", script]) as run:
        run.start()
        run.wait_for_output("ready")
        run.signal(signal.SIGTERM)
        assert run.wait().exit_code == 0
    assert run.log.read_text() == "ready\n"


@pytest.mark.slow
def test_a_stubborn_one_is_killed_after_its_grace(tmp_path: Path) -> None:
    with attempt(tmp_path, program("stubborn.py", tmp_path / "ready"), stop=STOP_AT_ONCE) as run:
        run.start()
        retry_until((tmp_path / "ready").exists)
        run.signal(signal.SIGTERM)
        run.signal(signal.SIGTERM)
        record = run.wait()
    assert (record.signal, record.exit_code, record.stop_requested) == ("SIGKILL", None, True)


def test_sigusr1_kills_at_once(tmp_path: Path) -> None:
    with attempt(
        tmp_path, program("family.py", tmp_path / "pids", "wait", "stubborn", "session", "daemon")
    ) as run:
        run.start()
        family = run.family()
        run.signal(signal.SIGUSR1)
        record = run.wait(3.0)
    assert (record.signal, record.stop_requested) == ("SIGKILL", True)
    assert not any(map(is_alive, family.values()))


@pytest.mark.parametrize("ending", ["0", "1"])
def test_orphans_end_with_the_main_process(tmp_path: Path, ending: str) -> None:
    """vLLM exits 0 after an engine crash and can leave workers that hold the GPU."""
    kinds = ["child", "session", "daemon", "titled", "stopped", "port"]
    with attempt(tmp_path, program("family.py", tmp_path / "pids", ending, *kinds)) as run:
        run.start()
        port = run.pids()["listens"]
        run.family()
        record = run.wait()
    assert (record.exit_code, record.stop_requested, record.descendants) == (int(ending), False, ())
    assert not any(is_alive(identity) for identity in run.found_processes)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))


def test_an_orphan_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with attempt(tmp_path, program("family.py", tmp_path / "pids", "0", "stubborn")) as run:
        run.start()
        stubborn = run.family()["stubborn"]
        # Known while the orphan keeps the shim busy.
        retry_until(lambda: run.record.exit_code == 0)
        assert run.record.state == "running"
        run.signal(signal.SIGUSR1)
        record = run.wait(3.0)
    assert (record.exit_code, record.stop_requested) == (0, False)
    assert not is_alive(stubborn)


def test_a_stopped_main_process_can_be_stopped(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sh", "-c", TRAP.format("TERM")]) as run:
        run.start()
        run.wait_for_output("ready")
        main = run.running().main
        assert main is not None
        os.kill(main.pid, signal.SIGSTOP)
        run.signal(signal.SIGTERM)
        assert run.wait().exit_code == 4


def test_descendants_are_recorded(tmp_path: Path) -> None:
    kinds = ["child", "session", "daemon", "titled"]
    with attempt(tmp_path, program("family.py", tmp_path / "pids", "wait", *kinds)) as run:
        run.start()
        family = set(run.family().values())
        main = run.running().main
        retry_until(lambda: {*run.record.descendants} == {*family, main})
        os.kill(next(iter(family)).pid, signal.SIGKILL)
        retry_until(lambda: len(run.record.descendants) == 4)


def test_terminal_signals_do_not_touch_the_shim(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sh", "-c", TRAP.format("TERM")]) as run:
        run.start()
        run.wait_for_output("ready")
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGPIPE):
            run.signal(number)
        run.signal(signal.SIGTERM)
        assert run.wait().exit_code == 4


@pytest.mark.slow
def test_a_shim_that_was_stopped_for_a_while_asks_nobody_to_stop(tmp_path: Path) -> None:
    """The wait ran out while the shim was stopped: CPython then makes up a signal (`sigtimedwait`)."""
    with attempt(tmp_path, ["sleep", "1000"]) as run:
        run.start()
        before = retry_until(lambda: run.record if run.record.descendants else None)
        assert before.main is not None
        for _ in range(3):
            run.signal(signal.SIGSTOP)
            time.sleep(0.6)  # longer than between two of its looks at the beginning
            run.signal(signal.SIGCONT)
            (tmp_path / "attempt.json").unlink()
            retry_until((tmp_path / "attempt.json").exists)  # it has looked again
        assert is_alive(before.main)
        assert not run.record.stop_requested


async def test_a_killed_shim_leaves_what_can_be_found_and_ended(tmp_path: Path) -> None:
    kinds = ["child", "session", "daemon", "titled", "stubborn", "stopped", "port"]
    with attempt(tmp_path, program("family.py", tmp_path / "pids", "wait", *kinds)) as run:
        run.start()
        pids, family = run.pids(), run.family()
        expected = {*family.values(), run.record.main}  # of 8 recorded, one may be a parent that ends at once
        record = retry_until(lambda: run.record if {*run.record.descendants} == expected else None)
        assert leftovers(record.experiment, [record]) == []  # its shim takes care of them

        run.signal(signal.SIGKILL)
        assert run.process is not None
        run.process.wait()
        assert not record.is_supervised
        holder = port_holder(pids["listens"])
        assert holder is not None
        assert holder.process == family["port"]

        living = leftovers(record.experiment, [record])
        assert {leftover.id for leftover in living} == expected
        assert {leftover.evidence for leftover in living} == {"recorded"}
        titled = next(leftover for leftover in living if leftover.id == family["titled"])
        assert titled.command == "VLLM::EngineCore"
        assert (titled.component, titled.attempt) == ("trainer", 1)

        assert await end_processes([leftover.id for leftover in living], grace_s=0.3) == ()
        assert leftovers(record.experiment, [record]) == []
        assert port_holder(pids["listens"]) is None
