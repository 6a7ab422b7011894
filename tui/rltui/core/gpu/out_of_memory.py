"""Device memory that did not suffice: sizes as error texts give them, and the details in words. Pure."""

from __future__ import annotations

import re

from rltui.core.gpu.report import OutOfMemory
from rltui.core.text import GIB, gib

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": GIB, "TiB": 1 << 40}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?) ?(bytes|KiB|MiB|GiB|TiB)")
_SMALL_BYTES = GIB // 10
"""Below this, `gib` would say 0.0."""

_ACCOMPANIED = frozenset({"load", "warm_up", "graph_capture", "other"})
"""For these kinds torch's own message stands beside vLLM's, and only torch's has the sizes."""

_WHEN = {
    "start_check": " at the start check",
    "no_kv_cache": ": no room left for the KV cache",
    "kv_cache_small": " for the KV cache",
    "load": " while loading the model",
    "graph_capture": " while capturing CUDA graphs",
}


def size_bytes(text: str) -> int | None:
    """`5.31 GiB`, `20.00 MiB`, `512 bytes` as bytes; `None` for anything else."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else round(float(match[1]) * _UNITS[match[2]])


def size_text(size: int) -> str:
    """`70.1 GiB`, `20 MiB`, `0`."""
    if 0 < size < _SMALL_BYTES:
        return f"{max(1, round(size / (1 << 20)))} MiB"
    return f"{gib(size)} GiB" if size else "0"


def with_allocation_sizes(memory: OutOfMemory, allocation: OutOfMemory) -> OutOfMemory:
    """`memory` completed by torch's message about the same failure; set fields of `memory` win."""
    if memory.kind not in _ACCOMPANIED or allocation.kind != "allocation":
        return memory
    values = {name: getattr(memory, name) for name in memory.model_fields_set}
    if memory.kind == "other":
        values["kind"] = allocation.kind
    return allocation.model_copy(update={name: value for name, value in values.items() if value is not None})


def sizes_text(memory: OutOfMemory) -> str:
    """The measured sizes: `tried to allocate 2.0 GiB, 0.3 GiB of 79.2 GiB free; it held 70.1 GiB`."""
    match memory.kind:
        case "start_check":
            return _start_check(memory)
        case "kv_cache_small":
            return _kv_cache(memory)
        case _:
            return _allocation(memory)


def verdict(memory: OutOfMemory) -> str:
    """One line for people: which memory ran out, and the sizes."""
    where = "out of memory" if memory.device is None else f"out of memory on GPU {memory.device}"
    when = _WHEN.get(memory.kind, "")
    if memory.kind == "warm_up":
        when = f" in the warm-up with {memory.requests} requests" if memory.requests else " in the warm-up"
    return ": ".join(clause for clause in (where + when, sizes_text(memory)) if clause)


def _start_check(memory: OutOfMemory) -> str:
    clauses = [_free(memory)]
    if memory.utilization is not None and memory.needed_bytes is not None:
        clauses.append(
            f"gpu_memory_utilization {memory.utilization:g} asks for {size_text(memory.needed_bytes)}"
        )
    return ", ".join(clause for clause in clauses if clause)


def _kv_cache(memory: OutOfMemory) -> str:
    clauses = []
    if memory.needed_bytes is not None and memory.available_bytes is not None:
        needed, available = size_text(memory.needed_bytes), size_text(memory.available_bytes)
        clauses.append(f"one request of max_model_len needs {needed}, available: {available}")
    if memory.possible_model_len is not None:
        clauses.append(f"{memory.possible_model_len} tokens would fit")
    return ", ".join(clauses)


def _allocation(memory: OutOfMemory) -> str:
    attempts = [] if memory.tried_bytes is None else [f"tried to allocate {size_text(memory.tried_bytes)}"]
    clauses = [", ".join(clause for clause in (*attempts, _free(memory)) if clause)]
    if memory.in_use_bytes is not None:
        clauses.append(f"this process held {size_text(memory.in_use_bytes)}")
    if memory.holders:
        pid, held_bytes = max(memory.holders, key=lambda holder: holder[1])
        clauses.append(f"pid {pid} of the host held {size_text(held_bytes)}")
    return "; ".join(clause for clause in clauses if clause)


def _free(memory: OutOfMemory) -> str:
    if memory.free_bytes is None:
        return ""
    of_total = "" if memory.total_bytes is None else f" of {size_text(memory.total_bytes)}"
    return f"{size_text(memory.free_bytes)}{of_total} free"
