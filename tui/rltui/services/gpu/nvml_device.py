"""One GPU through NVML, whole or in MIG slices. Blocking; needs an initialised NVML."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pynvml

from rltui.core.gpu.report import GpuDevice, GpuProcess
from rltui.services.gpu.nvml_handle import (
    DEVICE_GONE,
    NO_SLICES,
    NOT_LISTED,
    STALE_HANDLE,
    Build,
    Condition,
    Handle,
    Load,
    Memory,
    device_problem,
    held_bytes,
    read_build,
    read_condition,
    read_load,
    read_memory,
    read_processes,
    within,
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Names a GPU or a MIG slice. Texts are empty where the driver does not give them."""

    index: int
    mig: int | None = None
    """Number of the slice within its GPU; `None` for a whole GPU."""
    uuid: str = ""
    name: str = ""


def _problem_row(identity: Identity, problem: str) -> GpuDevice:
    return GpuDevice(
        index=identity.index, mig=identity.mig, uuid=identity.uuid, name=identity.name, problem=problem
    )


class Roll:
    """Every GPU that was ever listed, so that none vanishes without a word.

    Outlives NVML sessions: a new one counts anew, and may leave out a GPU that fell off the bus.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Identity] = {}

    def expected(self, count: int) -> tuple[Identity, ...]:
        """Who the `count` listed GPUs probably are: as before, unless their number is another."""
        seen = {identity.index: identity for identity in self._seen.values()}
        known = seen if len(seen) == count else {}
        return tuple(known.get(index, Identity(index)) for index in range(count))

    def missing_rows(self, listed: Iterable[Identity]) -> tuple[GpuDevice, ...]:
        """One for each GPU that was listed earlier and is not any more. Remembers those that are."""
        present = {identity.uuid: identity for identity in listed if identity.uuid}
        gone = [identity for uuid, identity in self._seen.items() if uuid not in present]
        self._seen |= present
        return tuple(_problem_row(identity, NOT_LISTED) for identity in gone)


MAX_AGE_S = 3.0
"""Of the process lists."""
_CHANGE_BYTES = 32 << 20
"""When used memory has changed by this much, somebody came or went or took more: the lists are read again."""
_TRIES = 2
"""How often lists are read for one sample until they agree with the memory read right after them."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """The process lists, and beside what they were read."""

    processes: tuple[GpuProcess, ...]
    read_at: float
    used_bytes: int | None
    agrees: bool
    """The processes hold no more than was used."""
    newly_unknown: bool
    """A process's memory is unknown, and was not unknown in the lists before these."""


class Partition:
    def __init__(self, handle: Handle, identity: Identity) -> None:
        self.handle = handle
        self.identity = identity
        self._listing: _Listing | None = None

    def read(self, now: float) -> tuple[Memory, tuple[GpuProcess, ...]]:
        """Memory, and processes that together hold no more than its `used`.

        Args:
            now: seconds on a monotonic clock.

        Raises:
            NVMLError: The device is gone, or its memory cannot be read.
        """
        memory = self._memory()
        if self._is_due(memory, now):
            memory = self._list_anew(memory, now)
        return memory, within(self._listing.processes, memory.used) if self._listing else ()

    def _memory(self) -> Memory:
        return read_memory(self.handle, is_slice=self.identity.mig is not None)

    def _is_due(self, memory: Memory, now: float) -> bool:
        last = self._listing
        if last is None or now - last.read_at >= MAX_AGE_S or last.newly_unknown:
            return True
        if memory.used is None or last.used_bytes is None:
            return memory.used is not last.used_bytes
        outgrown = last.agrees and held_bytes(last.processes) > memory.used
        return outgrown or abs(memory.used - last.used_bytes) >= _CHANGE_BYTES

    def _list_anew(self, memory: Memory, now: float) -> Memory:
        """Read the lists, then the memory: a process that grows meanwhile is seen to by that order.

        One that shrinks meanwhile is not, hence the second try. Where a list fails the earlier ones stay.
        """
        for _ in range(_TRIES):
            processes = read_processes(self.handle, memory.total)
            memory = self._memory()
            if processes is None:
                break
            agrees = memory.used is None or held_bytes(processes) <= memory.used
            newly_unknown = not _unknown(processes) <= _unknown(
                self._listing.processes if self._listing else ()
            )
            self._listing = _Listing(processes, now, memory.used, agrees, newly_unknown)
            if agrees:
                break
        return memory


