"""Which devices a person may name for an experiment, and which one all components share."""

from __future__ import annotations

from typing import Any

import pytest

from rltui.client import memory
from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.errors import UsageError

GIB = 1 << 30


def of_box(monkeypatch: pytest.MonkeyPatch, *free_gib: int, **report: Any) -> None:
    devices = tuple(
        GpuDevice(index=index, uuid=f"GPU-{index}f", total_bytes=80 * GIB, free_bytes=free * GIB)
        for index, free in enumerate(free_gib)
    )
    found = GpuReport(available=bool(devices), devices=devices, **report)
    monkeypatch.setattr(memory, "report_once", lambda: found)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_single_gpu_is_the_one_with_most_room(monkeypatch: pytest.MonkeyPatch) -> None:
    of_box(monkeypatch, 20, 70, 70)
    assert memory.roomiest_device() == ("1", "all components share GPU 1: 70.0 of 80.0 GiB are free")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert memory.roomiest_device()[0] == "2", "among those that are visible"
    of_box(monkeypatch, reason="no driver")
    assert memory.roomiest_device() == (
        None,
        "--single-gpu chooses none: no GPU of this machine can be read (no driver)",
    )


def test_named_devices_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    of_box(monkeypatch, 20, 70)
    assert memory.named_devices("1, 0") == "1,0"
    assert memory.named_devices("GPU-1") == "GPU-1"
    for wrong in ("2", "0,0", "0,7"):
        with pytest.raises(UsageError, match="does not name devices of this machine"):
            memory.named_devices(wrong)
    of_box(monkeypatch, reason="no driver")
    assert memory.named_devices("3") == "3", "nobody knows better"
