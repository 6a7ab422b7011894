"""How much memory a device has, and how much of it is used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pynvml

from rltui.core.gpu.report import MemoryKind
from rltui.services.nvml_errors import ABSENT_CALL, NvmlCode
from rltui.services.nvml_handle import Handle

MEMINFO = Path("/proc/meminfo")
_KIB = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)

_OLDER_CALL = ABSENT_CALL | {NvmlCode.INVALID_ARGUMENT, NvmlCode.UNKNOWN}
"""Memory v1 may work then. 999: seen under WSL2 with driver 516.59."""


class Memory(NamedTuple):
    """Bytes. `kind` says what they mean."""

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
    memory = _of_device(handle)
    if memory.total is None and not is_slice:
        return unified_memory() or memory
    return memory


def _of_device(handle: Handle) -> Memory:
    try:
        info = handle.call("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        if error.value not in _OLDER_CALL:
            raise
        return _older(handle)
    return Memory("v2", info.total, info.used, info.free, info.reserved) if info.total else Memory()


def _older(handle: Handle) -> Memory:
    try:
        info = handle.call("nvmlDeviceGetMemoryInfo")
    except pynvml.NVMLError as error:
        if error.value not in ABSENT_CALL:
            raise
        return Memory()
    return Memory("v1", info.total, info.used, info.free) if info.total else Memory()


def unified_memory(meminfo: Path = MEMINFO) -> Memory | None:
    """The machine's memory, of which the kernel calls `MemAvailable` free; `None` where it does not tell."""
    try:
        text = meminfo.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    sizes = {name: int(kib) * 1024 for name, kib in _KIB.findall(text)}
    if sizes.keys() != {"MemTotal", "MemAvailable"}:
        return None
    total, free = sizes["MemTotal"], sizes["MemAvailable"]
    return Memory("unified", total, total - free, free)
