"""Whether the memory that a start needs is free on its devices, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rltui.core.gpu.budget import budget_bytes, passes_start_check
from rltui.core.gpu.holders import NAMED_HOLDERS
from rltui.core.gpu.report import GpuDevice
from rltui.core.text import gib


def lack_of_memory(devices: Iterable[GpuDevice], utilization: float) -> str | None:
    """What is missing on the first of the devices that lacks room; `None` where all have it.

    A device that cannot be read is no obstacle: the component itself will tell.
    """
    return next((text for device in devices if (text := _lack(device, utilization)) is not None), None)


def _lack(device: GpuDevice, utilization: float) -> str | None:
    needed = budget_bytes(device, utilization)
    if needed is None or device.free_bytes is None or passes_start_check(device.free_bytes, needed):
        return None
    parts = [f"needs {gib(needed)} GiB free", f"{gib(device.free_bytes)} GiB free", *_holders(device)]
    return f"GPU {device.label}: {', '.join(parts)}"


def _holders(device: GpuDevice) -> list[str]:
    known = [process for process in device.processes if process.used_bytes]
    largest = sorted(known, key=lambda process: -(process.used_bytes or 0))[:NAMED_HOLDERS]
    return [
        f"{gib(process.used_bytes or 0)} GiB held by {process.component or ''} pid {process.pid} "
        f"{process.name}".replace("  ", " ").rstrip()
        for process in largest
    ]
