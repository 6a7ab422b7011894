from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.shim_harness import attempt
from tests.services.programs import Start, start
from tests.waiting import retry_until

from rltui.services.processes import (
    AttemptRecord,
    ProcessId,
    ProcessOwners,
    ancestors,
    boot_identity,
    descendants,
    is_alive,
    kept_leftovers,
    leftovers,
    living_output_dirs,
    read_attempt,
    read_process_id,
    send_signal,
)
from rltui.services.processes.origin import Origin, origin, read_evidence
from rltui.services.processes.termination import end_processes, wait_for_exit

NAME = f"test-{os.getpid()}"
"""Other test processes look for theirs at the same time."""

__all__ = ["start"]  # a fixture, used by name

Orphan = Callable[..., ProcessId]


def record_of(main: ProcessId | None, **changes: Any) -> AttemptRecord:
    """Of a shim that was killed."""
    record = AttemptRecord(
        experiment=NAME,
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


def test_a_process_is_alive_until_it_is_a_zombie(tmp_path: Path, start: Start) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/sleep")
    process = start(str(odd), "1000")
    former = ProcessId(process.pid, process.start - 1)
    assert not is_alive(former)
    assert not send_signal(former, signal.SIGKILL)
    assert is_alive(process)
    os.kill(process.pid, signal.SIGKILL)
    retry_until(lambda: not is_alive(process))
    assert read_process_id(process.pid) == process  # not reaped yet
    assert read_process_id(2**22 + 1) is None
    assert not send_signal(ProcessId(2**22 + 1, 1), signal.SIGTERM)


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
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait_for_exit(process), 0.01)
    assert open_descriptors() == before


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


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
    program = Path(__file__).parents[2] / "fakes/programs/stubborn.py"
    stubborn = start(sys.executable, str(program), str(tmp_path / "ready"))
    retry_until((tmp_path / "ready").exists)
    assert await end_processes([stubborn], grace_s=0.05) == ()
    assert not is_alive(stubborn)
    assert await end_processes([stubborn], grace_s=0.05) == ()


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[Orphan]:
    """Starts `sleep` in a session of its own with no parent of ours."""
    made: list[ProcessId] = []

    def start_orphan(script: str = "exec sleep 1000", **variables: str) -> ProcessId:
        target = tmp_path / f"pid{len(made)}"
        command = f"setsid sh -c 'echo $$ > {target}.part; mv {target}.part {target}; {script}' &"
        subprocess.run(["sh", "-c", command], env={**os.environ, **variables}, check=True)
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
    retry_until(lambda: not any(map(is_alive, made)))


def found(
    experiment: str, *records: AttemptRecord, exclude: tuple[ProcessId, ...] = ()
) -> dict[ProcessId, str]:
    return {item.id: item.evidence for item in leftovers(experiment, records, exclude=exclude)}


def test_leftovers_by_each_kind_of_evidence(orphan: Orphan) -> None:
    main, recorded = orphan(), orphan()
    tagged = orphan(RLTUI_EXPERIMENT=NAME, RLTUI_COMPONENT="inference", RLTUI_ATTEMPT="4")
    record = record_of(main, descendants=(recorded,))
    assert found(NAME, record) == {main: "recorded", recorded: "recorded", tagged: "environment"}
    [leftover] = leftovers(NAME, [])
    assert (leftover.id, leftover.evidence) == (tagged, "environment")
    assert (leftover.component, leftover.attempt, leftover.command) == ("inference", 4, "sleep 1000")
    assert found("other", record) == {main: "recorded", recorded: "recorded"}
    younger_leader = ProcessId(main.pid, main.start - 1)
    assert found("other", record_of(younger_leader, session=main.pid)) == {}


