from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rltui.core.text import GIB
from rltui.daemon import watches
from rltui.daemon.checkpoints import LOOKS_PER_READING, DiskWatch
from rltui.daemon.supervisor import Supervisor
from rltui.frameworks.base import RunFiles
from rltui.services.runs.disk import Checkpoints, DiskMeter, DiskReading
from rltui.services.runs.journal import Journal, read_journal
from rltui.services.runs.run_folder import RunFolder


class FakeMeter(DiskMeter):
    """Says what the test wants; checkpoints of 2 GiB every 10 steps."""

    def __init__(self, *free_gib: float) -> None:
        super().__init__(RunFolder(Path("/run"), RunFiles()))
        self.free: Iterator[float] = iter(free_gib)
        self.newest = 10

    def newest_step(self) -> int:
        return self.newest

    def read(self) -> DiskReading:
        return DiskReading(int(next(self.free) * GIB), Checkpoints((self.newest,), 2 * GIB))


async def severities(watch: DiskWatch, meter: FakeMeter, readings: int) -> list[str | None]:
    found: list[str | None] = []
    for _ in range(readings):
        meter.newest += 10
        alert = await watch.look(1000)
        found.append(alert.severity if alert else None)
    return found


async def test_only_what_becomes_worse_is_told() -> None:
    meter = FakeMeter(9, 3, 3, 1, 1, 3, 9, 1, 9, 3)
    watch = DiskWatch("/run", meter)
    assert await severities(watch, meter, 10) == [
        None, "warning", None, "error", None, None, None, "error", None, "warning"
    ]  # fmt: skip


async def test_it_measures_after_a_checkpoint_and_now_and_then() -> None:
    meter = FakeMeter(9, 1)
    watch = DiskWatch("/run", meter)
    answers = [await watch.look(1000) for _ in range(LOOKS_PER_READING)]
    assert answers == [None] * LOOKS_PER_READING
    told = await watch.look(1000)
    assert told is not None
    assert (told.kind, told.severity) == ("disk", "error")
    with pytest.raises(StopIteration):
        next(meter.free)


class FakeRun:
    """A supervisor with a run whose checkpoints come and go between looks."""

    def __init__(self, journal: Path, *looks: tuple[list[int], bool]) -> None:
        """`looks`: what is there, and whether anything is alive then; the first one is before all."""
        self._looks = iter(looks)
        self._now: tuple[list[int], bool] = ([], False)
        self.events = SimpleNamespace(journal=Journal(journal))
        self.observation = SimpleNamespace(folder=SimpleNamespace(checkpoints=lambda: self._now[0]))
        self.processes = SimpleNamespace(alive=lambda: self._now[1])
        self.setup = SimpleNamespace(record=SimpleNamespace(observed=False))

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
    told = read_journal(tmp_path / "journal.jsonl")
    assert [entry.step for entry in told] == [10, 20, 30, 40, 10]
    assert told[0].text == "checkpoint 10 is complete"


async def test_a_folder_that_is_gone_does_not_end_the_watch(tmp_path: Path) -> None:
    watch = DiskWatch(str(tmp_path / "gone"), DiskMeter(RunFolder(tmp_path / "gone", RunFiles())))
    assert await watch.look(100) is None
    (tmp_path / "gone").mkdir()
    assert await watch.look(100) is None
