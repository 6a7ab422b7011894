"""`stop.leftovers = "keep"`: what outlives a main process that ended by itself is left alone, and known."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from tests.hosts.shim_harness import Attempt, attempt, program
from tests.waiting import retry_until

from rltui.hosts.shim import tree
from rltui.services.processes import (
    AttemptRecord,
    is_alive,
    is_stopped,
    kept_leftovers,
    leftovers,
    listening_ports,
    send_signal,
)
from rltui.services.processes.termination import end_processes

KEEP = {"signal": "SIGTERM", "grace_s": 20.0, "leftovers": "keep"}
KINDS = ["child", "session", "daemon", "titled", "port"]


def family(tmp_path: Path, ending: str, *kinds: str) -> list[str]:
    return program("family.py", tmp_path / "pids", ending, *kinds)


def ended_record(run: Attempt) -> AttemptRecord:
    """The record, once the main process has ended and its leftovers were recorded."""
    return retry_until(
        lambda: record if (record := run.record).ended_at and record.main not in record.descendants else None
    )


def test_leftovers_live_on_and_are_known(tmp_path: Path) -> None:
    with attempt(tmp_path, family(tmp_path, "3", *KINDS), stop=KEEP) as run:
        run.start()
        pids, living = run.pids(), {*run.family().values()}
        assert len(living) == len(KINDS)
        record = ended_record(run)
        assert (record.state, record.exit_code, record.signal) == ("running", 3, None)
        assert (record.stop_requested, record.leftovers_kept) == (False, True)
        assert set(record.descendants) == living
        assert {item.id for item in kept_leftovers(record)} == living
        assert {item.evidence for item in kept_leftovers(record)} == {"descendant"}
        assert leftovers(record.experiment, [record]) == []  # its shim still takes care of them
        ports = listening_ports([process.pid for process in living])
        assert ports[pids["port"]] == (pids["listens"],)

        run.signal(signal.SIGTERM)
        last = run.wait()
    assert (last.state, last.exit_code, last.ended_at) == ("exited", 3, record.ended_at)
    assert (last.stop_requested, last.descendants) == (False, ())
    assert not any(map(is_alive, living))
    assert kept_leftovers(last) == []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", pids["listens"]))


def test_nothing_is_done_to_them_and_the_last_one_ends_the_attempt(tmp_path: Path) -> None:
    with attempt(tmp_path, family(tmp_path, "0", "child", "daemon", "stopped"), stop=KEEP) as run:
        run.start()
        members = run.family()
        record = ended_record(run)
        assert is_stopped(members["stopped"])
        os.kill(members["child"].pid, signal.SIGKILL)
        retry_until(lambda: len(run.record.descendants) == 2)
        assert len(kept_leftovers(record)) == 2
        os.kill(members["daemon"].pid, signal.SIGKILL)
        assert is_stopped(members["stopped"])
        os.kill(members["stopped"].pid, signal.SIGKILL)
        last = run.wait(5.0)
    assert (last.state, last.exit_code, last.ended_at) == ("exited", 0, record.ended_at)


def test_sigusr1_kills_what_was_kept(tmp_path: Path) -> None:
    with attempt(tmp_path, family(tmp_path, "0", "stubborn", "session"), stop=KEEP) as run:
        run.start()
        living = {*run.family().values()}
        ended_record(run)
        run.signal(signal.SIGUSR1)
        assert run.wait(3.0).exit_code == 0
    assert not any(map(is_alive, living))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=["SIGTERM", "SIGUSR1"])
def test_a_stop_on_request_keeps_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with attempt(tmp_path, family(tmp_path, "wait", "session", "daemon"), stop=KEEP) as run:
        run.start()
        living = {*run.family().values()}
        run.signal(number)
        record = run.wait()
    assert (record.stop_requested, record.leftovers_kept) == (True, False)
    assert not any(map(is_alive, living))


def test_without_leftovers_it_exits_as_ever(tmp_path: Path) -> None:
    with attempt(tmp_path, ["sh", "-c", "exit 3"], stop=KEEP) as run:
        run.start()
        assert run.wait().exit_code == 3


async def test_kept_ones_are_found_when_their_shim_is_killed(tmp_path: Path) -> None:
    with attempt(tmp_path, family(tmp_path, "1", *KINDS), stop=KEEP) as run:
        run.start()
        living = {*run.family().values()}
        record = ended_record(run)
        assert record.shim is not None
        send_signal(record.shim, signal.SIGKILL)
        assert run.process is not None
        run.process.wait()
        assert kept_leftovers(record) == []
        leftovers_found = leftovers(record.experiment, [record])
        assert {leftover.id for leftover in leftovers_found} == living
        assert await end_processes([leftover.id for leftover in leftovers_found], grace_s=5.0) == ()


def test_who_loses_its_parent_while_all_are_read_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def listed(folder: str) -> list[str]:
        nonlocal looks
        looks += 1
        return ["11"] if looks > 1 else ["10", "11"]

    def stat(pid: int) -> list[bytes] | None:
        parent = os.getpid() if looks > 1 else 10
        return None if pid == 10 else [b"S", b"%d" % parent, b"10", *[b"7"] * 17]

    monkeypatch.setattr(os, "listdir", listed)
    monkeypatch.setattr(tree, "read_stat", stat)
    process_tree = tree.Tree()
    process_tree.refresh()
    assert (process_tree.members, process_tree.groups) == ({11: 7}, {10})