def test_a_session_outlives_its_leader(orphan: Orphan, tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/child; exec sleep 1000"
    leader = orphan(script=script)
    retry_until((tmp_path / "child").exists)
    child = read_process_id(int((tmp_path / "child").read_text()))
    assert child is not None
    try:
        record = record_of(leader)
        assert found(NAME, record) == {leader: "recorded", child: "session"}
        send_signal(leader, signal.SIGKILL)
        retry_until(lambda: not is_alive(leader))
        assert found(NAME, record) == {child: "session"}
        assert found(NAME, replace(record, state="exited")) == {}
        assert found(NAME, replace(record, boot="another")) == {}
    finally:
        send_signal(child, signal.SIGKILL)


def test_leftovers_spare_the_excluded_and_the_supervised(orphan: Orphan) -> None:
    supervisor, shim = orphan(RLTUI_EXPERIMENT=NAME), orphan(RLTUI_EXPERIMENT=NAME)
    assert found(NAME, record_of(None, shim=shim), exclude=(supervisor,)) == {}
    assert found(NAME, record_of(None), exclude=(supervisor,)) == {shim: "environment"}


def test_leftovers_spare_this_process(start: Start) -> None:
    own = start("sleep", "1000", env={"RLTUI_EXPERIMENT": NAME})
    me = read_process_id(os.getpid())
    assert found(NAME, record_of(me, descendants=(own,))) == {}


def test_a_record_that_cannot_be_understood_is_none(tmp_path: Path) -> None:
    assert read_attempt(tmp_path) is None
    for text in ("", '{"experiment": "e", "comp', "[]", "{}", "null"):
        (tmp_path / "attempt.json").write_text(text)
        assert read_attempt(tmp_path) is None, text


def test_only_a_living_shim_keeps_leftovers(start: Start, tmp_path: Path) -> None:
    child = tmp_path / "child"
    shim = start("sh", "-c", f"sleep 1000 & echo $! > {child}.part; mv {child}.part {child}; wait")
    retry_until(child.exists)
    below = read_process_id(int(child.read_text()))
    assert below is not None
    retry_until(lambda: Path(f"/proc/{below.pid}/cmdline").read_bytes().startswith(b"sleep"))
    record = record_of(None, shim=shim, leftovers_kept=True)
    try:
        [leftover] = kept_leftovers(record)
        assert (leftover.id, leftover.evidence, leftover.command) == (below, "descendant", "sleep 1000")
        assert (leftover.component, leftover.attempt) == ("trainer", 3)
        assert kept_leftovers(replace(record, leftovers_kept=False)) == []
        assert kept_leftovers(replace(record, boot="another")) == []
        assert kept_leftovers(replace(record, shim=ProcessId(shim.pid, shim.start - 1))) == []
    finally:
        send_signal(below, signal.SIGKILL)


async def test_a_living_shim_tells_what_its_record_told(tmp_path: Path) -> None:
    folder = tmp_path / "out/.rltui/components/trainer/attempt-1"
    with attempt(folder, ["sleep", "1000"], experiment=f"x@{tmp_path}/out") as run:
        run.start()
        before = retry_until(lambda: run.record if run.record.descendants else None)
        assert before.shim is not None
        os.kill(before.shim.pid, signal.SIGSTOP)  # it would bring its record back
        (folder / "attempt.json").write_bytes(b"")
        try:
            found = ProcessOwners().attempt(folder, before.experiment)
            assert before.main is not None
            source = origin(map(read_evidence, ancestors(before.main.pid)))
        finally:
            os.kill(before.shim.pid, signal.SIGCONT)
        assert source == Origin("x", "trainer", 1, lives=True)
        assert found is not None
        assert abs(found.started_at - before.started_at) < 60
        assert replace(found, started_at=0.0) == replace(before, started_at=0.0, argv=(), cwd="")
        assert str(tmp_path / "out") in living_output_dirs()

        run.signal(signal.SIGKILL)
        await wait_for_exit(before.shim)
        (folder / "attempt.json").write_bytes(b"")
        alone = ProcessOwners().attempt(folder, before.experiment)
        assert alone is not None
        assert (alone.shim, alone.main, alone.session) == (None, before.main, before.session)
        assert str(tmp_path / "out") in living_output_dirs()
        assert ProcessOwners().attempt(folder.with_name("attempt-2"), before.experiment) is None
        assert ProcessOwners().attempt(folder, "another") is None


def test_the_environment_of_a_process_is_read_as_what_it_is(orphan: Orphan) -> None:
    """Anybody can put anything there; Python refuses to read a number of 5,000 digits."""
    for number in ("9" * 5000, "²", "٣", "-1", ""):
        tag = f"{NAME}@/{number}"
        process = orphan(RLTUI_EXPERIMENT=tag, RLTUI_COMPONENT="trainer", RLTUI_ATTEMPT=number)
        [leftover] = leftovers(tag, [])
        assert (leftover.id, leftover.attempt) == (process, None)
        source = origin([read_evidence(process.pid)])
        assert source is not None
        assert (source.experiment, source.attempt) == (NAME, None)
