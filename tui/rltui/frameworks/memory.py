"""Patterns of exhausted memory, of a GPU or of the host, and their sizes in bytes.

vLLM 0.10 to 0.32, torch 1.13 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Literal

from rltui.base.text import parse_whole_number
from rltui.core.gpu.budget import passing_utilization
from rltui.core.gpu.out_of_memory import size_bytes, size_text
from rltui.core.gpu.report import OutOfMemory
from rltui.core.logs.failure_cause import Confidence, FailurePattern, Groups

_COUNT = r"(?<!\d)\d{1,15}"
_NUMBER = rf"{_COUNT}(?:\.\d{{1,15}})?"
"""Bounded length: a longer number is no size of memory."""
_SIZE = rf"{_NUMBER} (?:bytes|[KMGT]iB)"
"""A size as torch writes it."""
_OF_A_PROCESS = (
    rf"(?:Process {_COUNT}|Including non-PyTorch memory, this process) has {_SIZE} memory in use\."
)

_HOLDER = re.compile(rf"(?P<pid>{_COUNT}|this process) has (?P<held>{_SIZE})")
_CONTEXT_BYTES = 2 << 30
"""A process holds at most about this much besides torch's allocations: CUDA context, libraries, NCCL."""


def _only(kind: Literal["no_kv_cache", "load", "graph_capture"]) -> Callable[[Groups], OutOfMemory]:
    """Make the error without sizes: torch's own text, which has them, stands near, or there are none."""
    return lambda _: OutOfMemory(kind=kind)


def _start_check(groups: Groups) -> OutOfMemory:
    """Less free than vLLM's budget. Its sizes have one unit for all; `dev` may be missing (before 0.14.1)."""
    number = groups.get("dev", "?").rpartition(":")[2]
    return OutOfMemory(
        kind="start_check",
        local_device=parse_whole_number(number),
        total_bytes=_gib(groups["total"]),
        free_bytes=_gib(groups["free"]),
        utilization=None if groups["util"] == "?" else float(groups["util"]),
        needed_bytes=_gib(groups["want"]),
    )


def _small_kv_cache(groups: Groups) -> OutOfMemory:
    return OutOfMemory(
        kind="kv_cache_small",
        needed_bytes=_gib(groups["need"]),
        available_bytes=_gib(groups["have"]),
        possible_model_len=_count(groups["est"]),
    )


def _unspecified(groups: Groups) -> OutOfMemory:
    """Only the requested size, if any, is known."""
    tried = size_bytes(groups.get("req", "?"))
    return OutOfMemory(kind="other" if tried is None else "allocation", tried_bytes=tried)


def _allocation(groups: Groups) -> OutOfMemory:
    """The text of torch from 2.1 on."""
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


def _allocation_before_2_1(groups: Groups) -> OutOfMemory:
    """Torch up to 2.0 reports no other processes, and of itself only the reserved memory."""
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
    """The process's own memory, and (pid, bytes) of the others.

    In a container torch does not know its own pid on the host, and names itself like another process: then it
    is the one that holds little more than torch has allocated (`own_bytes`).
    """
    in_use: int | None = None
    holders = []
    for match in _HOLDER.finditer(text):
        held_bytes = size_bytes(match["held"])
        if held_bytes is None or (total_bytes is not None and held_bytes > total_bytes):
            continue  # torch 2.1 on Windows and WSL: 17179869184.00 GiB, where the driver does not say
        if match["pid"] == "this process":
            in_use = held_bytes
        else:
            holders.append((int(match["pid"]), held_bytes))
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


_OOM = r"\b(?:CUDA|HIP|XPU|MPS backend) out of memory"
_LONGEST_TRACEBACK = 20_000
"""Characters; vLLM begins each line with process, time and place."""
_SMALLER = (
    "trainer: lower seq_len or the micro batch, or turn on activation checkpointing;"
    " inference: lower gpu_memory_utilization or max_num_seqs"
)


def _too_little_free(groups: Groups) -> str:
    free, total = float(groups["free"]), float(groups["total"])
    fits = passing_utilization(free, total)
    lower = f", or lower gpu_memory_utilization to {fits:.2f}" if fits > 0.05 else ""
    return (
        f"out of GPU memory: {free:g} of {total:g} GiB free, gpu_memory_utilization {groups['util']} asks"
        f" for {groups['want']} GiB; end the other processes on the GPU{lower}"
    )


