"""The memory on each device if components start with the config as it is. Pure.

Engines claim their budget at once, and hold it; trainers grow up to their peak (`facts/vllm.md`, Memory
budget).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from rltui.core.gpu.budget import (
    CONTEXT_BYTES,
    MARGIN_BYTES,
    EngineMemory,
    KvCache,
    MemoryUser,
    earlier_budget,
    engine_rule,
    kv_cache,
    largest_passing_utilization,
    non_cache_bytes,
    overhead_bytes,
    passes_start_check,
    safe_utilization,
    share_bytes,
)
from rltui.core.gpu.forecast_text import (
    EngineFit,
    change_notes,
    trainer_alone,
    trainer_alone_short,
    trainer_unseen,
    unreadable,
)
from rltui.core.gpu.report import GpuDevice, GpuReservation, MemoryVerdict, Verdict
from rltui.core.gpu.reservations import reservation_text
from rltui.core.text import GIB

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


def forecast(
    devices: Sequence[GpuDevice],
    users: Sequence[MemoryUser],
    *,
    freed: Mapping[str, int] = _NOTHING_FREED,
) -> tuple[MemoryVerdict, ...]:
    """One verdict for each component that starts and each of its devices, in the order given.

    A trainer that shares a device with an engine that starts, too, has none of its own there: the engine's
    speaks of both. Devices that are not in `devices` are passed over.

    Args:
        devices: as they are now.
        users: all components with devices, in start order; one process per device, so that tensor and data
            parallel engines have a budget on each of theirs.
        freed: device key → bytes that are freed besides those of `MemoryUser.stops`.
    """
    by_key = {device.key: device for device in devices}
    plans = {key: _device_plan(device, users, freed) for key, device in by_key.items()}
    pairs = ((user, key) for user in users if user.starts for key in user.devices if key in by_key)
    verdicts = (
        _with_reservations(_verdict(by_key[key], plans[key], user), by_key[key]) for user, key in pairs
    )
    return tuple(verdict for verdict in verdicts if verdict is not None)


def needs(devices: Sequence[GpuDevice], users: Sequence[MemoryUser]) -> tuple[GpuReservation, ...]:
    """The memory that each starting component will hold in the end, as reservations of no experiment yet.

    A size of 0 means unknown. Devices that cannot be read are left out.
    """
    reservations = []
    for device in devices:
        plan = _device_plan(device, users, _NOTHING_FREED)
        for user in plan.users if plan is not None else ():
            if plan is not None and user.starts:
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


def _with_reservations(verdict: MemoryVerdict | None, device: GpuDevice) -> MemoryVerdict | None:
    if verdict is None or not (reserved_text := reservation_text(device.claims)):
        return verdict
    text = f"{verdict.text} ({reserved_text})" if verdict.is_bad else verdict.text
    return verdict.model_copy(update={"text": text, "notes": (*verdict.notes, reserved_text)})


def has_little_room(device: GpuDevice) -> bool:
    """Too little is free there for a trainer of unknown need: a warning is due."""
    free, usable = device.unclaimed_bytes, device.usable_bytes
    return free is not None and usable is not None and free < _LITTLE_FRAC * usable


def worst_per_component(verdicts: Iterable[MemoryVerdict]) -> tuple[MemoryVerdict, ...]:
    """The worst verdict of each component, in the order given; of equal ones that of its first device."""
    worst: dict[str, MemoryVerdict] = {}
    for verdict in verdicts:
        worst_yet = worst.setdefault(verdict.component, verdict)
        if _WORST_FIRST.index(verdict.verdict) < _WORST_FIRST.index(worst_yet.verdict):
            worst[verdict.component] = verdict
    return tuple(worst.values())


@dataclass(frozen=True, slots=True)
class _DevicePlan:
    """Current and future memory use on one device that can be read."""

    device: GpuDevice
    usable_bytes: int
    """The total as CUDA has it."""
    free_bytes: int
    """Free memory after everything that the plan stops is gone, before anything starts."""
    users: tuple[MemoryUser, ...]
    """The components on the device, in start order."""

    def held_bytes(self, user: MemoryUser) -> int:
        """Current memory of a component that keeps running; 0 for one that the plan stops."""
        return 0 if user.stops else _held_bytes(self.device, user.component)

    def earlier_users(self, user: MemoryUser) -> tuple[MemoryUser, ...]:
        """The components whose memory is taken when it starts."""
        return self.users[: self.users.index(user)]

    def free_for(self, user: MemoryUser) -> int:
        return max(0, self.free_bytes - sum(self.demand_bytes(other) for other in self.earlier_users(user)))

    def demand_bytes(self, user: MemoryUser) -> int:
        """Memory that its start will take in the end, as far as is known; 0 for one that does not start."""
        if not user.starts:
            return 0
        if user.engine is not None:
            return self._engine_bytes(user, user.engine)
        return user.peak_bytes.get(self.device.key, 0)

    def _engine_bytes(self, user: MemoryUser, engine: EngineMemory) -> int:
        """Memory that NVML will show for an engine once it serves."""
        budget = share_bytes(self.usable_bytes, engine.utilization)
        overhead = self.overhead_bytes(user, engine)
        if engine.kv_cache_memory_bytes is None:
            return budget + overhead
        non_cache = non_cache_bytes(engine, self.usable_bytes, user.measurements, user.shape)
        return (budget if non_cache is None else non_cache[0] + engine.kv_cache_memory_bytes) + overhead

    def overhead_bytes(self, user: MemoryUser, engine: EngineMemory) -> int:
        """Memory beside the budget: as in the last attempt if that was seen, else by the version's rule."""
        measurements, peak = user.measurements, user.peak_bytes.get(self.device.key)
        budget = earlier_budget(measurements, self.usable_bytes)
        if budget is not None and peak is not None and 0 <= peak - budget <= _MOST_OVERHEAD_BYTES:
            return peak - budget
        return overhead_bytes(
            engine_rule(engine, measurements),
            eager=engine.enforce_eager,
            graphs_bytes=measurements.graphs_bytes if measurements else None,
        )

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

    def bytes_for_trainers(self, user: MemoryUser, engine: EngineMemory) -> int:
        """Memory that remains for the trainers beside this engine and everybody else."""
        return max(0, self._room(user) - self._engine_bytes(user, engine))

    def safe_utilization(self, user: MemoryUser, engine: EngineMemory) -> float | None:
        """Largest one that leaves the trainers their peak; `None` if none does, or the peak is unknown."""
        peak = self.trainers_peak
        if peak is None or engine.kv_cache_memory_bytes is not None:
            return None
        return safe_utilization(
            self.device,
            room_bytes=self._room(user),
            overhead_bytes=self.overhead_bytes(user, engine),
            trainer_bytes=peak,
        )

    def _room(self, engine: MemoryUser) -> int:
        """Memory for this engine and the trainers together."""
        others = [user for user in self.users if user.engine is not None and user is not engine]
        held_bytes = sum(self.held_bytes(user) for user in (engine, *self.trainers) if not user.starts)
        return self.free_bytes + held_bytes - sum(self.demand_bytes(user) for user in others)


