"""One GPU through NVML, whole or in MIG slices. Blocking; needs an initialised NVML."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pynvml

from rltui.core.gpu.report import GpuDevice, GpuProcess
from rltui.services.gpu.nvml.handle import (
    DEVICE_GONE,
    NO_SLICES,
    NOT_LISTED,
    STALE_HANDLE,
    NvmlHandle,
    device_problem,
)
from rltui.services.gpu.nvml.values import (
    Fields,
    Memory,
    listed_bytes,
    read_build,
    read_condition,
    read_load,
    read_memory,
    read_processes,
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Names a GPU or a MIG slice. Strings are empty if the driver does not give them."""

    index: int
    mig: int | None = None
    """Number of the slice within its GPU; `None` for a whole GPU."""
    uuid: str = ""
    name: str = ""

    def row(self, **fields: Any) -> GpuDevice:  # noqa: ANN401 - fields of a device
        return GpuDevice(index=self.index, mig=self.mig, uuid=self.uuid, name=self.name, **fields)


class GpuRoster:
    """Every GPU that was ever listed, so that none vanishes silently.

    Survives NVML sessions: a new one numbers the GPUs again, and may omit one that fell off the bus.
    """

    def __init__(self) -> None:
        self._identities: dict[str, Identity] = {}

    def expected(self, count: int) -> tuple[Identity, ...]:
        """The likely identities of the `count` listed GPUs: as before, unless their number changed."""
        by_index = {identity.index: identity for identity in self._identities.values()}
        expected = by_index if len(by_index) == count else {}
        return tuple(expected.get(index, Identity(index)) for index in range(count))

    def missing_rows(self, listed: Iterable[Identity]) -> tuple[GpuDevice, ...]:
        """A row for each GPU that was listed earlier and is not any more. Adds `listed` to the roster."""
        present = {identity.uuid: identity for identity in listed if identity.uuid}
        missing = [identity for uuid, identity in self._identities.items() if uuid not in present]
        self._identities |= present
        return tuple(identity.row(problem=NOT_LISTED) for identity in missing)


MAX_AGE_S = 3.0
"""Longest age of the process lists."""
_CHANGE_BYTES = 32 << 20
"""A change of used memory by this much means that processes came, went or grew: the lists are read again."""
_MAX_TRIES = 2
"""Number of times that lists are read for one sample until they agree with the memory read right after."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """The process lists, and the state in which they were read."""

    processes: tuple[GpuProcess, ...]
    read_at: float
    used_bytes: int | None
    agrees: bool
    """True if the processes hold no more than was used."""
    newly_unknown: bool
    """True if a process's memory is unknown, and was not in the previous lists."""


class Partition:
    """A whole GPU or a MIG slice, with its memory and processes."""

    def __init__(self, handle: NvmlHandle, identity: Identity) -> None:
        self.handle = handle
        self.identity = identity
        self._listing: _Listing | None = None

    def read(self, now: float) -> tuple[Memory, tuple[GpuProcess, ...]]:
        """Memory, and processes that together hold no more than is used, as far as two tries help.

        Args:
            now: seconds on a monotonic clock.

        Raises:
            NVMLError: The device is gone, or its memory cannot be read.
        """
        memory = self._memory()
        if self._is_due(memory, now):
            memory = self._refresh_lists(memory, now)
        return memory, self._listing.processes if self._listing else ()

    def _memory(self) -> Memory:
        return read_memory(self.handle, is_slice=self.identity.mig is not None)

    def _is_due(self, memory: Memory, now: float) -> bool:
        last = self._listing
        if last is None or now - last.read_at >= MAX_AGE_S or last.newly_unknown:
            return True
        if memory.used_bytes is None or last.used_bytes is None:
            return memory.used_bytes is not last.used_bytes
        outgrown = last.agrees and listed_bytes(last.processes) > memory.used_bytes
        return outgrown or abs(memory.used_bytes - last.used_bytes) >= _CHANGE_BYTES

    def _refresh_lists(self, memory: Memory, now: float) -> Memory:
        """Read the lists, then the memory: that order tolerates a process that grows meanwhile.

        One that shrinks meanwhile needs the second try. If a list fails, the earlier ones stay.
        """
        for _ in range(_MAX_TRIES):
            processes = read_processes(self.handle, memory.total_bytes)
            memory = self._memory()
            if processes is None:
                break
            agrees = memory.used_bytes is None or listed_bytes(processes) <= memory.used_bytes
            newly_unknown = not _unknown(processes) <= _unknown(
                self._listing.processes if self._listing else ()
            )
            self._listing = _Listing(processes, now, memory.used_bytes, agrees, newly_unknown)
            if agrees:
                break
        return memory


