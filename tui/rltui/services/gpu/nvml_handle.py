"""Calls on one NVML handle, and the meaning of NVML's return codes. Importing this module imports
`pynvml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import pynvml

from rltui.core.gpu.report import GpuProcess, MemoryKind


class _NvmlCode(IntEnum):
    """Return codes with a meaning for a monitor."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    ARGUMENT_VERSION_MISMATCH = 25
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    UNKNOWN = 999


DEVICE_GONE = frozenset({_NvmlCode.UNINITIALIZED, _NvmlCode.GPU_IS_LOST, _NvmlCode.RESET_REQUIRED})
"""No further call on the same handle can succeed."""

STALE_HANDLE = DEVICE_GONE | {_NvmlCode.INVALID_ARGUMENT}
"""A new handle may work, as after a reset."""

_ABSENT_CALL = frozenset(
    {_NvmlCode.NOT_SUPPORTED, _NvmlCode.FUNCTION_NOT_FOUND, _NvmlCode.ARGUMENT_VERSION_MISMATCH}
)
"""This driver or card does not have the call. An older form of it may work."""

NO_DEVICES = "no NVIDIA GPU on this machine: the driver is loaded but lists none"
NOT_LISTED = "lost: no longer listed by the driver (see Xid in dmesg)"
NO_SLICES = "MIG is enabled, but the GPU has no slices yet"

_SESSION_REASONS: dict[int, str] = {
    _NvmlCode.NO_PERMISSION: "no permission to use the NVIDIA driver: check the rights of /dev/nvidia*, "
    "or the container's device rules",
    _NvmlCode.DRIVER_NOT_LOADED: "NVIDIA driver installed, but its kernel module is not loaded",
    _NvmlCode.TIMEOUT: "the NVIDIA driver did not answer in time",
    _NvmlCode.LIBRARY_NOT_FOUND: "no NVIDIA driver here (libnvidia-ml.so.1 not found)",
    _NvmlCode.FUNCTION_NOT_FOUND: "the NVIDIA driver is too old for NVML",
    _NvmlCode.GPU_IS_LOST: "a GPU fell off the bus and the driver no longer responds: reboot",
    _NvmlCode.RESET_REQUIRED: "a GPU needs a reset before the driver responds again",
    _NvmlCode.OPERATING_SYSTEM: "the operating system blocks the NVIDIA driver (cgroup or seccomp)",
    _NvmlCode.LIB_RM_VERSION_MISMATCH: "the NVIDIA driver's library and kernel module differ in version, "
    "as after an update: reboot",
    _NvmlCode.IN_USE: "the NVIDIA driver is busy",
    _NvmlCode.NOT_READY: "the NVIDIA driver is still starting",
    _NvmlCode.GPU_NOT_FOUND: NO_DEVICES,
    _NvmlCode.UNKNOWN: (
        "the NVIDIA driver reports an unknown error: in a container, its devices were probably"
        " revoked: recreate the container"
    ),
}

_DEVICE_PROBLEMS: dict[int, str] = {
    _NvmlCode.NO_PERMISSION: "no permission to read this GPU: check the container's device rules",
    _NvmlCode.TIMEOUT: "did not answer in time",
    _NvmlCode.GPU_IS_LOST: "lost: it fell off the bus (see Xid in dmesg); needs a reboot",
    _NvmlCode.RESET_REQUIRED: "needs a reset",
    _NvmlCode.OPERATING_SYSTEM: "blocked by the operating system (cgroup or seccomp)",
    _NvmlCode.IN_USE: "busy",
    _NvmlCode.UNKNOWN: "the driver reports an unknown error",
}


def session_reason(code: int) -> str:
    """The reason why NVML as a whole cannot be read, and a remedy, in one line."""
    return _SESSION_REASONS.get(code, f"the NVIDIA driver reports error {code}")


def device_problem(code: int) -> str:
    return _DEVICE_PROBLEMS.get(code, f"cannot be read: NVML error {code}")


class Handle:
    """Calls NVML for one device or MIG slice. A call that is not supported is made once per handle only."""

    def __init__(self, raw: object) -> None:
        self.raw = raw
        """NVML's own handle; may be replaced by a newer one of the same device."""
        self._absent: set[tuple[object, ...]] = set()

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - pynvml is untyped
        """The result of `pynvml.<name>(handle, *arguments)`.

        Raises:
            NVMLError: The call failed, now or, if it is not supported, once before.
        """
        key = (name, *arguments)
        if key in self._absent:
            raise pynvml.NVMLError(_NvmlCode.NOT_SUPPORTED)
        function = getattr(pynvml, name, None)
        try:
            if function is None:  # a binding older than the call
                raise pynvml.NVMLError(_NvmlCode.FUNCTION_NOT_FOUND)
            return function(self.raw, *arguments)
        except pynvml.NVMLError as error:
            if error.value in _ABSENT_CALL:
                self._absent.add(key)
            raise

    def try_call(self, name: str, *arguments: object) -> Any | None:  # noqa: ANN401 - pynvml is untyped
        """Like `call`, with `None` if this card, driver or container does not give the value.

        Raises:
            NVMLError: The device itself is gone.
        """
        if (name, *arguments) in self._absent:
            return None
        try:
            return self.call(name, *arguments)
        except pynvml.NVMLError as error:
            if error.value in DEVICE_GONE:
                raise
            return None


