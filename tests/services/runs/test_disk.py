from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rltui.base.text import GIB
from rltui.frameworks.run_settings import RunFiles
from rltui.services.runs import disk
from rltui.services.runs.disk import DiskMeter, DiskReading, disk_forecast, is_pruned, size_of, still_to_come
from rltui.services.runs.folder import RunFolder

RUN = "/data/run"


def reading(free_gib: float, *steps: int, pruned: bool = False) -> DiskReading:
    return DiskReading(int(free_gib * GIB), steps, 2 * GIB, pause_s=600.0, newest_age_s=60.0, pruned=pruned)


@pytest.mark.parametrize(
    ("found", "max_steps", "severity"),
    [
        (reading(4.0, 10, 20), 100, "ok"),
        (reading(3.9, 10, 20), 100, "warning"),
        (reading(1.9, 10, 20), 100, "error"),
        (reading(2.1, 80, 90), 100, "ok"),  # the last one fits
        (reading(1.9, 80, 90), 100, "error"),
        (reading(1.1, 90, 100), 100, "ok"),  # none to come
        (reading(0.9, 90, 100), 100, "warning"),
        (reading(3.9, 10, 20), None, "warning"),
        (reading(1.9, 10), None, "error"),
        (reading(3.0, 40, 50, pruned=True), 100, "ok"),  # room for one is enough
        (reading(1.0, 40, 50, pruned=True), 100, "error"),
    ],
)
def test_severity_by_what_fits(found: DiskReading, max_steps: int | None, severity: str) -> None:
    forecast = disk_forecast(RUN, found, max_steps)
    assert forecast.severity == severity
    assert bool(forecast.text) == (severity != "ok")


def test_without_a_checkpoint_only_little_space_is_told() -> None:
    assert disk_forecast(RUN, DiskReading(GIB), 100).severity == "ok"
    found = disk_forecast(RUN, DiskReading(GIB // 2), 100)
    assert (found.severity, found.text.partition(". ")[0]) == ("warning", "/data/run: 512 MiB free")


def test_the_text_says_where_how_much_when_and_what_to_do() -> None:
    found = disk_forecast(RUN, reading(3.0, 10, 20), 100)
    assert found.text == (
        "/data/run: 3.0 GiB free, a checkpoint needs 2.0 GiB, 8 more to come: full in about 19m. Free"
        " space there (largest files: du -sh /data/run/* | sort -h), or keep fewer checkpoints, or save"
        " them less often"
    )
    assert found.title == "the disk is nearly full"
    worse = disk_forecast(RUN, reading(1.0, 10, 20), 100)
    assert worse.title == "no disk space for the next checkpoint"
    assert worse.text.startswith("/data/run: 1.0 GiB free, a checkpoint needs 2.0 GiB, 8 more to come. Free")


@pytest.mark.parametrize(
    ("steps", "max_steps", "left"),
    [
        ((), 100, None),
        ((10,), None, None),
        ((10,), 100, 9),
        ((10, 20), 25, 1),
        ((20,), 20, 0),
        ((0,), 9, None),
    ],
)
def test_still_to_come(steps: tuple[int, ...], max_steps: int | None, left: int | None) -> None:
    assert still_to_come(steps, max_steps) == left


@pytest.mark.parametrize(
    ("before", "steps", "pruned"),
    [
        ((), (), False),
        ((10,), (10, 20), False),
        ((10, 20), (20, 30), True),
        ((10, 20, 30), (10, 20), False),  # moved aside by a resume
        ((), (40, 50), True),
        ((), (40,), False),
        ((10, 20), (), False),
    ],
)
def test_pruning_is_seen(before: tuple[int, ...], steps: tuple[int, ...], pruned: bool) -> None:
    assert is_pruned(before, steps) is pruned


MIB = 1 << 20


def save(run: Path, step: int, made_at: float, size: int = MIB) -> Path:
    folder = run / "checkpoints" / f"step_{step}"
    (folder / "trainer").mkdir(parents=True)
    (folder / "trainer/model.bin").write_bytes(b"x" * size)
    (folder / "STABLE").touch()
    os.utime(folder, (made_at, made_at))
    return folder


def test_size_counts_bytes_on_the_disk_once(tmp_path: Path) -> None:
    folder = save(tmp_path, 1, 0.0)
    os.link(folder / "trainer/model.bin", folder / "same.bin")
    (folder / "elsewhere").symlink_to("/usr")
    assert MIB <= size_of(folder) < MIB + 65536


def test_a_reading_tells_sizes_times_and_what_is_free(tmp_path: Path) -> None:
    meter = DiskMeter(RunFolder(tmp_path, RunFiles()))
    empty = meter.read()
    assert (empty.steps, empty.newest_bytes) == ((), None)
    assert abs(empty.free_bytes - shutil.disk_usage(tmp_path).free) < 1 << 30
    save(tmp_path, 10, 1000.0)
    save(tmp_path, 20, 1600.0, size=3 * MIB)
    (tmp_path / "checkpoints/step_30").mkdir()
    found = meter.read()
    assert (found.steps, found.pause_s, found.pruned) == ((10, 20), 600.0, False)
    assert 3 * MIB <= (found.newest_bytes or 0) < 3 * MIB + 65536
    shutil.rmtree(tmp_path / "checkpoints/step_10")
    (tmp_path / "checkpoints/step_30").rmdir()
    save(tmp_path, 30, 2200.0)
    assert meter.newest_step() == 30
    assert meter.read().pruned
    assert meter.read().pruned, "once seen, it stays known"


def test_a_checkpoint_is_added_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[Path] = []
    real = size_of

    def counted(folder: Path) -> int:
        walked.append(folder)
        return real(folder)

    monkeypatch.setattr(disk, "size_of", counted)
    meter = DiskMeter(RunFolder(tmp_path, RunFiles()))
    save(tmp_path, 10, 1000.0)
    meter.read()
    meter.read()
    newer = save(tmp_path, 20, 1600.0)
    meter.read()
    assert walked == [tmp_path / "checkpoints/step_10", newer]
