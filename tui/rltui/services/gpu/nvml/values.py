"""The figures of a device by its NVML handle: its memory, processes, load and condition."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pynvml

from rltui.core.gpu.report import GpuProcess, MemoryKind
from rltui.services.gpu.nvml.handle import ABSENT_CALL, DEVICE_GONE, NvmlCode, NvmlHandle

Fields = dict[str, Any]
"""Fields of a `GpuDevice`, by name."""

_MEMINFO = Path("/proc/meminfo")
_KIB = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)

_OLDER_CALL = ABSENT_CALL | {NvmlCode.INVALID_ARGUMENT, NvmlCode.UNKNOWN}
"""Errors after which memory v1 may work. 999: seen under WSL2 with driver 516.59."""


class Memory(NamedTuple):
    """The fields of a `GpuDevice` about its memory."""

    memory_kind: MemoryKind = "v2"
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    reserved_bytes: int | None = None


def read_memory(handle: NvmlHandle, *, is_slice: bool) -> Memory:
    """Memory v2, else v1, else the machine's own: unified-memory systems give neither, or a total of 0.

    A MIG slice often has v1 only, and is never unified memory.

    Raises:
        NVMLError: The device is gone, or its memory is not ours to see.
    """
    memory = _read_device_memory(handle)
    if memory.total_bytes is None and not is_slice:
        return unified_memory() or memory
    return memory


def _read_device_memory(handle: NvmlHandle) -> Memory:
    try:
        info = handle.call("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        if error.value not in _OLDER_CALL:
            raise
        return _read_memory_v1(handle)
    return Memory("v2", info.total, info.used, info.free, info.reserved) if info.total else Memory()


def _read_memory_v1(handle: NvmlHandle) -> Memory:
    try:
        info = handle.call("nvmlDeviceGetMemoryInfo")
    except pynvml.NVMLError as error:
        if error.value not in ABSENT_CALL:
            raise
        return Memory()
    return Memory("v1", info.total, info.used, info.free) if info.total else Memory()


def unified_memory(meminfo: Path = _MEMINFO) -> Memory | None:
    """The machine's memory, whose `MemAvailable` counts as free; `None` if the kernel does not tell."""
    try:
        text = meminfo.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    sizes = {name: int(kib) * 1024 for name, kib in _KIB.findall(text)}
    if sizes.keys() != {"MemTotal", "MemAvailable"}:
        return None
    total, free = sizes["MemTotal"], sizes["MemAvailable"]
    return Memory("unified", total, total - free, free)


PID_LIMIT = 1 << 22
"""Linux's largest `pid_max` (`PID_MAX_LIMIT` in `linux/threads.h`). Larger pids are garbage: some R535
drivers and bindings disagree about the size of an entry."""

_LISTS = (
    ("C", "nvmlDeviceGetComputeRunningProcesses_v3"),
    ("G", "nvmlDeviceGetGraphicsRunningProcesses_v3"),
    ("M", "nvmlDeviceGetMPSComputeRunningProcesses_v3"),
)

Entry = tuple[str, int, int | None]
"""Kind of list (`C`, `G`, or `M` for MPS), pid, bytes."""


def read_processes(handle: NvmlHandle, total_bytes: int | None) -> tuple[GpuProcess, ...] | None:
    """Processes by pid, without names; `None` if a list that exists could not be read this time.

    Raises:
        NVMLError: The device is gone.
    """
    entries: list[Entry] = []
    for kind, name in _LISTS:
        try:
            listed = handle.call(name)
        except pynvml.NVMLError as error:
            if error.value in DEVICE_GONE:
                raise
            if error.value not in ABSENT_CALL:
                return None
        else:
            entries += [(kind, entry.pid, entry.usedGpuMemory) for entry in listed]
    return merge_entries(entries, total_bytes)


def merge_entries(entries: Iterable[Entry], total_bytes: int | None) -> tuple[GpuProcess, ...]:
    """One process per pid, by pid: one that computes and draws is in two lists with the same memory.

    Entries with impossible pids are dropped. Memory above `total_bytes`, that of the device, is impossible
    and becomes unknown.
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
        # as nvidia-smi names the kinds
        GpuProcess(
            pid=pid, used_bytes=used, kind="M+C" if "M" in kinds[pid] else "+".join(sorted(kinds[pid]))
        )
        for pid, used in sorted(used_bytes.items())
    )


def listed_bytes(processes: Iterable[GpuProcess]) -> int:
    return sum(process.used_bytes or 0 for process in processes)


_UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
_SINCE_LOADED = pynvml.NVML_VOLATILE_ECC

_HARDWARE_SLOWDOWN = 0x8
_HARDWARE_CAUSES = 0x40 | 0x80
"""Either of them sets `_HARDWARE_SLOWDOWN` too."""

_THROTTLE_REASONS = {
    0x2: "application clocks",
    _HARDWARE_SLOWDOWN: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
"""`nvmlClocksEventReason*` of NVIDIA's `nvml.h`. Idle (0x1) and the software power cap (0x4) are normal."""


def read_load(handle: NvmlHandle) -> Fields:
    """Read the figures that change from one reading to the next.

    All three readers give `None` for a value that the card does not give.

    Raises:
        NVMLError: The device is gone.
    """
    rates = handle.try_call("nvmlDeviceGetUtilizationRates")
    return {
        "utilization": None if rates is None else min(rates.gpu / 100, 1.0),
        "memory_utilization": None if rates is None else min(rates.memory / 100, 1.0),
        "power_w": _watts(handle.try_call("nvmlDeviceGetPowerUsage")),
        "sm_clock_mhz": handle.try_call("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
    }


def read_condition(handle: NvmlHandle) -> Fields:
    """Read the figures that change slowly: a reading has them every few seconds."""
    # the older call is to be removed by NVIDIA; not every driver and binding has the newer
    sensor = pynvml.NVML_TEMPERATURE_GPU
    value: int | None = handle.try_call("nvmlDeviceGetTemperatureV", sensor)
    bits: int | None = handle.try_call("nvmlDeviceGetCurrentClocksEventReasons")
    if bits is None:  # a driver older than the new name
        bits = handle.try_call("nvmlDeviceGetCurrentClocksThrottleReasons")
    return {
        "power_limit_w": _watts(handle.try_call("nvmlDeviceGetEnforcedPowerLimit")),
        "temperature_c": value if value is not None else handle.try_call("nvmlDeviceGetTemperature", sensor),
        "memory_clock_mhz": handle.try_call("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM),
        "throttle": throttle_reasons(bits or 0),
        "ecc_errors": handle.try_call("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_LOADED),
        "pcie_generation": handle.try_call("nvmlDeviceGetCurrPcieLinkGeneration"),
        "pcie_width": handle.try_call("nvmlDeviceGetCurrPcieLinkWidth"),
    }


def read_build(handle: NvmlHandle) -> Fields:
    """Read the figures that never change."""
    # the first link that the card does not know ends the search
    states: list[int] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            states.append(handle.call("nvmlDeviceGetNvLinkState", link))
        except pynvml.NVMLError as error:
            if error.value in DEVICE_GONE:
                raise
            break
    return {
        "max_sm_clock_mhz": handle.try_call("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM),
        "nvlinks": sum(states) if states else None,
    }


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """The reasons for reduced clocks. Bits as NVML has them; unknown ones are left out."""
    if bits & _HARDWARE_CAUSES:
        bits &= ~_HARDWARE_SLOWDOWN
    return tuple(reason for bit, reason in _THROTTLE_REASONS.items() if bits & bit)