_MEMINFO = Path("/proc/meminfo")
_KIB = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)

_OLDER_CALL = _ABSENT_CALL | {_NvmlCode.INVALID_ARGUMENT, _NvmlCode.UNKNOWN}
"""Errors after which memory v1 may work. 999: seen under WSL2 with driver 516.59."""


class Memory(NamedTuple):
    """Sizes in bytes. `kind` says what they mean."""

    kind: MemoryKind = "v2"
    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None


def read_memory(handle: Handle, *, is_slice: bool) -> Memory:
    """Memory v2, else v1, else the machine's own: unified-memory systems give neither, or a total of 0.

    A MIG slice often has v1 only, and is never unified memory.

    Raises:
        NVMLError: The device is gone, or its memory is not ours to see.
    """
    memory = _read_device_memory(handle)
    if memory.total is None and not is_slice:
        return unified_memory() or memory
    return memory


def _read_device_memory(handle: Handle) -> Memory:
    try:
        info = handle.call("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        if error.value not in _OLDER_CALL:
            raise
        return _read_memory_v1(handle)
    return Memory("v2", info.total, info.used, info.free, info.reserved) if info.total else Memory()


def _read_memory_v1(handle: Handle) -> Memory:
    try:
        info = handle.call("nvmlDeviceGetMemoryInfo")
    except pynvml.NVMLError as error:
        if error.value not in _ABSENT_CALL:
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


def read_processes(handle: Handle, total_bytes: int | None) -> tuple[GpuProcess, ...] | None:
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
            if error.value not in _ABSENT_CALL:
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


def held_bytes(processes: Iterable[GpuProcess]) -> int:
    return sum(process.used_bytes or 0 for process in processes)


def scaled_to(processes: Sequence[GpuProcess], used_bytes: int | None) -> tuple[GpuProcess, ...]:
    """The processes, their memory scaled down and marked as estimated where it exceeds `used_bytes`."""
    total = held_bytes(processes)
    if used_bytes is None or total <= used_bytes:
        return tuple(processes)
    return tuple(
        process.model_copy(update={"used_bytes": process.used_bytes * used_bytes // total, "estimated": True})
        if process.used_bytes
        else process
        for process in processes
    )


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


class Load(NamedTuple):
    """Values that are read each time."""

    utilization: float | None = None
    """Value as a fraction from 0 to 1."""
    memory_utilization: float | None = None
    """Value as a fraction from 0 to 1."""
    power_w: float | None = None
    sm_clock_mhz: int | None = None


class Condition(NamedTuple):
    """Values that are read every few seconds."""

    power_limit_w: float | None = None
    temperature_c: float | None = None
    memory_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    ecc_errors: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


class Build(NamedTuple):
    """Values that are read once."""

    max_sm_clock_mhz: int | None = None
    nvlinks: int | None = None


def read_load(handle: Handle) -> Load:
    """All three readers return `None` for a value that the card does not give.

    Raises:
        NVMLError: The device is gone.
    """
    rates = handle.try_call("nvmlDeviceGetUtilizationRates")
    return Load(
        utilization=None if rates is None else min(rates.gpu / 100, 1.0),
        memory_utilization=None if rates is None else min(rates.memory / 100, 1.0),
        power_w=_watts(handle.try_call("nvmlDeviceGetPowerUsage")),
        sm_clock_mhz=handle.try_call("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
    )


def read_condition(handle: Handle) -> Condition:
    # the older call is to be removed by NVIDIA; not every driver and binding has the newer
    sensor = pynvml.NVML_TEMPERATURE_GPU
    value: int | None = handle.try_call("nvmlDeviceGetTemperatureV", sensor)
    bits: int | None = handle.try_call("nvmlDeviceGetCurrentClocksEventReasons")
    if bits is None:  # a driver older than the new name
        bits = handle.try_call("nvmlDeviceGetCurrentClocksThrottleReasons")
    return Condition(
        power_limit_w=_watts(handle.try_call("nvmlDeviceGetEnforcedPowerLimit")),
        temperature_c=value if value is not None else handle.try_call("nvmlDeviceGetTemperature", sensor),
        memory_clock_mhz=handle.try_call("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM),
        throttle=throttle_reasons(bits or 0),
        ecc_errors=handle.try_call("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_LOADED),
        pcie_generation=handle.try_call("nvmlDeviceGetCurrPcieLinkGeneration"),
        pcie_width=handle.try_call("nvmlDeviceGetCurrPcieLinkWidth"),
    )


def read_build(handle: Handle) -> Build:
    # the first link that the card does not know ends the search
    states: list[int] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            states.append(handle.call("nvmlDeviceGetNvLinkState", link))
        except pynvml.NVMLError as error:
            if error.value in DEVICE_GONE:
                raise
            break
    return Build(
        max_sm_clock_mhz=handle.try_call("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM),
        nvlinks=sum(states) if states else None,
    )


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """The reasons for reduced clocks. Bits as NVML has them; unknown ones are left out."""
    if bits & _HARDWARE_CAUSES:
        bits &= ~_HARDWARE_SLOWDOWN
    return tuple(reason for bit, reason in _THROTTLE_REASONS.items() if bits & bit)
