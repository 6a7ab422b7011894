"""The peaks of attempts, which the next supervisor and the next forecast know."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltui.core.gpu.report import GpuShare
from rltui.services.experiment.files import ControlFolder
from rltui.services.gpu.peaks import AttemptPeaks, newest_peaks, read_peaks


def peak_after(peaks: AttemptPeaks, used_bytes: int, component: str = "trainer") -> int | None:
    share = GpuShare(owner="component", component=component, used_bytes=used_bytes)
    return peaks.with_peaks("/GPU-1", [share])[0].peak_bytes


def attempt(path: Path, number: int = 1) -> Path:
    folder = ControlFolder(path).attempt_dir("trainer", number)
    folder.mkdir(parents=True)
    return folder


def test_peak_is_the_most_of_an_attempt_and_the_next_one_begins_anew(tmp_path: Path) -> None:
    peaks, first, second = AttemptPeaks(), attempt(tmp_path), attempt(tmp_path, 2)
    peaks.follow("trainer", first)
    assert [peak_after(peaks, size) for size in (5, 9, 7)] == [5, 9, 9]
    peaks.save()
    peaks.follow("trainer", first)
    assert peak_after(peaks, 3) == 9
    peaks.follow("trainer", second)
    assert peak_after(peaks, 3) == 3
    assert newest_peaks(ControlFolder(tmp_path), "trainer") == (1, {"/GPU-1": 9}), "as long as that has none"
    peaks.save()
    assert newest_peaks(ControlFolder(tmp_path), "trainer") == (2, {"/GPU-1": 3})


def test_the_next_supervisor_goes_on_and_small_growth_is_not_written(tmp_path: Path) -> None:
    folder = attempt(tmp_path)
    for sizes, peak, written in (
        ((800,), 800, 800),
        ((700,), 800, 800),
        ((804,), 804, 800),
        ((900,), 900, 900),
    ):
        peaks = AttemptPeaks()
        peaks.follow("trainer", folder)
        assert [peak_after(peaks, size) for size in sizes][-1] == peak
        peaks.save()
        assert read_peaks(folder) == {"/GPU-1": written}


def test_a_full_disk_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    peaks = AttemptPeaks()
    peaks.follow("trainer", tmp_path / "gone" / "attempt-1")
    assert peak_after(peaks, 5) == 5
    peaks.save()
    assert "gone" in caplog.text


def test_others_have_no_peak(tmp_path: Path) -> None:
    peaks = AttemptPeaks()
    peaks.follow("trainer", attempt(tmp_path))
    assert peak_after(peaks, 5, "inference") is None
    hidden = GpuShare(owner="hidden", used_bytes=4)
    assert peaks.with_peaks("/GPU-1", [hidden]) == (hidden,)
