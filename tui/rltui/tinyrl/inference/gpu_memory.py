"""vLLM's rule for `gpu_memory_utilization`: a share of the device's total, free at start and held for life.

Wording and arithmetic follow vLLM 0.14 to 0.18 (`v1/worker/utils.py`, `gpu_worker.py`).
"""

from __future__ import annotations

import math

_GIB = 2**30


def budget_bytes(total_bytes: int, utilization: float) -> int:
    """What an instance may hold: its share of total memory, whatever others use."""
    return math.ceil(total_bytes * utilization)


def startup_error(*, free_bytes: int, total_bytes: int, utilization: float, device: str) -> str | None:
    """VLLM's message where less memory is free than the budget, else `None`."""
    budget = budget_bytes(total_bytes, utilization)
    if free_bytes >= budget:
        return None
    return (
        f"Free memory on device {device} ({free_bytes / _GIB:.2f}/{total_bytes / _GIB:.2f} GiB) on"
        " startup is less"
        f" than desired GPU memory utilization ({utilization}, {budget / _GIB:.2f} GiB). Decrease GPU memory"
        " utilization or reduce GPU memory used by other processes."
    )


def startup_summary(*, free_bytes: int, total_bytes: int, utilization: float) -> str:
    """VLLM's line about the figures of its check, once that has been passed."""
    budget = budget_bytes(total_bytes, utilization)
    return (
        f"Free memory on device ({free_bytes / _GIB:.2f}/{total_bytes / _GIB:.2f} GiB) on startup."
        f" Desired GPU memory utilization is ({utilization}, {budget / _GIB:.2f} GiB)."
    )


def kv_pool_bytes(
    *, free_at_start_bytes: int, free_now_bytes: int, total_bytes: int, utilization: float
) -> int:
    """What the budget leaves for keys and values once model and CUDA context have taken theirs."""
    taken = free_at_start_bytes - free_now_bytes
    return max(0, budget_bytes(total_bytes, utilization) - taken)
