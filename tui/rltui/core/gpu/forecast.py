"""The memory on each device if components start with the config as it is. Pure.

Engines claim their budget at once, and hold it; trainers grow up to their peak (`facts/vllm.md`, Memory
budget). What a forecast says in words: `rltui.views.gpu.forecast`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from rltui.base.text import GIB
from rltui.core.gpu.budget import (
    EngineMemory,
    KvCache,
    largest_passing_utilization,
    utilization_within,
)
from rltui.core.gpu.report import ForecastVerdict, GpuDevice, GpuReservation
from rltui.core.gpu.training import TrainingNeed

MARGIN_BYTES = GIB
"""Memory to leave free beside engine and trainer: samples one second apart miss short peaks, and an
allocator that is nearly full fragments.
"""
_MOST_OVERHEAD_BYTES = 4 * GIB
"""An engine that held more above its budget did so in another attempt than that of the budget."""
_NOTHING_FREED: Mapping[str, int] = MappingProxyType({})
_WORST_FIRST = ("will_refuse", "no_kv_cache", "trainer_short", "trainer_tight", "unknown", "fits")
_LITTLE_FRAC = 0.2
"""A trainer of unknown need gets a warning below this share of a device. Weights, gradients and the
optimizer's state alone take sixteen bytes a parameter, and activations come on top.
"""
_DEFAULT_SHARED_UTILIZATION = 0.5
"""The common first choice for vLLM beside a trainer (`facts/prime-rl.md`, Devices)."""


@dataclass(frozen=True, slots=True)
class MemoryUser:
    """A component of the experiment that has devices."""

    component: str
    devices: tuple[str, ...]
    """`GpuDevice.key` of each device, in the component's own order."""
    starts: bool = False
    """It is, or would be, started now."""
    stops: bool = False
    """The memory that it holds now is freed before anything starts."""
    engine: EngineMemory | None = None
    """Set for an inference engine; a trainer or the like has none and takes what it needs."""
    peak_bytes: Mapping[str, int] = field(default_factory=dict)
    """Device key → most memory it held there in its last attempt."""
    training: TrainingNeed | None = None
    """The estimated need of a supervised trainer."""
    peak_note: str = ""
    """The difference between now and the attempt with the peak: `seq_len was 2048, is 4096`."""


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """One device while the components of a plan start one after another."""

    device: GpuDevice
    usable_bytes: int
    """The total as CUDA has it; 0 if its memory cannot be read."""
    free_bytes: int
    """Free memory after everything that the plan stops is gone, before anything starts."""
    users: tuple[MemoryUser, ...]
    """The components on the device, in start order."""

    def free_for(self, user: MemoryUser) -> int:
        """Free memory as it starts."""
        return max(0, self.free_bytes - sum(self.earlier_demands(user).values()))

    def earlier_demands(self, user: MemoryUser) -> Mapping[str, int]:
        """Component that starts before it → the memory that this one takes."""
        earlier = self.users[: self.users.index(user)]
        return {other.component: self.demand_bytes(other) for other in earlier}

    def demand_bytes(self, user: MemoryUser) -> int:
        """Memory that its start will take in the end, as far as is known; 0 for one that does not start."""
        if not user.starts:
            return 0
        if user.engine is None:
            return user.peak_bytes.get(self.device.key, 0)
        return self._engine_bytes(user, user.engine)

    def _engine_bytes(self, user: MemoryUser, engine: EngineMemory) -> int:
        """Memory that NVML will show for an engine once it serves."""
        return engine.serving_bytes(self.usable_bytes) + self.overhead_bytes(user, engine)

    def overhead_bytes(self, user: MemoryUser, engine: EngineMemory) -> int:
        """Memory beside the budget: as in the last attempt if that was seen, else by the version's rule."""
        peak, budget = user.peak_bytes.get(self.device.key), engine.earlier_budget_bytes(self.usable_bytes)
        if budget is not None and peak is not None and 0 <= peak - budget <= _MOST_OVERHEAD_BYTES:
            return peak - budget
        return engine.overhead_bytes

    def held_bytes(self, user: MemoryUser) -> int:
        """Current memory of a component that keeps running; 0 for one that the plan stops."""
        return 0 if user.stops else self.device.component_bytes.get(user.component, 0)

    @property
    def trainers(self) -> tuple[MemoryUser, ...]:
        """The components without a budget, trainers and the like, that run or will run."""
        return tuple(
            user for user in self.users if user.engine is None and (user.starts or self.held_bytes(user))
        )

    @property
    def trainers_peak(self) -> int | None:
        """Their need together; `None` if there are none, or one of them never ran here."""
        key, trainers = self.device.key, self.trainers
        if not trainers or any(key not in user.peak_bytes for user in trainers):
            return None
        return sum(max(user.peak_bytes[key], self.held_bytes(user)) for user in trainers)

    def left_bytes(self, user: MemoryUser, engine: EngineMemory) -> int:
        """Memory that remains for the trainers beside this engine and everybody else."""
        return max(0, self._room(user) - self._engine_bytes(user, engine))

    def safe_utilization(self, user: MemoryUser, engine: EngineMemory) -> float | None:
        """Largest one, rounded down to 0.01, that leaves the trainers their peak and `MARGIN_BYTES`; `None`
        if none does, or the peak is unknown.
        """
        peak = self.trainers_peak
        if peak is None or engine.kv_cache_memory_bytes is not None:
            return None
        room_bytes = self._room(user) - self.overhead_bytes(user, engine) - peak - MARGIN_BYTES
        return utilization_within(self.usable_bytes, room_bytes)

    def _room(self, engine: MemoryUser) -> int:
        """Memory for this engine and the trainers together."""
        others = [user for user in self.users if user.engine is not None and user is not engine]
        held_bytes = sum(self.held_bytes(user) for user in (engine, *self.trainers) if not user.starts)
        return self.free_bytes + held_bytes - sum(self.demand_bytes(user) for user in others)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The effect of a component's start on one device."""

    verdict: ForecastVerdict
    plan: DevicePlan
    user: MemoryUser
    cache: KvCache | None = None
    """That of an engine, if its size is known."""
    peak_bytes: int | None = None
    """Need of the trainers, or of this one; `None` if unknown."""
    safe: float | None = None
    """Largest utilization of the engine with which both fit."""
    suggested: float | None = None
    """A utilization that helps, if the verdict is bad."""
    neighbour: str = ""
    """The engine that runs beside a trainer that will not fit."""


