"""Facts about a process that a person sees before ending it."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.services.processes import ProcessId, age_s, is_stopped, read_process_id

__all__ = ["start"]  # a fixture, used by name


def test_age_is_the_time_since_the_start(start: Start) -> None:
    before = time.monotonic()
    process = start("sleep", "1000")
    age = age_s(process)
    assert 0 <= age <= time.monotonic() - before + 0.02  # a start time is rounded down to 10 ms
    retry_until(lambda: age_s(process) > age + 0.05)


def test_age_agrees_with_ps() -> None:
    own = read_process_id(os.getppid())
    assert own is not None
    shown = subprocess.run(["ps", "-o", "etimes=", "-p", str(own.pid)], capture_output=True, check=True)
    assert age_s(own) == pytest.approx(int(shown.stdout), abs=2)


def test_a_stopped_process_is_told_from_a_sleeping_one(start: Start) -> None:
    process = start("sleep", "1000")
    assert not is_stopped(process)
    os.kill(process.pid, signal.SIGSTOP)
    retry_until(lambda: is_stopped(process))
    assert not is_stopped(ProcessId(process.pid, process.start - 1))
    os.kill(process.pid, signal.SIGCONT)
    retry_until(lambda: not is_stopped(process))


def test_one_that_has_ended_is_not_stopped() -> None:
    assert not is_stopped(ProcessId(2**22 + 1, 1))
