"""Exit status of processes that are not our children."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.services.processes import (
    ProcessId,
    is_alive,
    read_process_id,
    send_signal,
    wait_for_exit_status,
)

__all__ = ["start"]  # a fixture, used by name

PARENT = """
import os, signal, sys
target, reaps = sys.argv[1:]
pid = os.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", "trap 'exit 3' TERM; trap 'exit 0' USR1; while :; do sleep 0.02; done"])
with open(target + ".part", "w") as file:
    file.write(str(pid))
os.rename(target + ".part", target)
if reaps == "yes":
    os.waitpid(pid, 0)
signal.pause()
"""
"""Its child exits 3 on SIGTERM, 0 on SIGUSR1; it reaps the child, or leaves it a zombie."""


def kernel_tells() -> bool:
    """Linux 6.15: asked the way we ask, of a child that was reaped."""
    process = subprocess.Popen(["sh", "-c", "read x; exit 9"], stdin=subprocess.PIPE)
    handle = os.pidfd_open(process.pid)
    try:
        process.communicate()
        request = bytearray(64)
        request[0] = 1 << 3
        fcntl.ioctl(handle, 0xC040FF0B, request)
        return bool(request[0] & 1 << 3)
    except OSError:
        return False
    finally:
        os.close(handle)


needs_kernel = pytest.mark.skipif(not kernel_tells(), reason="needs Linux 6.15")


def grandchild(start: Start, target: Path, *, reaped: bool) -> ProcessId:
    start(sys.executable, "-I", "-S", "-c", PARENT, str(target), "yes" if reaped else "no")
    retry_until(target.exists)
    pid = int(target.read_text())
    retry_until(lambda: b"trap" in Path(f"/proc/{pid}/cmdline").read_bytes())
    # Its traps are set once it has started its first `sleep`.
    retry_until(lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text())
    identity = read_process_id(pid)
    assert identity is not None
    return identity


async def status_after(process: ProcessId, number: signal.Signals) -> int | None:
    waiting = asyncio.create_task(wait_for_exit_status(process))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    assert send_signal(process, number)
    return await asyncio.wait_for(waiting, 5)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 3), (signal.SIGUSR1, 0), (signal.SIGKILL, -9), (signal.SIGSEGV, -11)],
    ids=["exit 3", "exit 0", "SIGKILL", "SIGSEGV"],
)
@pytest.mark.parametrize("reaped", [pytest.param(True, marks=needs_kernel), False], ids=["reaped", "zombie"])
async def test_status_of_another_ones_child(
    tmp_path: Path, start: Start, number: signal.Signals, status: int, reaped: bool
) -> None:
    process = grandchild(start, tmp_path / "pid", reaped=reaped)
    assert await status_after(process, number) == status
    assert not is_alive(process)


@pytest.mark.parametrize("refused", [25, 22], ids=["ENOTTY", "EINVAL"])
async def test_an_older_kernel_tells_of_zombies_only(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(refused, "")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    process = grandchild(start, tmp_path / "pid", reaped=False)
    assert await status_after(process, signal.SIGTERM) == 3


async def test_without_any_source_it_is_unknown_soon(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Linux before 6.15 with a parent that reaps at once."""

    def refuse(path: Path) -> Path:
        raise PermissionError

    def ignore_flag(handle: int, request: int, info: bytearray) -> int:
        info[0] = 0b111  # what Linux 6.13 answers to any question
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ignore_flag)
    monkeypatch.setattr(Path, "readlink", refuse)
    process = grandchild(start, tmp_path / "pid", reaped=False)
    assert await status_after(process, signal.SIGTERM) is None


async def test_of_one_that_ended_before_or_was_another_it_is_unknown(tmp_path: Path, start: Start) -> None:
    process = grandchild(start, tmp_path / "pid", reaped=True)
    assert await wait_for_exit_status(ProcessId(process.pid, process.start - 1)) is None
    send_signal(process, signal.SIGKILL)
    retry_until(lambda: read_process_id(process.pid) != process)
    assert await wait_for_exit_status(process) is None


async def test_a_cancelled_wait_closes_its_descriptor(start: Start) -> None:
    process = start("sleep", "1000")
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait_for_exit_status(process), 0.01)
    assert open_descriptors() == before


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
