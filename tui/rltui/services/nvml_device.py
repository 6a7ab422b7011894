"""One reading of one device through NVML. Blocking; needs an initialised NVML.

Importing this module imports `pynvml`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import pynvml

from rltui.core.gpu.report import GpuDevice, GpuProcess
from rltui.services.nvml_errors import ABSENT_CALL, DEVICE_GONE, NvmlCode, device_problem

T = TypeVar("T")

PID_LIMIT = 1 << 22
"""Linux's largest `pid_max` (`PID_MAX_LIMIT` in `linux/threads.h`). Larger pids are garbage: some R535
drivers and bindings disagree about the size of an entry."""

TITLE_BYTES = 256
"""How much of a command line is read; the name is its first word."""


class Identity(NamedTuple):
    """What never changes while NVML is initialised."""

    uuid: str
    name: str


UNKNOWN = Identity("", "")


class Memory(NamedTuple):
    """Bytes. Where `reserved` is `None` (drivers before R510), `used` includes the driver's own part."""

    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None


def read_device(index: int, identities: dict[int, Identity]) -> GpuDevice:
    """Read device `index`. Never fails because of NVML: a device in trouble comes back with `problem` set.

    Args:
        index: NVML's index, from 0.
        identities: what earlier readings learnt; filled here, so that a lost device keeps its name.
    """
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        if not all(identities.get(index, UNKNOWN)):
            identities[index] = _identity(handle)
        return _read_fields(handle, index, identities[index])
    except pynvml.NVMLError as error:
        uuid, name = identities.get(index, UNKNOWN)
        return GpuDevice(index=index, uuid=uuid, name=name, problem=device_problem(error.value))


def _read_fields(handle: object, index: int, identity: Identity) -> GpuDevice:
    memory = _memory(handle)
    utilization = _optional(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    power_mw = _optional(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    return GpuDevice(
        index=index,
        uuid=identity.uuid,
        name=identity.name,
        total_bytes=memory.total,
        used_bytes=memory.used,
        free_bytes=memory.free,
        reserved_bytes=memory.reserved,
        utilization=None if utilization is None else min(utilization / 100, 1.0),
        power_w=None if power_mw is None else power_mw / 1000,
        temperature_c=_temperature(handle),
        processes=_processes(handle, memory.total),
    )


def _optional(call: Callable[[], T]) -> T | None:
    """The value of `call`, or `None` where this card, driver or container does not give it.

    Raises:
        NVMLError: the device itself is gone.
    """
    try:
        return call()
    except pynvml.NVMLError as error:
        if error.value in DEVICE_GONE:
            raise
        return None


def _identity(handle: object) -> Identity:
    uuid = _optional(lambda: pynvml.nvmlDeviceGetUUID(handle))
    name = _optional(lambda: pynvml.nvmlDeviceGetName(handle))
    return Identity(uuid or "", name or "")


def _memory(handle: object) -> Memory:
    """Memory v2, else v1, else unknown: unified-memory machines support neither, or answer a total of 0."""
    try:
        info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        # 999: seen under WSL2 with driver 516.59, where v1 works.
        if error.value not in ABSENT_CALL | {NvmlCode.UNKNOWN}:
            raise
        return _memory_v1(handle)
    return Memory(info.total, info.used, info.free, info.reserved) if info.total else Memory()


def _memory_v1(handle: object) -> Memory:
    try:
        info = pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as error:
        if error.value not in ABSENT_CALL:
            raise
        return Memory()
    return Memory(info.total, info.used, info.free) if info.total else Memory()


def _temperature(handle: object) -> float | None:
    """Degrees Celsius, by the newer call where driver and binding have it: the older one is to be removed."""
    sensor = pynvml.NVML_TEMPERATURE_GPU
    newer = getattr(pynvml, "nvmlDeviceGetTemperatureV", None)
    value = _optional(lambda: newer(handle, sensor)) if newer else None
    return value if value is not None else _optional(lambda: pynvml.nvmlDeviceGetTemperature(handle, sensor))


def _processes(handle: object, total_bytes: int | None) -> tuple[GpuProcess, ...]:
    """Processes that compute or draw, by pid. One that does both is in both lists with the same memory."""
    compute = _optional(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle))
    graphics = _optional(lambda: pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle))
    used_bytes: dict[int, int | None] = {}
    for entry in [*(compute or ()), *(graphics or ())]:
        if 0 < entry.pid <= PID_LIMIT:
            known = used_bytes.get(entry.pid)
            used_bytes[entry.pid] = _plausible(entry.usedGpuMemory, total_bytes) if known is None else known
    return tuple(
        GpuProcess(pid=pid, used_bytes=used, name=process_name(pid))
        for pid, used in sorted(used_bytes.items())
    )


def _plausible(used: int | None, total_bytes: int | None) -> int | None:
    return None if used is None or (total_bytes is not None and used > total_bytes) else used


def process_name(pid: int) -> str:
    """First word of the command line without its folder, `""` where nothing can be read.

    `comm` ends after 15 characters (`VLLM::EngineCor` of vLLM's title), so it serves only where there is no
    command line, as with a process that is ending.
    """
    title = _proc_text(pid, "cmdline") or _proc_text(pid, "comm")
    word = title.split(b"\0", 1)[0].split(maxsplit=1)[:1]
    name = b"".join(word).rpartition(b"/")[2].decode(errors="replace")
    return "".join(character if character.isprintable() else "?" for character in name)


def _proc_text(pid: int, file_name: str) -> bytes:
    try:
        with Path("/proc", str(pid), file_name).open("rb") as file:
            return file.read(TITLE_BYTES)
    except OSError:
        return b""
