from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rltui.core.api import Alert
from rltui.core.states import ComponentState
from rltui.core.text import GIB
from rltui.daemon import watches
from rltui.daemon.checkpoints import POLLS_PER_READING, DiskWatch
from rltui.daemon.events import EventBus
from rltui.daemon.health import RunHealth
from rltui.daemon.observation import ProgressTracker
from rltui.daemon.supervisor import Supervisor
from rltui.daemon.watches import follow_metrics
from rltui.frameworks.base import RunFiles
from rltui.frameworks.tinyrl import TINYRL
from rltui.services.job_status import JobStatus
from rltui.services.metrics.sources import RunMetrics
from rltui.services.runs.disk import DiskMeter, DiskReading
from rltui.services.runs.journal import Journal, read_journal
from rltui.services.runs.run_folder import RunFolder


class Jobs:
    """The parts of a supervisor that health is told by; its only job is at work since `started_at`."""

    def __init__(self, folder: Path, started_at: float) -> None:
        runner = SimpleNamespace(
            lifecycle=SimpleNamespace(state=ComponentState.READY),
            record=SimpleNamespace(started_at=started_at),
        )
        self.runners = [runner]
        self.setup = SimpleNamespace(record=SimpleNamespace(observed=False))
        self.processes = SimpleNamespace(run_jobs=lambda: self.runners, alive=lambda: ["trainer"])
        self.events = EventBus(folder / "journal.jsonl")
        metrics = RunMetrics((folder / "metrics.jsonl",), TINYRL)
        health = RunHealth(
            "demo",
            RunFolder(folder, TINYRL.files),
            folder / "journal.jsonl",
            self.events,
            {"trainer": "trainer"},
        )
        self.observation = SimpleNamespace(
            progress=ProgressTracker(metrics, TINYRL), health=health, activities={}
        )


async def alert_titles(folder: Path, jobs: Jobs, count: int) -> list[str]:
    """Titles of the first alerts that following the metrics makes."""
    task = asyncio.create_task(follow_metrics(cast(Supervisor, jobs)))
    try:
        return [(await asyncio.wait_for(jobs.events.outbox.get(), 10)).title for _ in range(count)]
    finally:
        task.cancel()


async def test_a_job_at_work_without_a_step_for_long_is_an_alert(tmp_path: Path) -> None:
    started_at = time.time() - 1000
    rows = [{"step": step, "time": started_at + step, "loss/mean": 0.1} for step in range(1, 9)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert await alert_titles(tmp_path, Jobs(tmp_path, started_at), 1) == ["no step"]


async def test_where_nothing_is_at_work_no_step_is_missed(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, 0.0)
    jobs.runners[0].lifecycle.state = ComponentState.STARTING
    rows = [{"step": step, "time": step, "loss/mean": 0.1} for step in range(1, 9)]
    rows += [{"step": step, "loss/mean": 0.1, "mismatch_kl/all/mean": 3.0} for step in range(9, 20)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert await alert_titles(tmp_path, jobs, 1) == ["KL out of range"]
    assert [concern.id for concern in jobs.observation.health.concerns] == ["kl"]


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


class FakeRun:
    """A supervisor with a run whose checkpoints come and go between looks."""

    def __init__(self, journal: Path, *looks: tuple[list[int], bool]) -> None:
        """`looks`: what is there, and whether anything is alive then; the first one is before all."""
        self._looks = iter(looks)
        self._now: tuple[list[int], bool] = ([], False)
        self.alerts: list[Alert] = []
        self.events = SimpleNamespace(journal=Journal(journal), alert=self.alerts.append)
        self.observation = SimpleNamespace(
            folder=SimpleNamespace(checkpoint_folders=lambda: self._now[0]),
            progress=SimpleNamespace(max_steps=1000),
        )
        self.job_status: JobStatus | None = None
        runner = SimpleNamespace(remote_attempt=self)
        self.processes = SimpleNamespace(alive=lambda: self._now[1], runners={"rl": runner})
        self.setup = SimpleNamespace(record=SimpleNamespace(observed=False))
        self.evals = SimpleNamespace(checkpoint=self._evaluate)

    async def _evaluate(self, step: int) -> None:
        """Does nothing: there is no standing order."""

    async def sleep(self, _: float) -> None:
        if (now := next(self._looks, None)) is None:
            raise asyncio.CancelledError
        self._now = now


async def test_every_checkpoint_is_journaled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun(
        tmp_path / "journal.jsonl",
        ([10], True),
        ([10, 20, 30], True),
        ([30], True),  # pruned
        ([30, 40], False),  # the last one, as everything ended
        ([30, 40, 50], False),  # nobody of ours
        ([], True),  # begun anew
        ([10], True),
    )
    monkeypatch.setattr(asyncio, "sleep", run.sleep)
    with pytest.raises(asyncio.CancelledError):
        await watches.watch_checkpoints(cast(Supervisor, run))
    entries = read_journal(tmp_path / "journal.jsonl")
    assert [entry.step for entry in entries] == [10, 20, 30, 40, 10]
    assert entries[0].text == "checkpoint 10 is complete"


async def test_a_job_that_ends_before_the_next_checkpoint_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_at = time.time()
    now = [started_at]
    monkeypatch.setattr(time, "time", lambda: now[0])

    async def alerts(ends_at: float) -> list[Alert]:
        now[0] = started_at
        looks = (([*range(10, step, 10)], True) for step in (10, 20, 30, 40, 50))
        run = FakeRun(tmp_path / "journal.jsonl", *looks)
        run.job_status = JobStatus(id="7", phase="running", since=started_at, ends_at=ends_at)

        async def sleep(seconds: float) -> None:
            await run.sleep(seconds)
            now[0] += 10  # a checkpoint every ten seconds

        monkeypatch.setattr(asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await watches.watch_checkpoints(cast(Supervisor, run))
        return run.alerts

    assert await alerts(started_at + 1000) == []
    (alert,) = await alerts(started_at + 45)
    assert alert.title == "rl: its job ends before the next checkpoint"
    assert "what is trained after checkpoint" in alert.text


async def test_a_folder_that_is_gone_does_not_end_the_watch(tmp_path: Path) -> None:
    watch = DiskWatch(str(tmp_path / "gone"), DiskMeter(RunFolder(tmp_path / "gone", RunFiles())), "one")
    assert await watch.poll(100) is None
    (tmp_path / "gone").mkdir()
    assert await watch.poll(100) is None


async def test_a_disk_without_room_for_metrics_is_told_once() -> None:
    """The run goes on; when there is room again, the next lack of it is told anew."""
    full = "No space left on device"
    problems = [full, None, None, full, full]
    alerts: list[Alert] = []

    class Recorder:
        problem: str | None = None

        def poll(self) -> bool:
            if not problems:
                raise asyncio.CancelledError
            self.problem = problems.pop()
            return True

    supervisor = SimpleNamespace(
        observation=SimpleNamespace(recorder=Recorder()), events=SimpleNamespace(alert=alerts.append)
    )
    with pytest.raises(asyncio.CancelledError):
        await watches.record_metrics(cast(Supervisor, supervisor))
    assert [alert.title for alert in alerts] == ["metrics cannot be kept"] * 2
    assert alerts[0].text.startswith("No space left on device: the curves wait for room")