def _unknown(processes: tuple[GpuProcess, ...]) -> set[int]:
    return {process.pid for process in processes if process.used_bytes is None}


def _find_slices(whole: Partition, known: Iterable[Partition]) -> tuple[Partition, ...] | None:
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


_SLOW_S = 5.0
"""How old the slowly changing figures may be. Also the pause before a device that is gone is tried again:
that may take long."""


class Gpu:
    """A GPU of the present NVML session. Remembers what need not be read each time.

    Args:
        identity: its index for sure; UUID and name as last seen at this index, in case they cannot be read.
    """

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self._whole: Partition | None = None
        self._slices: tuple[Partition, ...] | None = None
        self._build = Build()
        self._condition = Condition()
        self._condition_at = -math.inf
        self._problem = ""
        self._retry_at = -math.inf

    def read(self, now: float) -> tuple[GpuDevice, ...]:
        """A row for the GPU, or one per MIG slice. Never fails because of NVML: the rows then say `problem`.

        Args:
            now: seconds on a monotonic clock.
        """
        if now < self._retry_at:
            return self._in_trouble(self._problem)
        try:
            return self._read(self._opened(), now)
        except pynvml.NVMLError as error:
            self._problem = device_problem(error.value)
            if error.value in DEVICE_GONE:
                self._retry_at = now + _SLOW_S
            if error.value in STALE_HANDLE:
                self._whole = None
            return self._in_trouble(self._problem)

    def _opened(self) -> Partition:
        """The whole GPU, by a new handle where there is none: a reset makes older ones invalid."""
        if self._whole is None:
            handle = Handle(pynvml.nvmlDeviceGetHandleByIndex(self.identity.index))
            self.identity = replace(
                self.identity,
                uuid=handle.ask("nvmlDeviceGetUUID") or self.identity.uuid,
                name=handle.ask("nvmlDeviceGetName") or self.identity.name,
            )
            self._build = read_build(handle)
            self._condition_at = -math.inf
            self._whole = Partition(handle, self.identity)
        return self._whole

    def _read(self, whole: Partition, now: float) -> tuple[GpuDevice, ...]:
        if now - self._condition_at >= _SLOW_S:
            self._condition = read_condition(whole.handle)
            self._slices = _find_slices(whole, self._slices or ())
            self._condition_at = now
        load = read_load(whole.handle)
        if self._slices is None:
            return (self._row(whole, load, now),)
        if not self._slices:
            return self._in_trouble(NO_SLICES)
        return tuple(self._slice_row(part, load, now) for part in self._slices)

    def _slice_row(self, part: Partition, load: Load, now: float) -> GpuDevice:
        try:
            return self._row(part, load, now)
        except pynvml.NVMLError as error:
            self._condition_at = -math.inf  # it may have been taken away: they are listed anew
            return _problem_row(part.identity, device_problem(error.value))

    def _in_trouble(self, problem: str) -> tuple[GpuDevice, ...]:
        identities: Iterable[Identity] = [part.identity for part in self._slices or ()] or [self.identity]
        return tuple(_problem_row(identity, problem) for identity in identities)

    def _row(self, part: Partition, load: Load, now: float) -> GpuDevice:
        memory, processes = part.read(now)
        return GpuDevice(
            index=part.identity.index,
            mig=part.identity.mig,
            uuid=part.identity.uuid,
            name=part.identity.name,
            memory_kind=memory.kind,
            total_bytes=memory.total,
            used_bytes=memory.used,
            free_bytes=memory.free,
            reserved_bytes=memory.reserved,
            utilization=load.utilization,
            memory_utilization=load.memory_utilization,
            power_w=load.power_w,
            power_limit_w=self._condition.power_limit_w,
            temperature_c=self._condition.temperature_c,
            sm_clock_mhz=load.sm_clock_mhz,
            max_sm_clock_mhz=self._build.max_sm_clock_mhz,
            memory_clock_mhz=self._condition.memory_clock_mhz,
            throttle=self._condition.throttle,
            ecc_errors=self._condition.ecc_errors,
            pcie_generation=self._condition.pcie_generation,
            pcie_width=self._condition.pcie_width,
            nvlinks=self._build.nvlinks,
            processes=processes,
        )