def forecast(
    devices: Sequence[GpuDevice],
    users: Sequence[MemoryUser],
    *,
    freed: Mapping[str, int] = _NOTHING_FREED,
) -> tuple[Forecast, ...]:
    """One forecast for each component that starts and each of its devices, in the order given.

    A trainer that shares a device with an engine that starts, too, has none of its own there: the engine's
    speaks of both. Devices that are not in `devices` are passed over.

    Args:
        devices: as they are now.
        users: all components with devices, in start order; one process per device, so that tensor and data
            parallel engines have a budget on each of theirs.
        freed: device key → bytes that are freed besides those of `MemoryUser.stops`.
    """
    plans = {device.key: _device_plan(device, users, freed) for device in devices}
    pairs = ((plans[key], user) for user in users if user.starts for key in user.devices if key in plans)
    return tuple(one for plan, user in pairs if (one := _forecast(plan, user)) is not None)


def needs(devices: Sequence[GpuDevice], users: Sequence[MemoryUser]) -> tuple[GpuReservation, ...]:
    """The memory that each starting component will hold in the end, as reservations of no experiment yet.

    A size of 0 means unknown. Devices that cannot be read are left out.
    """
    reservations = []
    for device in devices:
        plan = _device_plan(device, users, _NOTHING_FREED)
        for user in plan.users if plan.usable_bytes else ():
            if user.starts:
                # a rough estimate for a trainer that never ran here
                trained_bytes = user.training.estimate_bytes() if user.training is not None else None
                size = plan.demand_bytes(user) or trained_bytes or 0
                reservations.append(
                    GpuReservation(
                        experiment="",
                        component=user.component,
                        device=device.key,
                        size_bytes=min(size, plan.usable_bytes),
                    )
                )
    return tuple(reservations)


def refused_start(devices: Iterable[GpuDevice], engine: EngineMemory) -> Forecast | None:
    """The forecast for the first of the devices on which an engine that starts this moment finds too little
    free; `None` if it starts on all.

    What others have reserved is free still. A device that cannot be read blocks nothing: the engine itself
    will tell.
    """
    for device in devices:
        user = MemoryUser(engine.component, (device.key,), starts=True, engine=engine)
        for one in forecast([device.replace(claims=())], [user]):
            if one.verdict == "will_refuse":
                return one
    return None


def has_little_room(device: GpuDevice) -> bool:
    """Too little is free there for a trainer of unknown need: a warning is due."""
    free, usable = device.unclaimed_bytes, device.usable_bytes
    return free is not None and usable is not None and free < _LITTLE_FRAC * usable


def worst_per_component(forecasts: Iterable[Forecast]) -> tuple[Forecast, ...]:
    """The worst forecast of each component, in the order given; of equal ones that of its first device."""
    worst: dict[str, Forecast] = {}
    for one in forecasts:
        worst_yet = worst.setdefault(one.user.component, one)
        if _WORST_FIRST.index(one.verdict) < _WORST_FIRST.index(worst_yet.verdict):
            worst[one.user.component] = one
    return tuple(worst.values())


