"""One GPU through NVML, whole or in MIG slices. Blocking; needs an initialised NVML.

Importing this module imports `pynvml`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import pynvml

from rltui.core.gpu.report import GpuDevice
from rltui.services.nvml_condition import Build, Condition, Load, read_build, read_condition, read_load
from rltui.services.nvml_errors import DEVICE_GONE, NO_SLICES, STALE_HANDLE, device_problem
from rltui.services.nvml_handle import Handle
from rltui.services.nvml_identity import Identity, problem_row
from rltui.services.nvml_partition import Partition
from rltui.services.nvml_slices import find_slices

SLOW_S = 5.0
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
                self._retry_at = now + SLOW_S
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
        if now - self._condition_at >= SLOW_S:
            self._condition = read_condition(whole.handle)
            self._slices = find_slices(whole, self._slices or ())
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
            return problem_row(part.identity, device_problem(error.value))

    def _in_trouble(self, problem: str) -> tuple[GpuDevice, ...]:
        identities: Iterable[Identity] = [part.identity for part in self._slices or ()] or [self.identity]
        return tuple(problem_row(identity, problem) for identity in identities)

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
