"""A program that keeps forking is ended as a whole (finding F8)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.hosts.shim_harness import attempt
from tests.waiting import retry_until

from rltui.services.processes import ProcessId, termination
from rltui.services.processes.identity import ancestors, living_processes
from rltui.services.processes.termination import end_all

STORM = """\
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("begun", flush=True)
ends_at = time.monotonic() + 60
while time.monotonic() < ends_at:  # each has one child and ends: no process is there for long
    if os.fork() != 0:
        time.sleep(0.02)
        os._exit(0)
    time.sleep(0.02)
"""


SLOW = """\
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit(0)))
print("begun", flush=True)
time.sleep(1000)
"""


def members(session: int) -> set[ProcessId]:
    return {stat.id for stat in living_processes() if stat.session == session}


@contextmanager
def ended(session: int) -> Iterator[None]:
    """A signal to a group misses nobody who forks."""
    try:
        yield
        assert not members(session)
    finally:
        if members(session):
            os.killpg(session, signal.SIGKILL)


@contextmanager
def storm_of_forks() -> Iterator[int]:
    """Its session, which is also its process group."""
    argv = [sys.executable, "-I", "-S", "-c", STORM]
    with subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE) as storm:
        assert storm.stdout is not None
        storm.stdout.readline()
        storm.wait()
        with ended(storm.pid):
            yield storm.pid


def test_a_storm_of_forks_is_ended() -> None:
    with storm_of_forks() as session:
        assert members(session), "each look finds one"
        assert asyncio.run(end_all(lambda: members(session), grace_s=0.3)) == ()


def test_a_storm_that_cannot_be_ended_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    with storm_of_forks() as session, monkeypatch.context() as patch:
        patch.setattr(termination, "_KILL_TIMEOUT_S", 0.0)
        patch.setattr(termination, "send_signal", lambda process, number: False)
        patch.setattr(os, "killpg", lambda group, number: None)
        assert asyncio.run(end_all(lambda: members(session), grace_s=0.1))
        patch.undo()
        os.killpg(session, signal.SIGKILL)
        retry_until(lambda: not members(session))


def test_a_shim_kills_a_storm_of_forks(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-S", "-c", STORM]
    with attempt(tmp_path, argv, stop={"signal": "SIGTERM", "grace_s": 0.2}) as run:
        run.start()
        record = run.running()
        assert record.session is not None
        with ended(record.session):
            retry_until(lambda: "begun" in run.log.read_text())
            run.signal(signal.SIGUSR1)
            run.wait()


def test_what_dies_of_the_first_signal_is_not_killed() -> None:
    polite = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        asyncio.run(end_all(lambda: members(polite.pid), grace_s=20))
        assert polite.wait() == -signal.SIGTERM
    finally:
        polite.kill()


def test_whoever_takes_its_time_is_waited_for_and_not_asked_all_the_time() -> None:
    argv = [sys.executable, "-I", "-S", "-c", SLOW]
    with subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE) as slow:
        assert slow.stdout is not None
        slow.stdout.readline()
        looks = 0

        def find() -> set[ProcessId]:
            nonlocal looks
            looks += 1
            return members(slow.pid)

        assert asyncio.run(end_all(find, grace_s=20)) == ()
        assert looks < 12, "one each fifth of a second"
        assert slow.wait() == 0


def test_the_first_process_has_no_parent() -> None:
    assert [*ancestors(1)] == [1]
    assert [*ancestors(0)] == []
