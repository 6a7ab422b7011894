"""Peaks belong to an attempt: the next one begins anew."""

from __future__ import annotations

from rltui.core.gpu.history import Peaks
from rltui.core.gpu.report import GpuDevice, GpuShare


def device(used_bytes: int, component: str = "trainer") -> GpuDevice:
    share = GpuShare(owner="component", component=component, used_bytes=used_bytes)
    return GpuDevice(index=0, uuid="GPU-1", shares=(share,))


def peak_after(peaks: Peaks, used_bytes: int) -> int | None:
    return peaks.add(device(used_bytes)).shares[0].peak_bytes


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
    assert peaks.add(device(5, component="inference")).shares[0].peak_bytes is None
    hidden = GpuDevice(index=0, shares=(GpuShare(owner="hidden", used_bytes=4),))
    assert peaks.add(hidden) == hidden