def _device_plan(device: GpuDevice, users: Sequence[MemoryUser], freed: Mapping[str, int]) -> DevicePlan:
    usable, free = device.usable_bytes, device.unclaimed_bytes
    if not usable or free is None:
        usable = free = 0
    held = device.component_bytes
    stopped = sum(held.get(user.component, 0) for user in users if user.stops)
    return DevicePlan(
        device,
        usable,
        min(usable, free + stopped + freed.get(device.key, 0)),
        tuple(user for user in users if device.key in user.devices),
    )


def _forecast(plan: DevicePlan, user: MemoryUser) -> Forecast | None:
    """The forecast for one component; `None` for a trainer that the one for an engine covers, too."""
    if not plan.usable_bytes:
        return Forecast("unknown", plan, user)
    if user.engine is not None:
        return _of_engine(plan, user, user.engine)
    if any(other.engine is not None and other.starts for other in plan.users):
        return None
    return _of_trainer(plan, user)


def _of_engine(plan: DevicePlan, user: MemoryUser, engine: EngineMemory) -> Forecast:
    """With the first problem that the engine's start will meet."""
    peak, remaining = plan.trainers_peak, plan.left_bytes(user, engine)
    verdict: ForecastVerdict = "fits"
    suggested: float | None = None
    safe, cache = plan.safe_utilization(user, engine), engine.kv_cache(plan.usable_bytes)
    # vLLM starts only if its whole budget is free, even if it would need less
    if plan.free_for(user) < engine.budget_bytes(plan.usable_bytes):
        verdict, suggested = "will_refuse", _start_suggestion(plan, user, engine)
    elif cache is not None and not cache.suffices:
        # the smallest with room for one request, if it passes and leaves the trainers their peak
        most = _start_suggestion(plan, user, engine)
        above = range(int(engine.utilization * 100) + 1, round(100 * most) + 1) if most else ()
        verdict = "no_kv_cache"
        suggested = next((percent / 100 for percent in above if _viable(plan, engine, percent / 100)), None)
    elif peak is not None and peak > remaining:
        verdict, suggested = "trainer_short", _viable(plan, engine, safe)
    elif plan.trainers and peak is None and remaining < _LITTLE_FRAC * plan.usable_bytes:
        verdict = "trainer_tight"
        # a first value; none if the engine asks for less already
        if engine.utilization > _DEFAULT_SHARED_UTILIZATION and engine.kv_cache_memory_bytes is None:
            suggested = _viable(plan, engine, _DEFAULT_SHARED_UTILIZATION)
    return Forecast(verdict, plan, user, cache, peak, safe, suggested)


def _of_trainer(plan: DevicePlan, user: MemoryUser) -> Forecast:
    """For a component without a budget that no starting engine shares the device with."""
    free, peak = plan.free_for(user), user.peak_bytes.get(plan.device.key)
    if peak is None:
        training = user.training
        is_tight = training.is_far_too_much(free) if training else free < _LITTLE_FRAC * plan.usable_bytes
        return Forecast("trainer_tight" if is_tight else "unknown", plan, user)
    if peak <= free:
        return Forecast("fits", plan, user, peak_bytes=peak)
    for other in plan.users:
        if other.engine and plan.held_bytes(other):
            safe = _viable(plan, other.engine, plan.safe_utilization(other, other.engine))
            return Forecast(
                "trainer_short",
                plan,
                user,
                peak_bytes=peak,
                safe=safe,
                suggested=safe,
                neighbour=other.component,
            )
    return Forecast("trainer_short", plan, user, peak_bytes=peak)


def _start_suggestion(plan: DevicePlan, user: MemoryUser, engine: EngineMemory) -> float | None:
    """A utilization that passes the start check and leaves the trainers their peak, if that is known."""
    passing = largest_passing_utilization(plan.usable_bytes, plan.free_for(user))
    if passing is None or plan.trainers_peak is None or engine.kv_cache_memory_bytes is not None:
        return _viable(plan, engine, passing)
    safe = plan.safe_utilization(user, engine)
    return None if safe is None else _viable(plan, engine, min(passing, safe))


def _viable(plan: DevicePlan, engine: EngineMemory, utilization: float | None) -> float | None:
    """`utilization`, if it leaves room for a KV cache as far as is known."""
    if utilization is None:
        return None
    cache = replace(engine, utilization=utilization).kv_cache(plan.usable_bytes)
    return utilization if cache is None or cache.suffices else None
