"""Out of memory, in words: what did not suffice, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.core.config.knobs import display
from rltui.core.gpu.out_of_memory import size_text
from rltui.core.gpu.report import OutOfMemory, Remedy

if TYPE_CHECKING:
    from rltui.core.gpu.advice import Advice, MemoryFailure

_WHEN = {
    "start_check": " at the start check",
    "no_kv_cache": ": no room left for the KV cache",
    "kv_cache_small": " for the KV cache",
    "load": " while loading the model",
    "graph_capture": " while capturing CUDA graphs",
}


def remedy(failure: MemoryFailure, advice: Advice) -> Remedy:
    """The advice as it is sent and shown, ready to be carried out."""
    edits = advice.edits
    by_key = {knob.key: knob for knob in failure.knobs}
    title = ", ".join(
        f"{key} {_value_text(by_key[key].value)} → {_value_text(value)}" for key, value in edits.items()
    )
    peak = "" if failure.peak_bytes is None else f", which used up to {size_text(failure.peak_bytes)}"
    reason = advice.lever.reason if advice.is_own else f"leaves more of the GPU for {failure.component}{peak}"
    readers = tuple(dict.fromkeys(reader for key in edits for reader in by_key[key].readers))
    return Remedy(
        title=title,
        reason=": ".join(clause for clause in (reason, _sizes_text(failure.memory)) if clause),
        edits=edits,
        components=() if failure.component in readers else (*readers, failure.component),
    )


def _value_text(value: object) -> str:
    return "unset" if value is None else display(value)


def _sizes_text(memory: OutOfMemory) -> str:
    """The measured sizes: `tried to allocate 2.0 GiB, 0.3 GiB of 79 GiB free; this process held 70 GiB`."""
    match memory.kind:
        case "start_check":
            return _start_check(memory)
        case "kv_cache_small":
            return _kv_cache(memory)
        case _:
            return _allocation(memory)


def failure_text(memory: OutOfMemory) -> str:
    """One line for people: which memory ran out, and the sizes."""
    where = "out of memory" if memory.device is None else f"out of memory on GPU {memory.device}"
    when = _WHEN.get(memory.kind, "")
    if memory.kind == "warm_up":
        when = f" in the warm-up with {memory.requests} requests" if memory.requests else " in the warm-up"
    return ": ".join(clause for clause in (where + when, _sizes_text(memory)) if clause)


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
