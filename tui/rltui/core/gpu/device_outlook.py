"""Who holds and who will take how much of one device, at which time of a plan. Pure; no verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rltui.core.gpu.budget import (
    EngineMemory,
    MemoryUser,
    earlier_budget,
    engine_rule,
    kept_bytes,
    overhead_bytes,
    safe_utilization,
    share_bytes,
)
from rltui.core.gpu.report import GpuDevice
from rltui.core.text import GIB

MOST_OVERHEAD_BYTES = 4 * GIB
"""An engine that held more than that above its budget did so in another attempt than that of the budget."""


@dataclass(frozen=True, slots=True)
class DeviceOutlook:
    """One device whose memory can be read, and the components that have it."""

    device: GpuDevice
    usable_bytes: int
    """The total as CUDA has it."""
    free_bytes: int
    """Once all that the plan ends is gone, before anything starts."""
    users: tuple[MemoryUser, ...]
    """In start order."""

    def held_bytes(self, user: MemoryUser) -> int:
        """What a component that stays holds now; 0 for one that is stopped by the plan."""
        return 0 if user.stops else _held(self.device, user.component)

    def free_for(self, user: MemoryUser) -> int:
        """What is free as it starts: those before it in start order have then taken theirs."""
        before = self.users[: self.users.index(user)]
        return max(0, self.free_bytes - sum(self.takes_bytes(other) for other in before))

    def takes_bytes(self, user: MemoryUser) -> int:
        """What its start will take in the end, as far as is known; 0 for one that does not start."""
        if not user.starts:
            return 0
        if user.engine is not None:
            return self.engine_bytes(user, user.engine)
        return user.peak_bytes.get(self.device.key, 0)

    def engine_bytes(self, user: MemoryUser, engine: EngineMemory) -> int:
        """What NVML will show for an engine once it serves."""
        budget = share_bytes(self.usable_bytes, engine.utilization)
        overhead = self.overhead_bytes(user, engine)
        if engine.kv_cache_memory_bytes is None:
            return budget + overhead
        kept = kept_bytes(engine, self.usable_bytes, figures=user.figures, shape=user.shape)
        return (budget if kept is None else kept[0] + engine.kv_cache_memory_bytes) + overhead

    def overhead_bytes(self, user: MemoryUser, engine: EngineMemory) -> int:
        """Beside the budget: as in the last attempt where that was seen, else as the version's rule says."""
        figures, peak = user.figures, user.peak_bytes.get(self.device.key)
        budget = earlier_budget(figures, self.usable_bytes)
        if budget is not None and peak is not None and 0 <= peak - budget <= MOST_OVERHEAD_BYTES:
            return peak - budget
        return overhead_bytes(
            engine_rule(engine, figures),
            eager=engine.enforce_eager,
            graphs_bytes=figures.graphs_bytes if figures else None,
        )

    @property
    def trainers(self) -> tuple[MemoryUser, ...]:
        """Those that take what they need: trainers and the like, that run or will."""
        return tuple(
            user for user in self.users if user.engine is None and (user.starts or self.held_bytes(user))
        )

    @property
    def trainers_peak(self) -> int | None:
        """What they will need together; `None` where there are none, or one of them never ran here."""
        if not self.trainers or any(self.device.key not in user.peak_bytes for user in self.trainers):
            return None
        return self._trainers_bytes

    def left_beside(self, user: MemoryUser, engine: EngineMemory) -> int:
        """What the trainers can have beside this engine and everybody else."""
        return self._room(user) - self.engine_bytes(user, engine)

    def safe_utilization(self, user: MemoryUser, engine: EngineMemory) -> float | None:
        """Largest one that leaves the trainers their peak; `None` where none does, or that is not known."""
        if self.trainers_peak is None or engine.kv_cache_memory_bytes is not None:
            return None
        return safe_utilization(
            self.device,
            room_bytes=self._room(user),
            overhead_bytes=self.overhead_bytes(user, engine),
            trainer_bytes=self.trainers_peak,
        )

    @property
    def _trainers_bytes(self) -> int:
        key = self.device.key
        return sum(max(user.peak_bytes.get(key, 0), self.held_bytes(user)) for user in self.trainers)

    def _room(self, engine: MemoryUser) -> int:
        """For this engine and the trainers together."""
        others = [user for user in self.users if user.engine is not None and user is not engine]
        sharing = [engine, *self.trainers]
        held = sum(self.held_bytes(user) for user in sharing if not user.starts)
        return self.free_bytes + held - sum(self.takes_bytes(user) for user in others)


def device_outlook(
    device: GpuDevice, users: Sequence[MemoryUser], freed: Mapping[str, int]
) -> DeviceOutlook | None:
    """`None` where the device's memory cannot be read. `freed`: bytes by device key, given back besides."""
    usable, free = device.usable_bytes, device.free_bytes
    if not usable or free is None:
        return None
    stopped = sum(_held(device, user.component) for user in users if user.stops)
    return DeviceOutlook(
        device,
        usable,
        min(usable, free + stopped + freed.get(device.key, 0)),
        tuple(user for user in users if device.key in user.devices),
    )


def _held(device: GpuDevice, component: str) -> int:
    return sum(
        share.used_bytes
        for share in device.shares
        if share.owner == "component" and share.component == component
    )
