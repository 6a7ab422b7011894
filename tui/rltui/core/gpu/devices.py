"""The devices that a process sees: `CUDA_VISIBLE_DEVICES` in full. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rltui.core.gpu.report import GpuDevice

GpuChoice = str | None
"""Devices assigned to a component, in the grammar of `CUDA_VISIBLE_DEVICES`. `None`: all devices; empty:
none.

Numbers count as NVML's do: by the PCI bus, as `CUDA_DEVICE_ORDER=PCI_BUS_ID` has it, which rltui sets for all
that it starts.
"""

NO_DEVICES = "none"
"""The choice of no device: everything computes on the CPU. CUDA takes any text that names no device so."""

_NUMBER = re.compile(r"\+?[0-9]+")


def chosen_devices(choice: GpuChoice, devices: Sequence[GpuDevice]) -> tuple[GpuDevice, ...]:
    """The devices that a CUDA process started with `choice` sees, in its own order: `cuda:0` first.

    As CUDA does it (programming guide, "CUDA environment variables"; MIG user guide, "Device enumeration";
    `torch/cuda/__init__.py`): no text is all; the list ends at the first entry that names no device; a device
    named twice makes the whole list invalid; a UUID may be cut short while it stays unique. A GPU in MIG mode
    stands for its first slice, and a process that sees a slice sees nothing else.

    `devices`: all of a report, in any order. Those of other hosts are never chosen.
    """
    gpus = _local_gpus(devices)
    if choice is None:
        slices = [gpu.visible for gpu in gpus if gpu.slices]
        return tuple(slices[:1]) or tuple(gpu.visible for gpu in gpus)
    visible: list[GpuDevice] = []
    for entry in choice.split(","):
        device = _named(entry.strip(), gpus)
        if device is None:
            break
        if device.mig is not None:
            return (device,)
        if device in visible:
            return ()
        visible.append(device)
    return tuple(visible)


@dataclass(frozen=True, slots=True)
class _Gpu:
    card: GpuDevice | None
    """The card itself; `None` if a report lists only its slices."""
    slices: tuple[GpuDevice, ...]
    """MIG slices of the card, by number."""

    @property
    def visible(self) -> GpuDevice:
        """The device that CUDA means by the card's number or UUID."""
        device = self.slices[0] if self.slices else self.card
        assert device is not None
        return device


def _local_gpus(devices: Sequence[GpuDevice]) -> list[_Gpu]:
    """Cards of this machine in NVML's order, which is that of the PCI bus in practice."""
    rows: dict[int, list[GpuDevice]] = {}
    for device in devices:
        if not device.host:
            rows.setdefault(device.index, []).append(device)
    return [_gpu(rows[index]) for index in sorted(rows)]


def _gpu(rows: list[GpuDevice]) -> _Gpu:
    slices = sorted((row.mig, position) for position, row in enumerate(rows) if row.mig is not None)
    card = next((row for row in rows if row.mig is None), None)
    return _Gpu(card, tuple(rows[position] for _, position in slices))


def _named(entry: str, gpus: Sequence[_Gpu]) -> GpuDevice | None:
    """The device that one entry of a list names; `None` if CUDA would find none, or it is ambiguous."""
    if entry.startswith("MIG-"):
        slices = [mig_slice for gpu in gpus for mig_slice in gpu.slices]
        if match := _by_uuid(entry, slices):
            return match
        # `MIG-GPU-<uuid>/<gi>/<ci>`, from before R470: without the ids only a single slice is unambiguous
        card, slash, _ = entry.removeprefix("MIG-").partition("/")
        gpu = _by_card(card, gpus) if slash else None
        return gpu.slices[0] if gpu and len(gpu.slices) == 1 else None
    if entry.startswith("GPU-"):
        gpu = _by_card(entry, gpus)
    else:
        number = _NUMBER.match(entry)
        index = int(number[0]) if number else len(gpus)
        gpu = gpus[index] if index < len(gpus) else None
    return gpu.visible if gpu else None


def _by_card(start: str, gpus: Sequence[_Gpu]) -> _Gpu | None:
    cards = [gpu.card for gpu in gpus if gpu.card]
    match = _by_uuid(start, cards)
    return next((gpu for gpu in gpus if gpu.card is match), None) if match else None


def _by_uuid(start: str, devices: Sequence[GpuDevice]) -> GpuDevice | None:
    matches = [device for device in devices if device.uuid.lower().startswith(start.lower())]
    return matches[0] if len(matches) == 1 else None