def _device_plan(
    device: GpuDevice, users: Sequence[MemoryUser], freed: Mapping[str, int]
) -> _DevicePlan | None:
    """The plan of a device; `None` if its memory cannot be read."""
    usable, free = device.usable_bytes, device.unclaimed_bytes
    if not usable or free is None:
        return None
    stopped = sum(_held_bytes(device, user.component) for user in users if user.stops)
    return _DevicePlan(
        device,
        usable,
        min(usable, free + stopped + freed.get(device.key, 0)),
        tuple(user for user in users if device.key in user.devices),
    )


def _held_bytes(device: GpuDevice, component: str) -> int:
    return sum(
        share.used_bytes
        for share in device.shares
        if share.owner == "component" and share.component == component
    )


def _verdict(device: GpuDevice, plan: _DevicePlan | None, user: MemoryUser) -> MemoryVerdict | None:
    """The verdict on one component; `None` for a trainer that the verdict on an engine covers, too."""
    if plan is None:
        return MemoryVerdict(
            verdict="unknown",
            text=unreadable(device, user.component),
            component=user.component,
            device=device.index,
            uuid=device.uuid,
        )
    if user.engine is not None:
        return _on_engine(plan, user, user.engine)
    if any(other.engine is not None and other.starts for other in plan.users):
        return None
    return _on_trainer(plan, user)


class _Judgement(NamedTuple):
    """The parts of a verdict that are not sizes."""

    verdict: Verdict
    text: str
    suggested: float | None = None
    notes: tuple[str, ...] = ()


def _on_engine(plan: _DevicePlan, user: MemoryUser, engine: EngineMemory) -> MemoryVerdict:
    cache = kv_cache(engine, plan.usable_bytes, user.measurements, user.shape)
    fit = EngineFit(
        device=plan.device,
        user=user,
        engine=engine,
        usable_bytes=plan.usable_bytes,
        free_bytes=plan.free_for(user),
        budget_bytes=share_bytes(plan.usable_bytes, engine.utilization),
        overhead_bytes=plan.overhead_bytes(user, engine),
        left_bytes=plan.bytes_for_trainers(user, engine),
        trainers=plan.trainers,
        trainers_peak=plan.trainers_peak,
        stopped=frozenset(other.component for other in plan.users if other.stops),
        earlier_demands=tuple(
            (other.component, plan.demand_bytes(other)) for other in plan.earlier_users(user)
        ),
    )
    safe = plan.safe_utilization(user, engine)
    judgement = _judge(plan, fit, cache, safe)
    return MemoryVerdict(
        verdict=judgement.verdict,
        text=judgement.text,
        component=user.component,
        device=plan.device.index,
        uuid=plan.device.uuid,
        total_bytes=plan.usable_bytes,
        free_bytes=fit.free_bytes,
        budget_bytes=fit.budget_bytes,
        utilization=engine.utilization,
        left_bytes=fit.left_bytes,
        peak_bytes=fit.trainers_peak,
        safe_utilization=safe,
        suggested_utilization=judgement.suggested,
        kv_cache_tokens=cache.tokens if cache else None,
        kv_cache_requests=cache.requests if cache else None,
        notes=(*judgement.notes, *fit.user_notes(), *(cache.notes if cache else ())),
    )


