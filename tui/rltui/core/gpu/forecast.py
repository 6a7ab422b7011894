"""What will happen on each device if components start with the config as it is. Pure.

Engines claim their budget at once, and hold it; trainers grow up to their peak (`reference/vllm.md`,
section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from rltui.core.gpu import forecast_text as text
from rltui.core.gpu.budget import (
    CONTEXT_BYTES,
    MARGIN_BYTES,
    EngineMemory,
    KvCache,
    MemoryUser,
    kv_cache,
    largest_passing_utilization,
    passes_start_check,
    share_bytes,
)
from rltui.core.gpu.device_outlook import DeviceOutlook, device_outlook
from rltui.core.gpu.report import GpuDevice, MemoryVerdict

NOTHING_FREED: Mapping[str, int] = MappingProxyType({})
_WORST_FIRST = ("will_refuse", "no_kv_cache", "trainer_short", "trainer_tight", "unknown", "fits")
LITTLE_FRAC = 0.2
"""Of a device: a trainer of unknown need that is left less is worth a warning. Weights, gradients and the
optimizer's state alone take sixteen bytes a parameter, and activations come on top."""
USUAL_SHARED_UTILIZATION = 0.5
"""What people begin with where a trainer shares the device with vLLM (`reference/prime-rl.md`, section 2)."""


