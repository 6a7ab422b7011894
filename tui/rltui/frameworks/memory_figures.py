"""What the groups of the memory texts say in bytes: the other half of `memory_failures`."""

from __future__ import annotations

import re

from rltui.core.failure_cause import Groups
from rltui.core.gpu.out_of_memory import size_bytes
from rltui.core.gpu.report import OutOfMemory

COUNT = r"(?<!\d)\d{1,15}"
NUMBER = rf"{COUNT}(?:\.\d{{1,15}})?"
"""No longer than figures of memory are: what is cannot be reckoned with."""
SIZE = rf"{NUMBER} (?:bytes|[KMGT]iB)"
"""As torch writes one."""
OF_A_PROCESS = rf"(?:Process {COUNT}|Including non-PyTorch memory, this process) has {SIZE} memory in use\."

_HOLDER = re.compile(rf"(?P<pid>{COUNT}|this process) has (?P<held>{SIZE})")
_CONTEXT_BYTES = 2 << 30
"""A process holds at most about this much besides what torch has allocated: CUDA context, libraries, NCCL."""


def start_check(groups: Groups) -> OutOfMemory:
    """Less free than vLLM's budget. Its sizes have one unit for all; `dev` may be missing (before 0.14.1)."""
    return OutOfMemory(
        kind="start_check",
        local_device=_device(groups.get("dev", "?")),
        total_bytes=_gib(groups["total"]),
        free_bytes=_gib(groups["free"]),
        utilization=None if groups["util"] == "?" else float(groups["util"]),
        needed_bytes=_gib(groups["want"]),
    )


def no_kv_cache(groups: Groups) -> OutOfMemory:
    """Weights and activations take the whole budget."""
    del groups
    return OutOfMemory(kind="no_kv_cache")


def small_kv_cache(groups: Groups) -> OutOfMemory:
    """Too little for one request."""
    return OutOfMemory(
        kind="kv_cache_small",
        needed_bytes=_gib(groups["need"]),
        available_bytes=_gib(groups["have"]),
        possible_model_len=_count(groups["est"]),
    )


def few_kv_tokens(groups: Groups) -> OutOfMemory:
    """As `small_kv_cache`, counted in tokens."""
    return OutOfMemory(kind="kv_cache_small", possible_model_len=_count(groups["have"]))


def load(groups: Groups) -> OutOfMemory:
    """Torch's own text, with the figures, stands beside."""
    del groups
    return OutOfMemory(kind="load")


def graph_capture(groups: Groups) -> OutOfMemory:
    """Torch's own text, with the figures, stands at the end of the traceback."""
    del groups
    return OutOfMemory(kind="graph_capture")


def warm_up(groups: Groups) -> OutOfMemory:
    """Torch's own text, with the figures, stands before."""
    return OutOfMemory(kind="warm_up", requests=_count(groups["n"]))


def unspecified(groups: Groups) -> OutOfMemory:
    """No figures, but for what was asked for."""
    tried = size_bytes(groups.get("req", "?"))
    return OutOfMemory(kind="other" if tried is None else "allocation", tried_bytes=tried)


def allocation(groups: Groups) -> OutOfMemory:
    """Torch from 2.1 on."""
    total = size_bytes(groups["total"])
    allocated, cached = size_bytes(groups["allocated"]), size_bytes(groups["cached"])
    own = None if allocated is None else allocated + (cached or 0)
    in_use, holders = _processes(groups["processes"], own, total)
    return OutOfMemory(
        kind="allocation",
        local_device=_count(groups["gpu"]),
        total_bytes=total,
        tried_bytes=size_bytes(groups["req"]),
        free_bytes=size_bytes(groups["free"]),
        in_use_bytes=in_use,
        holders=holders,
    )


def allocation_before_2_1(groups: Groups) -> OutOfMemory:
    """Torch up to 2.0 tells nothing of others, and of itself only what it reserved."""
    reserved = size_bytes(groups["reserved"])
    return OutOfMemory(
        kind="allocation",
        local_device=_count(groups["gpu"]),
        total_bytes=size_bytes(groups["total"]),
        tried_bytes=size_bytes(groups["req"]),
        free_bytes=size_bytes(groups["free"]),
        in_use_bytes=size_bytes(groups["allocated"]) if reserved is None else reserved,
    )


def _processes(
    text: str, own_bytes: int | None, total_bytes: int | None
) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """What the process held, and (pid, bytes) of the others.

    In a container torch does not know its own pid on the host, and names itself like a stranger: then it is
    the one that holds little more than torch has allocated (`own_bytes`).
    """
    in_use: int | None = None
    holders = []
    for found in _HOLDER.finditer(text):
        held = size_bytes(found["held"])
        if held is None or (total_bytes is not None and held > total_bytes):
            continue  # torch 2.1 on Windows and WSL: 17179869184.00 GiB, where the driver does not say
        if found["pid"] == "this process":
            in_use = held
        else:
            holders.append((int(found["pid"]), held))
    if in_use is None and own_bytes is not None:
        in_use = own_bytes
        selves = [holder for holder in holders if 0 <= holder[1] - own_bytes < _CONTEXT_BYTES]
        if selves and "this process" not in text:
            self_named = min(selves, key=lambda holder: holder[1])
            holders.remove(self_named)
            in_use = self_named[1]
    return in_use, tuple(holders)


def _gib(text: str) -> int | None:
    return None if text == "?" else size_bytes(f"{text} GiB")


def _count(text: str) -> int | None:
    return None if text == "?" else int(text)


def _device(text: str) -> int | None:
    """The number of `cuda:2`."""
    number = text.rpartition(":")[2]
    return int(number) if number.isdigit() else None
