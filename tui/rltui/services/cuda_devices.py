"""Which devices a CUDA process started from an environment sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rltui.core.gpu.choice import GpuChoice
from rltui.core.gpu.report import GpuDevice

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
DEVICE_ORDER = "CUDA_DEVICE_ORDER"

Choose = Callable[[GpuChoice], Sequence[GpuDevice]]
"""Finds chosen devices among those that were last read."""


def no_devices(choice: GpuChoice) -> tuple[GpuDevice, ...]:
    """Where nobody has looked for devices."""
    del choice
    return ()


def in_bus_order(environment: Mapping[str, str]) -> bool:
    """Numbers count as NVML's do. rltui says so to its components, where the user says nothing."""
    return environment.get(DEVICE_ORDER, "PCI_BUS_ID") == "PCI_BUS_ID"


def visible_devices(choose: Choose, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What `cuda:0`, `cuda:1` … are for a CUDA process, as `CUDA_VISIBLE_DEVICES` names them."""
    chosen = choose(GpuChoice(environment.get(VISIBLE_DEVICES), in_bus_order(environment)))
    return tuple(device.uuid or device.label for device in chosen)


def numbered_devices(choose: Choose, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The same by NVML's numbers where those count, for programs that take no UUID; slices by UUID."""
    by_bus = in_bus_order(environment)
    chosen = choose(GpuChoice(environment.get(VISIBLE_DEVICES), by_bus))
    return tuple(
        str(device.index) if by_bus and device.mig is None else device.uuid or device.label
        for device in chosen
    )


def usable_devices(visible: tuple[str, ...], *, python: str) -> tuple[str, ...]:
    """Those of `visible` that the torch of this interpreter uses: none where it was built without CUDA."""
    if not visible:
        return ()
    from rltui.services.torch_build import uses_cuda  # looks into packages, for nothing where there is no GPU

    return visible if uses_cuda(python) else ()