def forecast(
    devices: Sequence[GpuDevice],
    users: Sequence[MemoryUser],
    *,
    freed: Mapping[str, int] = NOTHING_FREED,
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
    outlooks = {key: device_outlook(device, users, freed) for key, device in by_key.items()}
    return tuple(
        verdict
        for user in users
        if user.starts
        for key in user.devices
        if key in by_key
        for verdict in _verdicts(by_key[key], outlooks[key], user)
    )


def worst_per_component(verdicts: Iterable[MemoryVerdict]) -> tuple[MemoryVerdict, ...]:
    """One for each component, in the order given: its worst, and of equal ones that of its first device."""
    worst: dict[str, MemoryVerdict] = {}
    for verdict in verdicts:
        known = worst.setdefault(verdict.component, verdict)
        if _WORST_FIRST.index(verdict.verdict) < _WORST_FIRST.index(known.verdict):
            worst[verdict.component] = verdict
    return tuple(worst.values())


def _verdicts(device: GpuDevice, outlook: DeviceOutlook | None, user: MemoryUser) -> Iterator[MemoryVerdict]:
    if outlook is None:
        yield MemoryVerdict(
            verdict="unknown",
            text=text.unreadable(device, user.component),
            component=user.component,
            device=device.index,
            uuid=device.uuid,
        )
    elif user.engine is not None:
        yield _of_engine(outlook, user, user.engine)
    elif not any(other.engine is not None and other.starts for other in outlook.users):
        yield _of_trainer(outlook, user)


def _of_engine(outlook: DeviceOutlook, user: MemoryUser, engine: EngineMemory) -> MemoryVerdict:
    free = outlook.free_for(user)
    budget = share_bytes(outlook.usable_bytes, engine.utilization)
    cache = kv_cache(engine, outlook.usable_bytes, figures=user.figures, shape=user.shape)
    peak, left = outlook.trainers_peak, max(0, outlook.left_beside(user, engine))
    fit = text.EngineFit(outlook, user, engine, free_bytes=free, budget_bytes=budget, left_bytes=left)
    verdict = MemoryVerdict(
        verdict="fits",
        text=text.fits(fit),
        component=user.component,
        device=outlook.device.index,
        uuid=outlook.device.uuid,
        total_bytes=outlook.usable_bytes,
        free_bytes=free,
        budget_bytes=budget,
        utilization=engine.utilization,
        left_bytes=left,
        peak_bytes=peak,
        safe_utilization=outlook.safe_utilization(user, engine),
        kv_cache_tokens=cache.tokens if cache else None,
        kv_cache_requests=cache.requests if cache else None,
    )
    if not passes_start_check(free, budget):
        suggested = _start_suggestion(outlook, user, engine, free)
        bad = _bad(verdict, "will_refuse", text.will_refuse(fit, suggested), suggested)
        return _noted(bad, (text.refusal_note(fit), *_notes(fit, cache)))
    if cache is not None and not cache.suffices:
        suggested = _cache_suggestion(outlook, user, engine, free)
        bad = _bad(verdict, "no_kv_cache", text.no_kv_cache(fit, cache, suggested), suggested)
        return _noted(bad, _notes(fit, cache))
    if peak is not None and peak > left:
        suggested = _viable(outlook, user, engine, verdict.safe_utilization)
        bad = _bad(verdict, "trainer_short", text.trainer_short(fit, peak, suggested), suggested)
        return _noted(bad, _notes(fit, cache))
    if outlook.trainers and peak is None and left < LITTLE_FRAC * outlook.usable_bytes:
        suggested = _usual_share(outlook, user, engine)
        bad = _bad(verdict, "trainer_tight", text.trainer_tight(fit, suggested), suggested)
        return _noted(bad, _notes(fit, cache))
    return _noted(verdict, (*_close_calls(fit, peak), *_notes(fit, cache)))


def _of_trainer(outlook: DeviceOutlook, user: MemoryUser) -> MemoryVerdict:
    """Of a component that takes what it needs, where no engine starts beside it."""
    free, peak = outlook.free_for(user), user.peak_bytes.get(outlook.device.key)
    verdict = MemoryVerdict(
        verdict="unknown" if peak is None else "fits",
        text=text.trainer_alone(outlook.device, user.component, free_bytes=free, peak_bytes=peak),
        component=user.component,
        device=outlook.device.index,
        uuid=outlook.device.uuid,
        total_bytes=outlook.usable_bytes,
        free_bytes=free,
        left_bytes=free,
        peak_bytes=peak,
        notes=text.change_notes([user]),
    )
    if peak is None or peak <= free:
        return verdict
    engines = [(other, other.engine) for other in outlook.users if other.engine and outlook.held_bytes(other)]
    neighbour, suggested = "", None
    for other, engine in engines[:1]:
        neighbour = other.component
        suggested = _viable(outlook, other, engine, outlook.safe_utilization(other, engine))
    words = text.trainer_alone_short(
        outlook.device, user, free_bytes=free, peak_bytes=peak, engine=neighbour, suggested=suggested
    )
    return _bad(verdict, "trainer_short", words, suggested).model_copy(update={"safe_utilization": suggested})


def _usual_share(outlook: DeviceOutlook, user: MemoryUser, engine: EngineMemory) -> float | None:
    """To begin with, where nothing is known of the trainer; `None` where the engine asks for less already."""
    if engine.utilization <= USUAL_SHARED_UTILIZATION or engine.kv_cache_memory_bytes is not None:
        return None
    return _viable(outlook, user, engine, USUAL_SHARED_UTILIZATION)


def _start_suggestion(
    outlook: DeviceOutlook, user: MemoryUser, engine: EngineMemory, free_bytes: int
) -> float | None:
    """A utilization that passes the start check, and leaves the trainers their peak where that is known."""
    passing = largest_passing_utilization(outlook.device, free_bytes)
    if passing is None or outlook.trainers_peak is None or engine.kv_cache_memory_bytes is not None:
        return _viable(outlook, user, engine, passing)
    safe = outlook.safe_utilization(user, engine)
    return None if safe is None else _viable(outlook, user, engine, min(passing, safe))


def _cache_suggestion(
    outlook: DeviceOutlook, user: MemoryUser, engine: EngineMemory, free_bytes: int
) -> float | None:
    """The smallest with room for one request, if it passes and leaves the trainers their peak."""
    most = _start_suggestion(outlook, user, engine, free_bytes)
    above = range(int(engine.utilization * 100) + 1, round(100 * most) + 1) if most else ()
    return next((part / 100 for part in above if _viable(outlook, user, engine, part / 100)), None)


def _viable(
    outlook: DeviceOutlook, user: MemoryUser, engine: EngineMemory, utilization: float | None
) -> float | None:
    """`utilization`, if it leaves room for a KV cache as far as is known."""
    if utilization is None:
        return None
    changed = replace(engine, utilization=utilization)
    cache = kv_cache(changed, outlook.usable_bytes, figures=user.figures, shape=user.shape)
    return utilization if cache is None or cache.suffices else None


def _close_calls(fit: text.EngineFit, peak: int | None) -> Iterator[str]:
    if fit.free_bytes - fit.budget_bytes < CONTEXT_BYTES:
        yield text.close_start(fit)
    if peak is not None and fit.left_bytes - peak < MARGIN_BYTES:
        yield text.close_peak(fit, peak)


def _notes(fit: text.EngineFit, cache: KvCache | None) -> tuple[str, ...]:
    return (*text.user_notes(fit), *(cache.notes if cache else ()))


def _bad(verdict: MemoryVerdict, kind: str, words: str, suggested: float | None) -> MemoryVerdict:
    return verdict.model_copy(update={"verdict": kind, "text": words, "suggested_utilization": suggested})


def _noted(verdict: MemoryVerdict, notes: Iterable[str]) -> MemoryVerdict:
    return verdict.model_copy(update={"notes": tuple(notes)})
