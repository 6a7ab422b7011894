from __future__ import annotations

import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import retry_until

from rltui.services.processes import ProcessId, descendants, read_process_id, send_signal, stack_dump
from rltui.services.processes.identity import command_line, read_stat
from rltui.services.processes.stack_dump import dump_stacks, find_py_spy

needs_py_spy = pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")

HANGS = """\
import subprocess, sys, time
def wait_for_batch():
    if "child" not in sys.argv:
        subprocess.Popen([sys.executable, __file__, "child"])
        subprocess.Popen(["sleep", "1000"])
    print("hangs", flush=True)
    time.sleep(1000)
wait_for_batch()
"""


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[ProcessId]:
    """A program with a child that is Python too, and one that is not."""
    program = tmp_path / "hangs.py"
    program.write_text(HANGS)
    process = subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["hangs\n", "hangs\n"]
    identity = read_process_id(process.pid)
    assert identity is not None
    retry_until(lambda: len(descendants(process.pid)) == 2)
    yield identity
    for child in (*descendants(process.pid), identity):
        send_signal(child, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def fake_py_spy(folder: Path, script: str) -> str:
    program = folder / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


@needs_py_spy
async def test_where_a_program_hangs_and_its_children(hanging: ProcessId) -> None:
    stacks = await dump_stacks(hanging)
    assert stacks is not None
    assert stacks.count("wait_for_batch (hangs.py:") == 2
    assert stacks.index(f"Process {hanging.pid}:") < stacks.index("hangs.py child")
    assert "sleep 1000" not in stacks


@needs_py_spy
async def test_a_stopped_program_is_read_and_stays_stopped(hanging: ProcessId) -> None:
    send_signal(hanging, signal.SIGSTOP)
    retry_until(lambda: state(hanging) == "T")
    stacks = await dump_stacks(hanging)
    assert stacks is not None
    assert "wait_for_batch (hangs.py:" in stacks.split("Process")[1]
    assert state(hanging) == "T"


def state(process: ProcessId) -> str | None:
    found = read_stat(process.pid)
    return found.state if found is not None else None


async def test_without_py_spy_there_is_none(hanging: ProcessId, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_dump, "find_py_spy", lambda: None)
    assert await dump_stacks(hanging) is None


@pytest.fixture
def sleeping() -> Iterator[ProcessId]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        identity = read_process_id(process.pid)
        assert identity is not None
        yield identity
        process.kill()


async def test_a_tree_without_python_has_none(sleeping: ProcessId, tmp_path: Path) -> None:
    retry_until(lambda: command_line(sleeping.pid) == "sleep 1000")
    assert await dump_stacks(sleeping, py_spy=fake_py_spy(tmp_path, "echo never")) is None


async def test_failures_are_told_in_words(hanging: ProcessId, tmp_path: Path) -> None:
    denied = fake_py_spy(tmp_path, "echo 'Permission Denied: Try running again' >&2; exit 1")
    told = await dump_stacks(hanging, py_spy=denied)
    assert told is not None
    assert "py-spy lacks permission" in told
    broken = fake_py_spy(tmp_path, "echo 'Error: Failed to find python version' >&2; exit 1")
    told = await dump_stacks(hanging, py_spy=broken)
    assert told is not None
    assert "py-spy failed: Failed to find python version" in told


async def test_a_py_spy_that_hangs_is_ended(
    hanging: ProcessId, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    monkeypatch.setattr(stack_dump, "PROCESS_TIMEOUT_S", 0.3)
    stacks = await dump_stacks(hanging, py_spy=fake_py_spy(tmp_path, f"echo $$ >> {pids}; exec sleep 1000"))
    assert stacks is not None
    assert stacks.count("no answer within") == 2
    assert [read_stat(int(pid)) for pid in pids.read_text().split()] == [None, None]


async def test_a_long_dump_is_cut(
    hanging: ProcessId, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_dump, "LONGEST_DUMP", 4096)
    monkeypatch.setattr(stack_dump, "MOST_PROCESSES", 1)
    stacks = await dump_stacks(hanging, py_spy=fake_py_spy(tmp_path, "yes | head -c 100000"))
    assert stacks is not None
    assert len(stacks) < 4096 + 200
    assert "truncated after 4 KiB" in stacks
    assert "… and 1 more Python processes, skipped" in stacks
