"""Which devices a component was given, before it is known which there are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """A list of devices in the grammar of `CUDA_VISIBLE_DEVICES`."""

    text: str | None = ""
    """`None`: all devices; empty: none."""
    by_bus: bool = True
    """Numbers count in the order of the PCI bus, as NVML's do and `CUDA_DEVICE_ORDER=PCI_BUS_ID` has it.
    False: in CUDA's own order, fastest first."""