def _cache_too_small(groups: Groups) -> str:
    length = "max_model_len" if groups["est"] == "?" else f"max_model_len to {groups['est']}"
    return (
        f"out of GPU memory: one request of {groups['len']} tokens needs {groups['need']} GiB of KV cache,"
        f" available: {groups['have']}; lower {length}, or raise gpu_memory_utilization"
    )


def _torch_oom(groups: Groups) -> str:
    """The pids that torch names are those of the host, also inside a container."""
    holders = _allocation(groups).holders
    pid, held_bytes = max(holders, key=lambda holder: holder[1], default=(None, 0))
    holder = "" if pid is None else f"; pid {pid} of the host holds {size_text(held_bytes)}"
    return (
        f"out of GPU memory: {groups['req']} asked for, {groups['free']} of {groups['total']} free"
        f"{holder}; {_SMALLER}"
    )


_oom = partial(FailurePattern, hopeless=True, code="oom_cuda")
MEMORY: tuple[FailurePattern, ...] = (
    _oom(
        "F_FREE",
        # What is told has no number of the device: it counts inside CUDA_VISIBLE_DEVICES.
        rf"Free memory on device(?: (?P<dev>[\w:]+))? \((?P<free>{_NUMBER})/(?P<total>{_NUMBER}) GiB\)"
        r" on startup is less than (?:desired GPU memory utilization|the engine's budget)"
        rf".*?\((?P<util>{_NUMBER}), (?P<want>{_NUMBER}) GiB\)",
        _too_little_free,
        memory=_start_check,
    ),
    FailurePattern(
        "F_FREE_CPU",
        rf"Available memory on node (?P<node>{_COUNT}) \((?P<free>{_NUMBER})/(?P<total>{_NUMBER}) GiB\) on"
        r" (?:startup|kv cache allocation) is less than"
        rf"(?: desired CPU memory utilization \((?P<util>{_NUMBER}), (?P<want>{_NUMBER}) GiB\))?",
        "out of memory: {free} of {total} GiB free on node {node}, less than the server asks for; lower"
        " gpu_memory_utilization",
        hopeless=True,
        memory=_start_check,
        code="oom_host",
    ),
    _oom(
        "F_NOKV",
        r"No available memory for the cache blocks",
        "out of GPU memory: no room left for the KV cache; raise gpu_memory_utilization, or lower"
        " max_model_len or max_num_batched_tokens",
        memory=_only("no_kv_cache"),
    ),
    _oom(
        "F_KVSMALL",
        rf"To serve at least one request with the models?'s max seq len \((?P<len>{_COUNT})\),"
        rf" \(?(?P<need>{_NUMBER}) GiB KV cache is needed, which is larger than the available KV cache memory"
        rf" \((?P<have>{_NUMBER}) GiB\)"
        rf"(?:.*?[Ee]stimated maximum model length is (?P<est>{_COUNT}))?",
        _cache_too_small,
        memory=_small_kv_cache,
    ),
    _oom(
        "F_KVTOKENS",
        rf"max seq len \((?P<len>{_COUNT})\) is larger than the maximum number of tokens that can be stored"
        rf" in KV cache \((?P<have>{_COUNT})\)",
        "out of GPU memory: max_model_len {len} exceeds the {have} tokens that fit into the KV cache;"
        " lower max_model_len, or raise gpu_memory_utilization",
        memory=lambda groups: OutOfMemory(kind="kv_cache_small", possible_model_len=_count(groups["have"])),
    ),
    _oom(
        "F_LOAD_OOM",
        r"Failed to load model - not enough GPU memory",
        "out of GPU memory while loading the model; end the other processes on the GPU, or use more GPUs",
        memory=_only("load"),
    ),
    _oom(
        "F_WARM_OOM",
        rf"CUDA out of memory occurred when warming up (?:sampler|pooler) with (?P<n>{_COUNT}) dummy"
        r" requests",
        "out of GPU memory in the warm-up with {n} requests; lower max_num_seqs or gpu_memory_utilization",
        memory=lambda groups: OutOfMemory(kind="warm_up", requests=_count(groups["n"])),
    ),
    _oom(
        "F_GRAPH_OOM",
        # A frame of vLLM's traceback, and its end a few dozen frames below.
        rf"\bin capture_model\b(?:(?!\bin capture_model\b)[\s\S]){{1,{_LONGEST_TRACEBACK}}}?"
        rf"(?:{_OOM}|CUDA error: out of memory)",
        "out of GPU memory while capturing CUDA graphs; lower gpu_memory_utilization, or turn on"
        " enforce_eager",
        memory=_only("graph_capture"),
    ),
    _oom(
        "F_OOM",
        # torch 2.1 writes "capacty".
        rf"{_OOM}\. Tried to allocate (?P<req>{_SIZE})\. GPU (?P<gpu>{_COUNT}) has a total capaci?ty of"
        rf" (?P<total>{_SIZE}) of which (?P<free>{_SIZE}) is free\.(?P<processes>(?: *{_OF_A_PROCESS})*)"
        rf"(?: *{_SIZE} allowed;)?(?: *Of the allocated memory (?P<allocated>{_SIZE}) is allocated by PyTorch"
        rf"[^\n]*? and (?P<cached>{_SIZE}) is reserved)?",
        _torch_oom,
        weight=Confidence.BROAD,
        memory=_allocation,
    ),
    _oom(
        "F_OOM_BEFORE_TORCH_2_1",
        rf"{_OOM}\. Tried to allocate (?P<req>{_SIZE}) \(GPU (?P<gpu>{_COUNT}); (?P<total>{_SIZE}) total"
        rf" capacity;(?: (?P<allocated>{_SIZE}) already allocated;)?.*? (?P<free>{_SIZE}) free;"
        rf"(?: (?P<reserved>{_SIZE}) reserved)?",
        "out of GPU memory: {req} asked for, {free} of {total} free; " + _SMALLER,
        weight=Confidence.BROAD,
        memory=_allocation_before_2_1,
    ),
    _oom(
        "F_OOM_ANY",
        rf"(?:{_OOM}\b|RESOURCE_EXHAUSTED: Out of memory)"
        rf"(?:(?:\. Tried| while trying) to allocate (?P<req>{_SIZE}))?",
        "out of GPU memory; " + _SMALLER,
        weight=Confidence.BROAD,
        memory=_unspecified,
    ),
    _oom(
        "F_OOM_ASYNC",
        r"CUDA error: out of memory|(?:CUDA error: )?CUBLAS_STATUS_ALLOC_FAILED"
        r"|NCCL[^\n]{0,300}?out of memory|(?:NCCL error(?:[^\n]*\n){1,6}?[^\n]*)?Cuda failure 2 'out of",
        "out of GPU memory (reported by CUDA); lower gpu_memory_utilization by 0.05, or the trainer's batch",
        weight=Confidence.BROAD,
        memory=_unspecified,
    ),
    FailurePattern(
        "F_PROFILE",
        rf"Error in memory profiling\. Initial free memory (?P<a>{_NUMBER}) GiB, "
        rf"current free memory (?P<b>{_NUMBER})",
        "another process freed GPU memory while vLLM was measuring it ({a} GiB free, then {b} GiB); restart"
        " the server",
        code="gpu_error",
    ),
    FailurePattern(
        "F_SHM",
        r"DataLoader worker[^\n]{0,300}?Bus error|out of shared memory",
        "out of shared memory (/dev/shm); enlarge /dev/shm, or use fewer data loader workers",
        hopeless=True,
        code="oom_host",
    ),
    FailurePattern(
        "F_HOST_OOM",
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)[^\n]{0,300}?"
        r"(?<!\d)(?P<req>\d{1,20}) bytes",
        "out of memory: the machine could not allocate {req} bytes; use a smaller batch or model",
        hopeless=True,
        weight=Confidence.BROAD,
        code="oom_host",
    ),
    FailurePattern(
        "F_HOST_OOM_PYTHON",
        r"(?<!\S)(?:MemoryError\b|OSError: \[Errno 12\] Cannot allocate memory)"
        r"|_ArrayMemoryError: Unable to allocate",
        "out of memory: no memory left on the machine; use a smaller batch or model",
        hopeless=True,
        weight=Confidence.BROAD,
        code="oom_host",
    ),
)
