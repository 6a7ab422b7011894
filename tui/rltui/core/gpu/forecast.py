"""What will happen on each device if components start with the config as it is. Pure.

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
    kept_bytes,
    kv_cache,
    largest_passing_utilization,
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
"""An engine that held more than that above its budget did so in another attempt than that of the budget."""
_NOTHING_FREED: Mapping[str, int] = MappingProxyType({})
_WORST_FIRST = ("will_refuse", "no_kv_cache", "trainer_short", "trainer_tight", "unknown", "fits")
_LITTLE_FRAC = 0.2
"""Of a device: a trainer of unknown need that is left less is worth a warning. Weights, gradients and the
optimizer's state alone take sixteen bytes a parameter, and activations come on top."""
_USUAL_SHARED_UTILIZATION = 0.5
"""What people begin with where a trainer shares the device with vLLM (`facts/prime-rl.md`, Devices)."""


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
        users: all components with devices, in start order; one process per device each, so that tensor and
            data parallel engines have a budget on each of theirs.
        freed: bytes by device key that are given back besides what `MemoryUser.stops` gives back.
    """
    by_key = {device.key: device for device in devices}
    plans = {key: _device_plan(device, users, freed) for key, device in by_key.items()}
    pairs = ((user, key) for user in users if user.starts for key in user.devices if key in by_key)
    verdicts = (_with_claims(_verdict(by_key[key], plans[key], user), by_key[key]) for user, key in pairs)
    return tuple(verdict for verdict in verdicts if verdict is not None)


def needs(devices: Sequence[GpuDevice], users: Sequence[MemoryUser]) -> tuple[GpuReservation, ...]:
    """What each component that starts will hold of each of its devices in the end, as claims of nobody yet.

    A size of 0 where nothing is known of that. Devices that cannot be read are left out.
    """
    claims = []
    for device in devices:
        plan = _device_plan(device, users, _NOTHING_FREED)
        for user in plan.users if plan is not None else ():
            if plan is not None and user.starts:
                size = plan.takes_bytes(user) or _trained_bytes(user)
                claim = GpuReservation(experiment="", component=user.component, device=device.key)
                claims.append(claim.model_copy(update={"size_bytes": min(size, plan.usable_bytes)}))
    return tuple(claims)


def _trained_bytes(user: MemoryUser) -> int:
    """By a rough figure, of a trainer that never ran here."""
    return (user.training.estimate_bytes() if user.training is not None else None) or 0


def _with_claims(verdict: MemoryVerdict | None, device: GpuDevice) -> MemoryVerdict | None:
    if verdict is None or not (words := reservation_text(device.claims)):
        return verdict
    text = f"{verdict.text} ({words})" if verdict.is_bad else verdict.text
    return verdict.model_copy(update={"text": text, "notes": (*verdict.notes, words)})


def has_little_room(device: GpuDevice) -> bool:
    """So little is free there that a trainer of unknown need is worth a warning."""
    free, usable = device.unclaimed_bytes, device.usable_bytes
    return free is not None and usable is not None and free < _LITTLE_FRAC * usable


def worst_per_component(verdicts: Iterable[MemoryVerdict]) -> tuple[MemoryVerdict, ...]:
    """One for each component, in the order given: its worst, and of equal ones that of its first device."""
    worst: dict[str, MemoryVerdict] = {}
    for verdict in verdicts:
        known = worst.setdefault(verdict.component, verdict)
        if _WORST_FIRST.index(verdict.verdict) < _WORST_FIRST.index(known.verdict):
            worst[verdict.component] = verdict
    return tuple(worst.values())


@dataclass(frozen=True, slots=True)
class _DevicePlan:
    """One device whose memory can be read: who holds and who will take how much of it."""

    device: GpuDevice
    usable_bytes: int
    """The total as CUDA has it."""
    free_bytes: int
    """Once all that the plan ends is gone, before anything starts."""
    users: tuple[MemoryUser, ...]
    """Those that have the device, in start order."""

    def held_bytes(self, user: MemoryUser) -> int:
        """What a component that stays holds now; 0 for one that is stopped by the plan."""
        return 0 if user.stops else _held(self.device, user.component)

    def before(self, user: MemoryUser) -> tuple[MemoryUser, ...]:
        """Those that have taken theirs when it starts."""
        return self.users[: self.users.index(user)]

    def free_for(self, user: MemoryUser) -> int:
        return max(0, self.free_bytes - sum(self.takes_bytes(other) for other in self.before(user)))

    def takes_bytes(self, user: MemoryUser) -> int:
        """What its start will take in the end, as far as is known; 0 for one that does not start."""
        if not user.starts:
            return 0
        if user.engine is not None:
            return self._engine_bytes(user, user.engine)
        return user.peak_bytes.get(self.device.key, 0)

    def _engine_bytes(self, user: MemoryUser, engine: EngineMemory) -> int:
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
        if budget is not None and peak is not None and 0 <= peak - budget <= _MOST_OVERHEAD_BYTES:
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
        key, trainers = self.device.key, self.trainers
        if not trainers or any(key not in user.peak_bytes for user in trainers):
            return None
        return sum(max(user.peak_bytes[key], self.held_bytes(user)) for user in trainers)

    def left_beside(self, user: MemoryUser, engine: EngineMemory) -> int:
        """What the trainers can have beside this engine and everybody else."""
        return max(0, self._room(user) - self._engine_bytes(user, engine))

    def safe_utilization(self, user: MemoryUser, engine: EngineMemory) -> float | None:
        """Largest one that leaves the trainers their peak; `None` where none does, or that is not known."""
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
        """For this engine and the trainers together."""
        others = [user for user in self.users if user.engine is not None and user is not engine]
        held = sum(self.held_bytes(user) for user in (engine, *self.trainers) if not user.starts)
        return self.free_bytes + held - sum(self.takes_bytes(user) for user in others)


def _device_plan(
    device: GpuDevice, users: Sequence[MemoryUser], freed: Mapping[str, int]
) -> _DevicePlan | None:
    """`None` where the device's memory cannot be read."""
    usable, free = device.usable_bytes, device.unclaimed_bytes
    if not usable or free is None:
        return None
    stopped = sum(_held(device, user.component) for user in users if user.stops)
    return _DevicePlan(
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


def _verdict(device: GpuDevice, plan: _DevicePlan | None, user: MemoryUser) -> MemoryVerdict | None:
    """`None` where the verdict on an engine speaks of it, too."""
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


class _Judged(NamedTuple):
    """What a verdict says besides figures."""

    verdict: Verdict
    text: str
    suggested: float | None = None
    notes: tuple[str, ...] = ()


def _on_engine(plan: _DevicePlan, user: MemoryUser, engine: EngineMemory) -> MemoryVerdict:
    cache = kv_cache(engine, plan.usable_bytes, figures=user.figures, shape=user.shape)
    fit = EngineFit(
        device=plan.device,
        user=user,
        engine=engine,
        usable_bytes=plan.usable_bytes,
        free_bytes=plan.free_for(user),
        budget_bytes=share_bytes(plan.usable_bytes, engine.utilization),
        overhead_bytes=plan.overhead_bytes(user, engine),
        left_bytes=plan.left_beside(user, engine),
        trainers=plan.trainers,
        trainers_peak=plan.trainers_peak,
        stopped=frozenset(other.component for other in plan.users if other.stops),
        taken_before=tuple((other.component, plan.takes_bytes(other)) for other in plan.before(user)),
    )
    safe = plan.safe_utilization(user, engine)
    judged = _judged(plan, fit, cache, safe)
    return MemoryVerdict(
        verdict=judged.verdict,
        text=judged.text,
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
        suggested_utilization=judged.suggested,
        kv_cache_tokens=cache.tokens if cache else None,
        kv_cache_requests=cache.requests if cache else None,
        notes=(*judged.notes, *fit.user_notes(), *(cache.notes if cache else ())),
    )


def _judged(plan: _DevicePlan, fit: EngineFit, cache: KvCache | None, safe: float | None) -> _Judged:
    """The first trouble that its start will meet."""
    user, engine, peak, left = fit.user, fit.engine, fit.trainers_peak, fit.left_bytes
    if not passes_start_check(fit.free_bytes, fit.budget_bytes):
        suggested = _start_suggestion(plan, user, engine)
        return _Judged("will_refuse", fit.will_refuse(suggested), suggested, (fit.refusal_note(),))
    if cache is not None and not cache.suffices:
        # the smallest with room for one request, if it passes and leaves the trainers their peak
        most = _start_suggestion(plan, user, engine)
        above = range(int(engine.utilization * 100) + 1, round(100 * most) + 1) if most else ()
        suggested = next((part / 100 for part in above if _viable(plan, user, engine, part / 100)), None)
        return _Judged("no_kv_cache", fit.no_kv_cache(cache, suggested), suggested)
    if peak is not None and peak > left:
        suggested = _viable(plan, user, engine, safe)
        return _Judged("trainer_short", fit.trainer_short(peak, suggested), suggested)
    if fit.trainers and peak is None and left < _LITTLE_FRAC * plan.usable_bytes:
        suggested = _usual_share(plan, user, engine)
        return _Judged("trainer_tight", fit.trainer_tight(suggested), suggested)
    notes = []
    if fit.free_bytes - fit.budget_bytes < CONTEXT_BYTES:
        notes.append(fit.close_start())
    if peak is not None and left - peak < MARGIN_BYTES:
        notes.append(fit.close_peak(peak))
    return _Judged("fits", fit.fits(), notes=tuple(notes))


def _on_trainer(plan: _DevicePlan, user: MemoryUser) -> MemoryVerdict:
    """Of a component that takes what it needs, where no engine starts beside it."""
    free, peak = plan.free_for(user), user.peak_bytes.get(plan.device.key)
    safe = None
    if peak is None and user.training is not None:
        judged = _Judged(
            "trainer_tight" if user.training.is_far_too_much(free) else "unknown",
            trainer_unseen(plan.device, user.component, user.training, free_bytes=free),
        )
    elif peak is None or peak <= free:
        is_tight = user.training is None and free < _LITTLE_FRAC * plan.usable_bytes
        judged = _Judged(
            "fits" if peak is not None else "trainer_tight" if is_tight else "unknown",
            trainer_alone(plan.device, user.component, free_bytes=free, peak_bytes=peak),
        )
    else:
        engines = [(other, other.engine) for other in plan.users if other.engine and plan.held_bytes(other)]
        neighbour = ""
        for other, engine in engines[:1]:
            neighbour = other.component
            safe = _viable(plan, other, engine, plan.safe_utilization(other, engine))
        words = trainer_alone_short(
            plan.device, user, free_bytes=free, peak_bytes=peak, engine=neighbour, suggested=safe
        )
        judged = _Judged("trainer_short", words, safe)
    return MemoryVerdict(
        verdict=judged.verdict,
        text=judged.text,
        component=user.component,
        device=plan.device.index,
        uuid=plan.device.uuid,
        total_bytes=plan.usable_bytes,
        free_bytes=free,
        left_bytes=free,
        peak_bytes=peak,
        safe_utilization=safe,
        suggested_utilization=judged.suggested,
        notes=change_notes([user]),
    )


def _usual_share(plan: _DevicePlan, user: MemoryUser, engine: EngineMemory) -> float | None:
    """To begin with, where nothing is known of the trainer; `None` where the engine asks for less already."""
    if engine.utilization <= _USUAL_SHARED_UTILIZATION or engine.kv_cache_memory_bytes is not None:
        return None
    return _viable(plan, user, engine, _USUAL_SHARED_UTILIZATION)


def _start_suggestion(plan: _DevicePlan, user: MemoryUser, engine: EngineMemory) -> float | None:
    """A utilization that passes the start check, and leaves the trainers their peak where that is known."""
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
    changed = replace(engine, utilization=utilization)
    cache = kv_cache(changed, plan.usable_bytes, figures=user.figures, shape=user.shape)
    return utilization if cache is None or cache.suffices else None
