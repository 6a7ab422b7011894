from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.waiting import retry_until

from rltui.services.processes import (
    AttemptRecord,
    ProcessId,
    boot_identity,
    descendants,
    end_processes,
    is_alive,
    leftovers,
    read_process_id,
    send_signal,
    wait_for_exit,
)

Start = Callable[..., ProcessId]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts programs and ends them."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(*argv: str, **options: object) -> ProcessId:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, **options)
        started.append(process)
        identity = read_process_id(process.pid)
        assert identity is not None
        return identity

    yield start_one
    for process in started:
        process.kill()
        process.wait()


def record_of(main: ProcessId | None, **changes: object) -> AttemptRecord:
    """Of a shim that was killed."""
    record = AttemptRecord(
        experiment="e",
        component="trainer",
        attempt=3,
        state="running",
        boot=boot_identity(),
        shim=ProcessId(2**22 - 1, 1),
        main=main,
        session=main.pid if main else None,
        argv=("x",),
        cwd="/",
        log="/x.log",
        started_at=0.0,
        ended_at=None,
        exit_code=None,
        signal=None,
        error=None,
        stop_requested=False,
        descendants=(),
    )
    return replace(record, **changes)


def test_a_process_is_alive_until_it_is_a_zombie(start: Start) -> None:
    process = start("sleep", "1000")
    assert is_alive(process)
    os.kill(process.pid, signal.SIGKILL)
    retry_until(lambda: not is_alive(process))
    assert read_process_id(process.pid) == process  # not reaped yet


def test_a_reused_pid_is_another_process(start: Start) -> None:
    process = start("sleep", "1000")
    former = ProcessId(process.pid, process.start - 1)
    assert not is_alive(former)
    assert not send_signal(former, signal.SIGKILL)
    assert is_alive(process)


def test_no_process_has_no_identity() -> None:
    assert read_process_id(2**22 + 1) is None
    assert not send_signal(ProcessId(2**22 + 1, 1), signal.SIGTERM)


def test_names_with_blanks_and_parentheses_are_understood(tmp_path: Path, start: Start) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/sleep")
    assert is_alive(start(str(odd), "1000"))


def test_descendants_lists_parents_first(start: Start) -> None:
    top = start("sh", "-c", "sh -c 'sleep 1000 & wait' & wait")
    found = retry_until(lambda: len(below := descendants(top.pid)) == 2 and below)
    assert [read_parent(process.pid) for process in found] == [top.pid, found[0].pid]
    for process in found:
        send_signal(process, signal.SIGKILL)


def read_parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_wait_for_exit_returns_when_it_ends(start: Start) -> None:
    process = start("sleep", "1000")
    waiting = asyncio.create_task(wait_for_exit(process))
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    send_signal(process, signal.SIGKILL)
    await asyncio.wait_for(waiting, 5)
    await asyncio.wait_for(wait_for_exit(process), 5)  # of one that has ended


async def test_wait_for_exit_works_without_pidfd(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start("sleep", "1000")

    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    waiting = asyncio.create_task(wait_for_exit(process))
    assert send_signal(process, signal.SIGKILL)
    await asyncio.wait_for(waiting, 5)


async def test_a_cancelled_wait_closes_its_descriptor(start: Start) -> None:
    process = start("sleep", "1000")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait_for_exit(process), 0.01)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_end_processes_asks_first_and_wakes_the_stopped(tmp_path: Path, start: Start) -> None:
    polite = start(
        "sh",
        "-c",
        f"trap 'touch {tmp_path}/asked; exit' TERM; touch {tmp_path}/on; while :; do sleep 0.01; done",
    )
    stopped = start("sleep", "1000")
    os.kill(stopped.pid, signal.SIGSTOP)
    retry_until((tmp_path / "on").exists)
    assert await end_processes([polite, stopped], grace_s=5) == ()
    assert (tmp_path / "asked").exists()
    assert not is_alive(stopped)


async def test_end_processes_kills_the_stubborn(tmp_path: Path, start: Start) -> None:
    program = Path(__file__).parents[1] / "fakes/programs/stubborn.py"
    stubborn = start(sys.executable, str(program), str(tmp_path / "ready"))
    retry_until((tmp_path / "ready").exists)
    assert await end_processes([stubborn], grace_s=0.05) == ()
    assert not is_alive(stubborn)
    assert await end_processes([stubborn], grace_s=0.05) == ()


def test_leftovers_are_found_by_session(start: Start) -> None:
    leader = start("sh", "-c", "sleep 1000 & exec sleep 1001", start_new_session=True)
    record = record_of(leader)
    child = retry_until(lambda: descendants(leader.pid))[0]
    # This process is their parent here; orphans have none of ours.
    assert leftovers_elsewhere("e", record) == [(child.pid, "session"), (leader.pid, "recorded")] or (
        leftovers_elsewhere("e", record) == [(leader.pid, "recorded"), (child.pid, "session")]
    )
    send_signal(child, signal.SIGKILL)


def leftovers_elsewhere(experiment: str, record: AttemptRecord) -> list[tuple[int, str]]:
    return [(leftover.id.pid, leftover.evidence) for leftover in leftovers(experiment, [record])]


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[Callable[..., ProcessId]]:
    """Starts `sleep` in a session of its own with no parent of ours."""
    made: list[ProcessId] = []

    def start_orphan(**variables: str) -> ProcessId:
        target = tmp_path / f"pid{len(made)}"
        script = f"setsid sh -c 'echo $$ > {target}.part; mv {target}.part {target}; exec sleep 1000' &"
        subprocess.run(["sh", "-c", script], env={**os.environ, **variables}, check=True)
        retry_until(target.exists)
        pid = int(target.read_text())
        retry_until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()[:6])
        identity = read_process_id(pid)
        assert identity is not None
        made.append(identity)
        return identity

    yield start_orphan
    for identity in made:
        send_signal(identity, signal.SIGKILL)
