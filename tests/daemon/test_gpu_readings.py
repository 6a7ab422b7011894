"""Chosen devices are those of the newest reading, however often they were asked for before."""

from __future__ import annotations

from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.services.gpu.sampling import GpuReadings


def report(*uuids: str, used_bytes: int = 0) -> GpuReport:
    devices = (GpuDevice(index=i, uuid=uuid, used_bytes=used_bytes) for i, uuid in enumerate(uuids))
    return GpuReport(available=True, devices=tuple(devices))


def test_chosen_devices_follow_the_readings() -> None:
    readings = GpuReadings()
    first = "0"
    assert readings.chosen(first) == ()
    readings.take(report("GPU-a"))
    assert [device.uuid for device in readings.chosen(first)] == ["GPU-a"]
    readings.take(report("GPU-a", used_bytes=7))
    assert [device.used_bytes for device in readings.chosen(first)] == [7]
    readings.amend(report("GPU-b"))
    assert [device.uuid for device in readings.chosen(first)] == ["GPU-b"]


def test_what_is_present_does_not_depend_on_what_is_used() -> None:
    readings = GpuReadings()
    readings.take(report("GPU-a", used_bytes=7))
    seen = readings.present
    readings.take(report("GPU-a", used_bytes=8))
    assert readings.present == seen
    readings.take(report("GPU-b"))
    assert readings.present != seen
