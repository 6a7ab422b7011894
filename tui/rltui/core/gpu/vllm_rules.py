"""What differs between vLLM's versions in how it claims device memory.

Source: `reference/vllm.md`, section 5, from the sources of 0.10.2, 0.12.0, 0.14.1, 0.16.0, 0.18.1, 0.21.0,
0.26.0 and 0.32.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from rltui.core.text import GIB


@dataclass(frozen=True, slots=True)
class VllmRule:
    """Holds from version `since` up to the next rule."""

    since: tuple[int, int]
    default_utilization: float
    """`gpu_memory_utilization` where nobody sets it."""
    graphs_in_budget: bool
    """CUDA graphs count within the budget. Else they come on top, commonly 0.3 to 3 GiB."""
    names_device: bool
    """The start check's error says `cuda:N`: the index inside the process's `CUDA_VISIBLE_DEVICES`."""

    def refusal(
        self, *, free_bytes: int, usable_bytes: int, utilization: float, budget_bytes: int, local_device: int
    ) -> str:
        """How the error of the start check begins, with the figures that are predicted."""
        where = f"device cuda:{local_device}" if self.names_device else "device"
        return (
            f"Free memory on {where} ({free_bytes / GIB:.2f}/{usable_bytes / GIB:.2f} GiB) on startup is less"
            f" than desired GPU memory utilization ({utilization}, {budget_bytes / GIB:.2f} GiB)"
        )


RULES = (
    VllmRule((0, 21), default_utilization=0.92, graphs_in_budget=True, names_device=True),
    VllmRule((0, 14), default_utilization=0.9, graphs_in_budget=False, names_device=True),
    VllmRule((0, 0), default_utilization=0.9, graphs_in_budget=False, names_device=False),
)
"""Newest first. The last one also stands for what is older than 0.10."""


def rule(version: tuple[int, int] | None) -> VllmRule:
    """The rule of a version, such as (0, 16); `None`, a version that is not known, gets the newest."""
    if version is None:
        return RULES[0]
    return next((entry for entry in RULES if version >= entry.since), RULES[-1])
