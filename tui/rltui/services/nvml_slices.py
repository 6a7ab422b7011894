"""The MIG slices of a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pynvml

from rltui.services.nvml_errors import DEVICE_GONE
from rltui.services.nvml_handle import Handle
from rltui.services.nvml_identity import Identity
from rltui.services.nvml_partition import Partition


def find_slices(whole: Partition, known: Iterable[Partition]) -> tuple[Partition, ...] | None:
    """The slices by number, or `None` where the GPU is not divided. Those that were `known` stay the same.

    Raises:
        NVMLError: The GPU is gone.
    """
    mode: list[int] | None = whole.handle.ask("nvmlDeviceGetMigMode")  # present, after the next reset
    if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return None
    places: int = whole.handle.ask("nvmlDeviceGetMaxMigDeviceCount") or 0
    by_uuid = {part.identity.uuid: part for part in known}
    return tuple(part for number in range(places) if (part := _slice(whole, number, by_uuid)))


def _slice(whole: Partition, number: int, known: dict[str, Partition]) -> Partition | None:
    """`None` for an empty place."""
    try:
        raw = whole.handle.call("nvmlDeviceGetMigDeviceHandleByIndex", number)
    except pynvml.NVMLError as error:
        if error.value in DEVICE_GONE:
            raise
        return None
    handle = Handle(raw)
    uuid = handle.ask("nvmlDeviceGetUUID") or ""
    if part := known.get(uuid):
        part.handle.raw, part.identity = raw, replace(part.identity, mig=number)
        return part
    name = handle.ask("nvmlDeviceGetName") or whole.identity.name
    return Partition(handle, Identity(whole.identity.index, number, uuid, name))
