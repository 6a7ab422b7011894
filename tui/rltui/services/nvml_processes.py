"""The processes on a device. Reading them is the dearest call: 4.5 ms per list, under the driver's lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pynvml

from rltui.core.gpu.report import GpuProcess
from rltui.services.nvml_errors import ABSENT_CALL, DEVICE_GONE
from rltui.services.nvml_handle import Handle

PID_LIMIT = 1 << 22
"""Linux's largest `pid_max` (`PID_MAX_LIMIT` in `linux/threads.h`). Larger pids are garbage: some R535
drivers and bindings disagree about the size of an entry."""

_LISTS = (
    ("C", "nvmlDeviceGetComputeRunningProcesses_v3"),
    ("G", "nvmlDeviceGetGraphicsRunningProcesses_v3"),
    ("M", "nvmlDeviceGetMPSComputeRunningProcesses_v3"),
)

Entry = tuple[str, int, int | None]
"""Its list (`C`, `G`, or `M` for MPS), pid, bytes."""


def read_processes(handle: Handle, total_bytes: int | None) -> tuple[GpuProcess, ...] | None:
    """Processes by pid, without names; `None` where a list that exists could not be read this time.

    Raises:
        NVMLError: The device is gone.
    """
    entries: list[Entry] = []
    for kind, name in _LISTS:
        try:
            found = handle.call(name)
        except pynvml.NVMLError as error:
            if error.value in DEVICE_GONE:
                raise
            if error.value not in ABSENT_CALL:
                return None
        else:
            entries += [(kind, entry.pid, entry.usedGpuMemory) for entry in found]
    return merged(entries, total_bytes)


def merged(entries: Iterable[Entry], total_bytes: int | None) -> tuple[GpuProcess, ...]:
    """One process per pid, by pid: one that computes and draws is in two lists with the same memory.

    Entries with impossible pids are dropped. A process cannot hold more than `total_bytes`, the memory of
    the device: such a figure is unknown.
    """
    kinds: dict[int, set[str]] = {}
    used_bytes: dict[int, int | None] = {}
    for kind, pid, used in entries:
        if 0 < pid <= PID_LIMIT:
            kinds.setdefault(pid, set()).add(kind)
            if used_bytes.get(pid) is None:
                impossible = used is not None and total_bytes is not None and used > total_bytes
                used_bytes[pid] = None if impossible else used
    return tuple(
        GpuProcess(pid=pid, used_bytes=used, kind=_kind(kinds[pid]))
        for pid, used in sorted(used_bytes.items())
    )


def _kind(lists: set[str]) -> str:
    """As nvidia-smi names it."""
    return "M+C" if "M" in lists else "+".join(sorted(lists))


def held_bytes(processes: Iterable[GpuProcess]) -> int:
    """Sum of what is known."""
    return sum(process.used_bytes or 0 for process in processes)


def within(processes: Sequence[GpuProcess], used_bytes: int | None) -> tuple[GpuProcess, ...]:
    """The processes, their memory scaled down and marked as estimated where it exceeds what is used."""
    held = held_bytes(processes)
    if used_bytes is None or held <= used_bytes:
        return tuple(processes)
    return tuple(
        process.model_copy(update={"used_bytes": process.used_bytes * used_bytes // held, "estimated": True})
        if process.used_bytes
        else process
        for process in processes
    )
