from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.supervisor.conftest import enter, make_checkpoints

from rltui.base.text import GIB
from rltui.core.experiment.api import Alert
from rltui.core.experiment.states import ComponentState
from rltui.frameworks.run_settings import RunFiles
from rltui.services.experiment.journal import read_journal
from rltui.services.hosts.job_status import JobStatus
from rltui.services.runs.disk import DiskMeter, DiskReading
from rltui.services.runs.folder import RunFolder
from rltui.supervisor import watches
from rltui.supervisor.runs.checkpoints import POLLS_PER_READING, DiskWatch
from rltui.supervisor.supervisor import Supervisor
from rltui.supervisor.watches import follow_metrics


def write_metrics(supervisor: Supervisor, rows: Iterable[object]) -> None:
    path = Path(supervisor.runtime.setup.record.run_dir, "metrics.jsonl")
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


async def first_alert(supervisor: Supervisor, state: ComponentState, rows: Iterable[object]) -> str:
    """Title of the first alert that following these metrics makes, while both jobs are in `state`."""
    write_metrics(supervisor, rows)
    for job in ("orchestrator", "trainer"):
        enter(supervisor, job, state)
    following = asyncio.create_task(follow_metrics(supervisor.runtime))
    try:
        return (await asyncio.wait_for(supervisor.runtime.events.outbox.get(), 10)).title
    finally:
        following.cancel()


def row(step: int, **values: float) -> dict[str, float]:
    """A row of long ago."""
    return {"step": step, "time": step, "loss/mean": 0.1, **values}


async def test_a_job_at_work_without_a_step_for_long_is_an_alert(supervisor: Supervisor) -> None:
    assert await first_alert(supervisor, ComponentState.READY, map(row, range(1, 9))) == "no step"


async def test_where_nothing_is_at_work_no_step_is_missed(supervisor: Supervisor) -> None:
    unwell = [row(step, **{"mismatch_kl/all/mean": 3.0}) for step in range(9, 20)]
    rows = (*map(row, range(1, 9)), *unwell)
    assert await first_alert(supervisor, ComponentState.STARTING, rows) == "KL out of range"
    assert [concern.id for concern in supervisor.runtime.observation.health.concerns] == ["kl"]


class FakeMeter(DiskMeter):
    """Says what the test wants; checkpoints of 2 GiB every 10 steps."""

    def __init__(self, *free_gib: float) -> None:
        super().__init__(RunFolder(Path("/run"), RunFiles()))
        self.free: Iterator[float] = iter(free_gib)
        self.newest = 10

    def newest_step(self) -> int:
        return self.newest

    def read(self) -> DiskReading:
        return DiskReading(int(next(self.free) * GIB), (self.newest,), 2 * GIB)


async def severities(watch: DiskWatch, meter: FakeMeter, readings: int) -> list[str | None]:
    levels: list[str | None] = []
    for _ in range(readings):
        meter.newest += 10
        alert = await watch.poll(1000)
        levels.append(alert.severity if alert else None)
    return levels


async def test_only_what_becomes_worse_is_told() -> None:
    meter = FakeMeter(9, 3, 3, 1, 1, 3, 9, 1, 9, 3)
    watch = DiskWatch("/run", meter, "one")
    assert await severities(watch, meter, 10) == [
        None, "warning", None, "error", None, None, None, "error", None, "warning"
    ]  # fmt: skip


async def test_it_measures_after_a_checkpoint_and_now_and_then() -> None:
    meter = FakeMeter(9, 1)
    watch = DiskWatch("/run", meter, "one")
    answers = [await watch.poll(1000) for _ in range(POLLS_PER_READING)]
    assert answers == [None] * POLLS_PER_READING
    alert = await watch.poll(1000)
    assert alert is not None
    assert (alert.kind, alert.severity) == ("disk", "error")
    with pytest.raises(StopIteration):
        next(meter.free)


async def watch_looks(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, *looks: tuple[list[int], bool]
) -> None:
    """Watch checkpoints. `looks`: those that are there every ten seconds, and whether anything is alive."""
    remaining, run_dir = iter(looks), Path(supervisor.runtime.setup.record.run_dir)
    clock = itertools.count(time.time(), 10)

    async def sleep(_: float) -> None:
        if (look := next(remaining, None)) is None:
            raise asyncio.CancelledError
        now = next(clock)
        monkeypatch.setattr(time, "time", lambda: now)
        shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
        make_checkpoints(run_dir, *look[0])
        enter(supervisor, "trainer", ComponentState.READY if look[1] else ComponentState.STOPPED)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await watches.watch_checkpoints(supervisor.runtime, supervisor.evals, supervisor.budget)


async def test_every_checkpoint_is_journaled_once(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watch_looks(
        supervisor,
        monkeypatch,
        ([10], True),
        ([10, 20, 30], True),
        ([30], True),  # pruned
        ([30, 40], False),  # the last one, as everything ended
        ([30, 40, 50], False),  # nobody of ours
        ([], True),  # begun anew
        ([10], True),
    )
    entries = read_journal(supervisor.runtime.setup.control.journal_file)
    assert [entry.step for entry in entries if entry.kind == "checkpoint"] == [10, 20, 30, 40, 10]
    assert entries[0].text == "checkpoint 10 is complete"


@pytest.mark.parametrize(("ends_in_s", "is_told"), [(1000, False), (65, True)])
async def test_a_job_that_ends_before_the_next_checkpoint_is_told_once(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, ends_in_s: float, is_told: bool
) -> None:
    started_at = time.time()
    supervisor.runtime.observation.progress.max_steps = 1000
    status = JobStatus(id="7", phase="running", since=started_at, ends_at=started_at + ends_in_s)
    handle: Any = SimpleNamespace(status=status)
    supervisor.runtime.processes.runners["trainer"].handle = handle
    looks = [([*range(10, step, 10)], True) for step in (10, 20, 20, 30, 30, 40, 40)]
    alerts: list[Alert] = []
    monkeypatch.setattr(supervisor.runtime.events, "alert", alerts.append)
    await watch_looks(supervisor, monkeypatch, *looks)
    assert len(alerts) == is_told
    for alert in alerts:
        assert alert.title == "trainer: its job ends before the next checkpoint"
        assert "): all steps after checkpoint" in alert.text


async def test_a_folder_that_is_gone_does_not_end_the_watch(tmp_path: Path) -> None:
    watch = DiskWatch(str(tmp_path / "gone"), DiskMeter(RunFolder(tmp_path / "gone", RunFiles())), "one")
    assert await watch.poll(100) is None
    (tmp_path / "gone").mkdir()
    assert await watch.poll(100) is None


async def test_a_disk_without_room_for_metrics_is_told_once(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on; when there is room again, the next lack of it is told anew."""
    full = "No space left on device"
    problems = [full, None, None, full, full]

    class Recorder:
        problem: str | None = None

        def poll(self) -> bool:
            if not problems:
                raise asyncio.CancelledError
            self.problem = problems.pop()
            return True

    alerts: list[Alert] = []
    monkeypatch.setattr(supervisor.runtime.observation, "recorder", Recorder())
    monkeypatch.setattr(supervisor.runtime.events, "alert", alerts.append)
    with pytest.raises(asyncio.CancelledError):
        await watches.record_metrics(supervisor.runtime)
    assert [alert.title for alert in alerts] == ["cannot save metrics"] * 2
    assert alerts[0].text.startswith("No space left on device: metrics are not recorded")
