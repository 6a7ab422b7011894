"""Readings of GPUs, made by hand around real processes."""

from __future__ import annotations

from typing import Any

from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuReport
from rltui.services.gpu.account import LivingComponent

GIB = 1 << 30
NOW = 1_800_000_000.0
"""What the clock shows in these tests, seconds since the epoch."""


def device(*processes: GpuProcess, index: int = 0, used_gib: int | None = 40, host: str = "") -> GpuDevice:
    return GpuDevice(
        index=index,
        uuid=f"GPU-{index}",
        host=host,
        total_bytes=80 * GIB,
        used_bytes=None if used_gib is None else used_gib * GIB,
        processes=processes,
    )


def holds(pid: int, gib: int | None) -> GpuProcess:
    return GpuProcess(pid=pid, used_bytes=None if gib is None else gib * GIB)


def report(*devices: GpuDevice) -> GpuReport:
    return GpuReport(available=True, devices=devices, sampled_at=NOW)


def component(
    name: str, *roots: int, gpus: str = "0", started_at: float = NOW + 5, **more: Any
) -> LivingComponent:
    values = {"attempt": 1, "is_starting": False, "utilization": None, **more}
    return LivingComponent(name, root_pids=roots, started_at=started_at, choice=gpus, **values)


def shares(device: GpuDevice) -> list[tuple[str, str | None, int, bool]]:
    """Owner, component, GiB, whether estimated."""
    return [(one.owner, one.component, one.used_bytes // GIB, one.estimated) for one in device.shares]
