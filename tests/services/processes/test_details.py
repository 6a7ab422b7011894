"""Facts about a process that a person sees before ending it."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time

import pytest
from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.services.processes import (
    ProcessId,
    age_s,
    command_name,
    is_stopped,
    owner_name,
    read_process_id,
    uid,
)
from rltui.services.processes.details import survival_reason

__all__ = ["start"]  # a fixture, used by name


def test_age_is_the_time_since_the_start(start: Start) -> None:
    before = time.monotonic()
    process = start("sleep", "1000")
    age = age_s(process)
    assert 0 <= age <= time.monotonic() - before + 0.02  # a start time is rounded down to 10 ms
    retry_until(lambda: age_s(process) > age + 0.05)


def test_a_stopped_process_is_told_from_a_sleeping_one(start: Start) -> None:
    process = start("sleep", "1000")
    assert not is_stopped(process)
    os.kill(process.pid, signal.SIGSTOP)
    retry_until(lambda: is_stopped(process))
    assert not is_stopped(ProcessId(process.pid, process.start - 1))
    assert not is_stopped(ProcessId(NOBODY, 1))
    os.kill(process.pid, signal.SIGCONT)
    retry_until(lambda: not is_stopped(process))


NOBODY = 2**22 + 1
"""No process has such a pid."""


def test_command_name_is_the_first_word_of_the_title() -> None:
    title = ["/opt/VLLM::EngineCore_DP0\x1b of 8"]
    process = subprocess.Popen(title, executable="/bin/cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"exec is done\n")
    process.stdin.flush()
    process.stdout.readline()
    name = command_name(process.pid)
    process.communicate()
    assert name == "VLLM::EngineCore_DP0?"


def test_command_name_of_an_ended_process() -> None:
    process = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert command_name(process.pid) == "true"  # from `comm`: a zombie has no command line
    process.wait()
    assert command_name(process.pid) == ""


def test_owner_is_told_by_number_and_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert uid(os.getpid()) == os.getuid()
    assert owner_name(os.getpid()) == pwd.getpwuid(os.getuid()).pw_name
    assert (uid(NOBODY), owner_name(NOBODY)) == (None, None)
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    free = next(number for number in range(3_000_000_000, 3_000_100_000) if number not in taken)
    monkeypatch.setattr("rltui.services.processes.details.uid", lambda pid: free)
    assert owner_name(os.getpid()) == str(free)


def test_why_a_process_lives_that_is_somebody_elses(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    program = start("sleep", "1000")
    process = read_process_id(program.pid)
    assert process is not None
    asleep = f"pid {program.pid} sleep is still ending (state S)"
    assert retry_until(lambda: survival_reason(process) == asleep)
    owner = owner_name(program.pid)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert survival_reason(process) == f"pid {program.pid} sleep belongs to {owner}"