def _unknown(processes: tuple[GpuProcess, ...]) -> set[int]:
    return {process.pid for process in processes if process.used_bytes is None}


def _find_slices(whole: Partition, previous: Iterable[Partition]) -> tuple[Partition, ...] | None:
    """The slices by number, or `None` if the GPU is not divided. `previous` objects are reused.

    Raises:
        NVMLError: The GPU is gone.
    """
    mode: list[int] | None = whole.handle.try_call("nvmlDeviceGetMigMode")  # present, after the next reset
    if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return None
    capacity: int = whole.handle.try_call("nvmlDeviceGetMaxMigDeviceCount") or 0
    by_uuid = {partition.identity.uuid: partition for partition in previous}
    return tuple(partition for number in range(capacity) if (partition := _slice(whole, number, by_uuid)))


def _slice(whole: Partition, number: int, previous: dict[str, Partition]) -> Partition | None:
    """`None` if there is no slice with that number."""
    try:
        raw = whole.handle.call("nvmlDeviceGetMigDeviceHandleByIndex", number)
    except pynvml.NVMLError as error:
        if error.value in DEVICE_GONE:
            raise
        return None
    handle = NvmlHandle(raw)
    uuid = handle.try_call("nvmlDeviceGetUUID") or ""
    if partition := previous.get(uuid):
        partition.handle.raw, partition.identity = raw, replace(partition.identity, mig=number)
        return partition
    name = handle.try_call("nvmlDeviceGetName") or whole.identity.name
    return Partition(handle, Identity(whole.identity.index, number, uuid, name))


_CONDITION_AGE_S = 5.0
"""Longest age of slowly changing values. Also the pause before a lost device is tried again, which may take
long.
"""


class Gpu:
    """A GPU of the present NVML session. Caches what need not be read each time.

    Args:
        identity: its true index; UUID and name as last seen at this index, in case they cannot be read.
    """

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self._whole: Partition | None = None
        self._slices: tuple[Partition, ...] | None = None
        self._build: Fields = {}
        self._condition: Fields = {}
        self._condition_at = -math.inf
        self._problem = ""
        self._retry_at = -math.inf

    def read(self, now: float) -> tuple[GpuDevice, ...]:
        """A row for the GPU, or one per MIG slice. Never raises NVML errors: the rows then have a `problem`.

        Args:
            now: seconds on a monotonic clock.
        """
        if now < self._retry_at:
            return self._problem_rows(self._problem)
        try:
            return self._read(self._open(), now)
        except pynvml.NVMLError as error:
            self._problem = device_problem(error.value)
            if error.value in DEVICE_GONE:
                self._retry_at = now + _CONDITION_AGE_S
            if error.value in STALE_HANDLE:
                self._whole = None
            return self._problem_rows(self._problem)

    def _open(self) -> Partition:
        """The whole GPU, with a new handle if there is none: a reset makes older ones invalid."""
        if self._whole is None:
            handle = NvmlHandle(pynvml.nvmlDeviceGetHandleByIndex(self.identity.index))
            self.identity = replace(
                self.identity,
                uuid=handle.try_call("nvmlDeviceGetUUID") or self.identity.uuid,
                name=handle.try_call("nvmlDeviceGetName") or self.identity.name,
            )
            self._build = read_build(handle)
            self._condition_at = -math.inf
            self._whole = Partition(handle, self.identity)
        return self._whole

    def _read(self, whole: Partition, now: float) -> tuple[GpuDevice, ...]:
        if now - self._condition_at >= _CONDITION_AGE_S:
            self._condition = read_condition(whole.handle)
            self._slices = _find_slices(whole, self._slices or ())
            self._condition_at = now
        load = read_load(whole.handle)
        if self._slices is None:
            return (self._row(whole, load, now),)
        if not self._slices:
            return self._problem_rows(NO_SLICES)
        return tuple(self._slice_row(partition, load, now) for partition in self._slices)

    def _slice_row(self, partition: Partition, load: Fields, now: float) -> GpuDevice:
        try:
            return self._row(partition, load, now)
        except pynvml.NVMLError as error:
            self._condition_at = -math.inf  # it may have been taken away: they are listed anew
            return partition.identity.row(problem=device_problem(error.value))

    def _problem_rows(self, problem: str) -> tuple[GpuDevice, ...]:
        identities: Iterable[Identity] = [partition.identity for partition in self._slices or ()] or [
            self.identity
        ]
        return tuple(identity.row(problem=problem) for identity in identities)

    def _row(self, partition: Partition, load: Fields, now: float) -> GpuDevice:
        memory, processes = partition.read(now)
        return partition.identity.row(
            **memory._asdict(), **load, **self._condition, **self._build, processes=processes
        )
