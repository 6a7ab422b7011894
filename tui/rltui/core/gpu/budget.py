"""What an engine claims of a device, whether its start check passes, and which utilization leaves enough.

`gpu_memory_utilization` is a share of the device's total, whatever others hold (`reference/vllm.md`,
section 5).
"""

from __future__ import annotations

import math

from rltui.core.gpu.report import GpuDevice
from rltui.core.gpu.vllm_rules import VllmRule
from rltui.core.text import GIB

CONTEXT_BYTES = round(0.6 * GIB)
"""CUDA context of a process, which no budget holds: 0.3 to 0.6 GiB (`reference/vllm.md`, section 5)."""
GRAPHS_BYTES = GIB
"""CUDA graphs where no attempt has measured them; 0.3 to 3 GiB are common."""
MARGIN_BYTES = GIB
"""Left free beside engine and trainer: samples one second apart miss short peaks, and an allocator that is
nearly full fragments."""


def share_bytes(usable_bytes: int, utilization: float) -> int:
    """VLLM's budget, with its own rounding: `ceil(total × utilization)`, `total` as CUDA has it."""
    return math.ceil(usable_bytes * utilization)


def budget_bytes(device: GpuDevice, utilization: float) -> int | None:
    """What an instance with this utilization claims there; `None` where the device's size is not known."""
    usable = device.usable_bytes
    return None if usable is None else share_bytes(usable, utilization)


def passes_start_check(free_bytes: int, budget_bytes: int) -> bool:
    """VLLM starts only where its whole budget is free, whatever it needs of it."""
    return free_bytes >= budget_bytes


def largest_passing_utilization(device: GpuDevice, free_bytes: int) -> float | None:
    """Largest utilization, in steps of 0.01, that starts with this much free; `None` where none does.

    vLLM looks after it has made its CUDA context: at least 0.01 of the total is kept for that, or all of
    `CONTEXT_BYTES` on a device where 0.01 is less. On unified memory "free" is what the system has available.
    """
    usable = device.usable_bytes
    if not usable:
        return None
    kept_for_context = max(CONTEXT_BYTES, math.ceil(usable / 100))
    return utilization_within(usable, free_bytes - kept_for_context)


def passing_utilization(free: float, total: float) -> float:
    """Largest utilization, in steps of 0.01, that passes with what vLLM itself counted; 0 where none does.

    It counted with its context made; one step is kept for the next one's (`reference/nvml.md`, 4.1).

    Args:
        free: in the unit of `total`, as its refusal names both.
        total: as CUDA has it.
    """
    return max(0.0, (math.floor(free / total * 100) - 1) / 100) if total > 0 else 0.0


def utilization_within(usable_bytes: int, room_bytes: int) -> float | None:
    """Largest utilization, in steps of 0.01 up to 1, that claims at most `room_bytes`; `None` where none."""
    hundredths = min(100, room_bytes * 100 // usable_bytes)
    while hundredths >= 1 and share_bytes(usable_bytes, hundredths / 100) > room_bytes:
        hundredths -= 1  # the budget is rounded up
    return hundredths / 100 if hundredths >= 1 else None


def overhead_bytes(rule: VllmRule, *, eager: bool = False, graphs_bytes: int | None = None) -> int:
    """What an engine takes beside its budget: its CUDA context, and in old versions its CUDA graphs.

    Args:
        rule: of its version.
        eager: it makes no graphs.
        graphs_bytes: as measured in an earlier attempt; `None` takes `GRAPHS_BYTES`.
    """
    if eager or rule.graphs_in_budget:
        return CONTEXT_BYTES
    return CONTEXT_BYTES + (GRAPHS_BYTES if graphs_bytes is None else graphs_bytes)


def safe_utilization(
    device: GpuDevice, *, room_bytes: int, overhead_bytes: int, trainer_bytes: int
) -> float | None:
    """Largest utilization, rounded down to 0.01, that leaves the trainers their peak and `MARGIN_BYTES`.

    Args:
        device: that they share.
        room_bytes: what is there for the engine and the trainers together: without what all others hold.
        overhead_bytes: of the engine, beside its budget.
        trainer_bytes: peak of the trainers, as NVML counts it: with their CUDA contexts.
    """
    usable = device.usable_bytes
    if not usable:
        return None
    return utilization_within(usable, room_bytes - overhead_bytes - trainer_bytes - MARGIN_BYTES)
