"""Peaks belong to an attempt: the next one begins anew."""

from __future__ import annotations

from rltui.core.gpu.history import Peaks
from rltui.core.gpu.report import GpuShare


def peak_after(peaks: Peaks, used_bytes: int, component: str = "trainer") -> int | None:
    share = GpuShare(owner="component", component=component, used_bytes=used_bytes)
    return peaks.added("/GPU-1", [share])[0].peak_bytes


def test_peak_is_the_most_of_an_attempt() -> None:
    peaks = Peaks()
    peaks.begin("trainer", 1, {})
    assert [peak_after(peaks, size) for size in (5, 9, 7)] == [5, 9, 9]
    assert peaks.of("trainer") == {"/GPU-1": 9}


def test_next_attempt_begins_anew_and_the_same_one_goes_on() -> None:
    peaks = Peaks()
    peaks.begin("trainer", 1, {"/GPU-1": 8})
    assert peak_after(peaks, 3) == 8
    peaks.begin("trainer", 1, {})
    assert peak_after(peaks, 3) == 8
    peaks.begin("trainer", 2, {})
    assert peak_after(peaks, 3) == 3


def test_others_have_no_peak() -> None:
    peaks = Peaks()
    peaks.begin("trainer", 1, {})
    assert peak_after(peaks, 5, "inference") is None
    hidden = GpuShare(owner="hidden", used_bytes=4)
    assert peaks.added("/GPU-1", [hidden]) == (hidden,)
