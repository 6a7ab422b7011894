"""A stop comes to its end: with a shim that is stopped, one that hears nothing, a process that cannot die."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.fakes.past_run import write_attempt
from tests.hosts import shim_harness
from tests.waiting import retry_until

from rltui.base.tasks import Signal
from rltui.core.experiment.layout import ComponentSpec, Stop
from rltui.core.experiment.lifecycle import ExitInfo
from rltui.core.experiment.states import ComponentState
from rltui.hosts.attempt import Attempt
from rltui.services import processes
from rltui.services.experiment.attempt_end import OomKills, explained, host_oom_of, last_known
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.processes import ProcessId, details, is_alive
from rltui.services.processes.identity import ProcessStat
from rltui.supervisor.component import ComponentRunner

PARENT = 'import subprocess, sys, time; subprocess.Popen(["sleep", "600"]); time.sleep(600)'


class FakeRunnerHost:
    """The environment that a runner needs of a supervisor."""

    failure_patterns = ()

    def __init__(self, record: ExperimentRecord) -> None:
        self.record = record
        self.changes = Signal()

    def lifecycle_changed(self, runner: object, before: object) -> None:
        self.changes.notify()

    def shim_lost(self, runner: object) -> None: ...


@pytest.fixture
def started(tmp_path: Path) -> Iterator[shim_harness.Attempt]:
    """A real shim with a program and its child, and that shim is stopped."""
    folder = ControlFolder(tmp_path / "out").attempt_dir("trainer", 1)
    argv = ["python3", "-I", "-S", "-c", PARENT]
    attempt = shim_harness.Attempt(folder, argv, experiment=f"one@{tmp_path}/out")
    attempt.start()
    retry_until(lambda: len(attempt.record.descendants) == 2)
    assert attempt.process is not None
    attempt.process.send_signal(signal.SIGSTOP)
    yield attempt
    for process in (*attempt.found_processes, *filter(None, [attempt.record.shim])):
        processes.send_signal(process, signal.SIGKILL)
    attempt.process.wait()


def runner_of(tmp_path: Path) -> ComponentRunner:
    record = ExperimentRecord("one", str(tmp_path / "out"), "/", (), "/l", "generic", 1.0)
    spec = ComponentSpec(id="trainer", command=("x",), stop=Stop(grace_s=0.2))
    runner = ComponentRunner(spec=spec, runner_host=cast(Any, FakeRunnerHost(record)), stop_margin_s=0.2)
    runner.adopt(processes.ProcessOwners(), failures=(), was_alive=True)
    return runner


async def test_a_stopped_shim_is_woken_to_do_its_work(tmp_path: Path, started: shim_harness.Attempt) -> None:
    """Finding F1: the stop never came to an end."""
    runner = runner_of(tmp_path)
    runner.stop_margin_s = 60.0
    async with asyncio.timeout(30):
        assert await runner.stop()
    assert runner.lifecycle.state is ComponentState.STOPPED
    assert runner.lifecycle.exit == ExitInfo(signal="SIGTERM", on_request=True)


async def test_behind_a_killed_shim_the_tree_is_ended_all_the_same(
    tmp_path: Path, started: shim_harness.Attempt
) -> None:
    record = started.record
    assert started.process is not None
    started.process.kill()
    started.process.wait()
    runner = runner_of(tmp_path)
    async with asyncio.timeout(30):
        assert await runner.stop()
    assert runner.lifecycle.state is ComponentState.STOPPED
    assert not any(map(is_alive, (*record.descendants, *filter(None, [record.main]))))


async def test_below_a_shim_that_hears_nothing_the_tree_is_ended_all_the_same(
    tmp_path: Path, started: shim_harness.Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding H21: everything below a living shim was spared."""

    async def unheard(self: Attempt, number: signal.Signals) -> None: ...

    monkeypatch.setattr(Attempt, "signal", unheard)
    runner = runner_of(tmp_path)
    record = started.record
    async with asyncio.timeout(30):
        assert await runner.stop()
    assert runner.lifecycle.state is ComponentState.STOPPED
    assert not any(
        is_alive(item) for item in (*record.descendants, *filter(None, [record.shim, record.main]))
    )


async def test_what_cannot_be_ended_is_named_and_waited_for_no_longer(
    tmp_path: Path, started: shim_harness.Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding H18: a component in an uninterruptible write; neither an end nor a word of why."""
    main = started.record.main
    assert main is not None

    async def in_vain(which: object, *, grace_s: float) -> tuple[ProcessId, ...]:
        return (main,)

    for name in ("end_all", "end_processes"):
        monkeypatch.setattr(f"rltui.services.processes.termination.{name}", in_vain)
    monkeypatch.setattr(details, "read_stat", lambda pid: ProcessStat(main, "D", 1, 1))
    runner = runner_of(tmp_path)

    async def unheard(self: Attempt, number: signal.Signals) -> None: ...

    monkeypatch.setattr(Attempt, "signal", unheard)
    async with asyncio.timeout(30):
        assert not await runner.stop()
    assert runner.lifecycle.state is ComponentState.FAILED
    reason = f"cannot be ended: pid {main.pid} python3 is in an uninterruptible sleep (D)"
    assert (runner.lifecycle.reason or "").startswith(reason)


def test_why_a_process_lives_is_what_the_kernel_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = ProcessId(os.getpid(), 7)
    monkeypatch.setattr(details, "PROC", tmp_path)
    folder = tmp_path / str(stuck.pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"/bin/dd\0of=/mnt/nfs/x\0")
    (folder / "wchan").write_text("nfs_wait_bit_killable")
    monkeypatch.setattr(details, "read_stat", lambda pid: ProcessStat(stuck, "D", 1, 1))
    why = processes.survival_reason(stuck)
    assert f"pid {stuck.pid} dd is in an uninterruptible sleep (D) in nfs_wait_bit_killable" in why
    monkeypatch.setattr(details, "read_stat", lambda pid: None)
    assert "has already ended" in processes.survival_reason(stuck)


def test_a_kill_while_the_kernel_was_short_of_memory_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ExperimentRecord("one", str(tmp_path), "/", (), "/l", "generic", 1.0)
    attempt = Attempt(record, ComponentSpec(id="trainer", command=["x"]), 1)
    kills = iter([OomKills(count, is_own=True) for count in (3, 4, 4, 4)])
    monkeypatch.setattr("rltui.services.experiment.attempt_end.oom_kills", lambda: next(kills))
    for text in ("by the kernel's OOM killer: ", "from outside; the kernel's OOM killer did not run"):
        attempt.folder.mkdir(parents=True, exist_ok=True)
        attempt.note_started()
        host_oom = host_oom_of(attempt.folder)
        end = explained(ExitInfo(signal="SIGKILL"), attempt.spec, attempt.log, (), host_oom=host_oom)
        assert (end.cause or "").startswith(text)
        write_attempt(attempt.folder, ended_at=2.0, signal="SIGKILL")
        read = last_known(record.control, attempt.spec, (), ())
        assert f"killed by SIGKILL ({text}" in (read.reason or ""), "also by the next who reads the files"
