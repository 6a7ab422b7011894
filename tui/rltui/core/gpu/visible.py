"""Who uses which GPU: processes to components, and `CUDA_VISIBLE_DEVICES` to device indices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rltui.core.gpu.report import GpuDevice, GpuProcess, GpuReport

Owner = tuple[str, str]
"""Name of the experiment, id of the component."""

_NUMBER = re.compile(r"\+?[0-9]+")


def attribute(report: GpuReport, owners: Mapping[int, Owner]) -> GpuReport:
    """`report` with the experiment and component of every process that `owners` knows by its pid.

    The other processes come back without an owner, also where they had one.
    """
    devices = tuple(_attribute_device(device, owners) for device in report.devices)
    return report.model_copy(update={"devices": devices})


def visible_devices(value: str | None, uuids: Sequence[str]) -> tuple[int, ...]:
    """Indices of the devices that a CUDA process with this `CUDA_VISIBLE_DEVICES` sees, in its own order.

    As CUDA does it (programming guide, "CUDA environment variables"; `torch/cuda/__init__.py`): `None` (not
    set) is all; the list ends at the first entry that names no device; a device named twice makes the whole
    list invalid; `GPU-…` may be cut short while it stays unique; a MIG device stands alone: a process can use
    only one.

    Numbers are taken as indices into `uuids`, which holds for `CUDA_DEVICE_ORDER=PCI_BUS_ID` or equal models.
    The form `MIG-<uuid>` does not name its parent and is taken for an unknown device.

    Args:
        value: the variable's text, `None` where it is not set.
        uuids: of all devices (`GPU-…`), by index.
    """
    if value is None:
        return tuple(range(len(uuids)))
    entries = [entry.strip() for entry in value.split(",")]
    if entries[0].startswith("MIG-GPU-"):
        entries = [entries[0].removeprefix("MIG-").partition("/")[0]]
    indices: list[int] = []
    for entry in entries:
        index = _device_index(entry, uuids)
        if index is None:
            break
        if index in indices:
            return ()
        indices.append(index)
    return tuple(indices)


def _attribute_device(device: GpuDevice, owners: Mapping[int, Owner]) -> GpuDevice:
    processes = tuple(_attribute_process(process, owners) for process in device.processes)
    return device.model_copy(update={"processes": processes})


def _attribute_process(process: GpuProcess, owners: Mapping[int, Owner]) -> GpuProcess:
    experiment, component = owners.get(process.pid, (None, None))
    return process.model_copy(update={"experiment": experiment, "component": component})


def _device_index(entry: str, uuids: Sequence[str]) -> int | None:
    if entry.startswith("GPU-"):
        return _index_of_uuid(entry, uuids)
    number = _NUMBER.match(entry)
    index = int(number[0]) if number else len(uuids)
    return index if index < len(uuids) else None


def _index_of_uuid(start: str, uuids: Sequence[str]) -> int | None:
    matches = [index for index, uuid in enumerate(uuids) if uuid.lower().startswith(start.lower())]
    return matches[0] if len(matches) == 1 else None