def _judge(plan: _DevicePlan, fit: EngineFit, cache: KvCache | None, safe: float | None) -> _Judgement:
    """The first problem that the engine's start will meet."""
    user, engine, peak, remaining = fit.user, fit.engine, fit.trainers_peak, fit.left_bytes
    if not passes_start_check(fit.free_bytes, fit.budget_bytes):
        suggested = _start_suggestion(plan, user, engine)
        return _Judgement("will_refuse", fit.will_refuse(suggested), suggested, (fit.refusal_note(),))
    if cache is not None and not cache.suffices:
        # the smallest with room for one request, if it passes and leaves the trainers their peak
        most = _start_suggestion(plan, user, engine)
        above = range(int(engine.utilization * 100) + 1, round(100 * most) + 1) if most else ()
        suggested = next(
            (percent / 100 for percent in above if _viable(plan, user, engine, percent / 100)), None
        )
        return _Judgement("no_kv_cache", fit.no_kv_cache(cache, suggested), suggested)
    if peak is not None and peak > remaining:
        suggested = _viable(plan, user, engine, safe)
        return _Judgement("trainer_short", fit.trainer_short(peak, suggested), suggested)
    if fit.trainers and peak is None and remaining < _LITTLE_FRAC * plan.usable_bytes:
        suggested = _default_share(plan, user, engine)
        return _Judgement("trainer_tight", fit.trainer_tight(suggested), suggested)
    notes = []
    if fit.free_bytes - fit.budget_bytes < CONTEXT_BYTES:
        notes.append(fit.close_start())
    if peak is not None and remaining - peak < MARGIN_BYTES:
        notes.append(fit.close_peak(peak))
    return _Judgement("fits", fit.fits(), notes=tuple(notes))


def _on_trainer(plan: _DevicePlan, user: MemoryUser) -> MemoryVerdict:
    """The verdict on a component without a budget that no starting engine shares the device with."""
    free, peak = plan.free_for(user), user.peak_bytes.get(plan.device.key)
    safe = None
    if peak is None and user.training is not None:
        judgement = _Judgement(
            "trainer_tight" if user.training.is_far_too_much(free) else "unknown",
            trainer_unseen(plan.device, user.component, user.training, free_bytes=free),
        )
    elif peak is None or peak <= free:
        is_tight = user.training is None and free < _LITTLE_FRAC * plan.usable_bytes
        judgement = _Judgement(
            "fits" if peak is not None else "trainer_tight" if is_tight else "unknown",
            trainer_alone(plan.device, user.component, free_bytes=free, peak_bytes=peak),
        )
    else:
        engines = [(other, other.engine) for other in plan.users if other.engine and plan.held_bytes(other)]
        neighbour = ""
        for other, engine in engines[:1]:
            neighbour = other.component
            safe = _viable(plan, other, engine, plan.safe_utilization(other, engine))
        text = trainer_alone_short(
            plan.device, user, free_bytes=free, peak_bytes=peak, engine=neighbour, suggested=safe
        )
        judgement = _Judgement("trainer_short", text, safe)
    return MemoryVerdict(
        verdict=judgement.verdict,
        text=judgement.text,
        component=user.component,
        device=plan.device.index,
        uuid=plan.device.uuid,
        total_bytes=plan.usable_bytes,
        free_bytes=free,
        left_bytes=free,
        peak_bytes=peak,
        safe_utilization=safe,
        suggested_utilization=judgement.suggested,
        notes=change_notes([user]),
    )


def _default_share(plan: _DevicePlan, user: MemoryUser, engine: EngineMemory) -> float | None:
    """A first value if the trainer's need is unknown; `None` if the engine asks for less already."""
    if engine.utilization <= _DEFAULT_SHARED_UTILIZATION or engine.kv_cache_memory_bytes is not None:
        return None
    return _viable(plan, user, engine, _DEFAULT_SHARED_UTILIZATION)


def _start_suggestion(plan: _DevicePlan, user: MemoryUser, engine: EngineMemory) -> float | None:
    """A utilization that passes the start check and leaves the trainers their peak, if that is known."""
    passing = largest_passing_utilization(plan.device, plan.free_for(user))
    if passing is None or plan.trainers_peak is None or engine.kv_cache_memory_bytes is not None:
        return _viable(plan, user, engine, passing)
    safe = plan.safe_utilization(user, engine)
    return None if safe is None else _viable(plan, user, engine, min(passing, safe))


def _viable(
    plan: _DevicePlan, user: MemoryUser, engine: EngineMemory, utilization: float | None
) -> float | None:
    """`utilization`, if it leaves room for a KV cache as far as is known."""
    if utilization is None:
        return None
    engine_then = replace(engine, utilization=utilization)
    cache = kv_cache(engine_then, plan.usable_bytes, user.measurements, user.shape)
    return utilization if cache is None or cache.suffices else None
