from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rltui.core.text import GIB
from rltui.daemon.checkpoints import LOOKS_PER_READING, DiskWatch
from rltui.frameworks.base import RunFiles
from rltui.services.runs.disk import Checkpoints, DiskMeter, DiskReading
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


async def test_a_checkpoint_is_told_once_it_is_new() -> None:
    meter, told = FakeMeter(*[9] * 9), list[int]()
    watch = DiskWatch("/run", meter, tell=told.append)
    for newest in (10, 10, 20, 30, 10, 20):
        meter.newest = newest
        await watch.look(1000)
    assert told == [20, 30, 20], "not what was there before; again after the run went back"


async def test_a_folder_that_is_gone_does_not_end_the_watch(tmp_path: Path) -> None:
    watch = DiskWatch(str(tmp_path / "gone"), DiskMeter(RunFolder(tmp_path / "gone", RunFiles())))
    assert await watch.look(100) is None
    (tmp_path / "gone").mkdir()
    assert await watch.look(100) is None
