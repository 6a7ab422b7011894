"""Whether the memory that a start needs is free on its devices, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.core.units import gib

NAMED_HOLDERS = 2
"""Most processes named as holders of a device's memory."""


def lack_of_memory(report: GpuReport, indices: Iterable[int], fraction: float) -> str | None:
    """What is missing on the first of the devices that lacks room; `None` where all have it.

    vLLM refuses to start unless `gpu_memory_utilization` of the device's total is free, whatever it needs
    (`reference/vllm.md`, section 5); its total leaves out what the driver reserves. A device that cannot be
    read is no obstacle: the component itself will tell.
    """
    wanted = set(indices)
    for device in report.devices:
        if device.index in wanted and (text := _lack(device, fraction)) is not None:
            return text
    return None


def _lack(device: GpuDevice, fraction: float) -> str | None:
    if device.total_bytes is None or device.free_bytes is None:
        return None
    needed = fraction * (device.total_bytes - (device.reserved_bytes or 0))
    if device.free_bytes >= needed:
        return None
    parts = [f"needs {gib(needed)} GiB free", f"{gib(device.free_bytes)} GiB free", *_holders(device)]
    return f"GPU {device.index}: {', '.join(parts)}"


def _holders(device: GpuDevice) -> list[str]:
    known = [process for process in device.processes if process.used_bytes]
    largest = sorted(known, key=lambda process: -(process.used_bytes or 0))[:NAMED_HOLDERS]
    return [
        f"{gib(process.used_bytes or 0)} GiB held by {process.component or ''} pid {process.pid} "
        f"{process.name}".replace("  ", " ").rstrip()
        for process in largest
    ]
