from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rltui.frameworks.base import RunFiles
from rltui.services.runs import disk
from rltui.services.runs.disk import DiskMeter, size_of
from rltui.services.runs.run_folder import RunFolder

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
    assert (empty.checkpoints.steps, empty.checkpoints.newest_bytes) == ((), None)
    assert abs(empty.free_bytes - shutil.disk_usage(tmp_path).free) < 1 << 30
    save(tmp_path, 10, 1000.0)
    save(tmp_path, 20, 1600.0, size=3 * MIB)
    (tmp_path / "checkpoints/step_30").mkdir()
    found = meter.read().checkpoints
    assert (found.steps, found.pause_s, found.pruned) == ((10, 20), 600.0, False)
    assert 3 * MIB <= (found.newest_bytes or 0) < 3 * MIB + 65536
    shutil.rmtree(tmp_path / "checkpoints/step_10")
    (tmp_path / "checkpoints/step_30").rmdir()
    save(tmp_path, 30, 2200.0)
    assert meter.newest_step() == 30
    assert meter.read().checkpoints.pruned
    assert meter.read().checkpoints.pruned, "once seen, it stays known"


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
