"""The words of a forecast and of a refused start: the figures in GiB, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rltui.core.gpu.budget import (
    CONTEXT_BYTES,
    EngineMemory,
    KvCache,
    MemoryUser,
    budget_bytes,
    engine_rule,
    passes_start_check,
)
from rltui.core.gpu.device_outlook import DeviceOutlook
from rltui.core.gpu.report import GpuDevice, GpuShare
from rltui.core.text import GIB, gib

NAMED_HOLDERS = 2
"""Most holders named in one line."""
_SMALLEST_NAMED_BYTES = GIB // 10


def holders_text(device: GpuDevice, gone: Collection[str] = ()) -> str:
    """`18.2 held by trainer, 3.1 by user ann`, the largest first; empty where nobody holds much.

    `gone`: components that will not hold anything.
    """
    shares = [share for share in device.shares if share.owner != "component" or share.component not in gone]
    large = [share for share in shares if share.used_bytes >= _SMALLEST_NAMED_BYTES]
    largest = sorted(large, key=lambda share: -share.used_bytes)[:NAMED_HOLDERS]
    parts = [f"{gib(share.used_bytes)} by {_name(share)}" for share in largest]
    return ", ".join(parts).replace(" by ", " held by ", 1)


def _name(share: GpuShare) -> str:
    match share.owner:
        case "component":
            return share.component or "a component"
        case "orphan":
            return f"leftovers of {share.component}" if share.component else "leftovers"
        case "experiment":
            return f"experiment {share.experiment}" if share.experiment else "another experiment"
        case "mine":
            return "other processes of yours"
        case "other":
            return f"user {share.user}" if share.user else "another user"
        case "unknown":
            return "unknown processes"
        case "hidden":
            return "driver and hidden processes"


@dataclass(frozen=True, slots=True)
class EngineFit:
    """An engine that starts, on one of its devices."""

    outlook: DeviceOutlook
    user: MemoryUser
    engine: EngineMemory
    free_bytes: int
    budget_bytes: int
    left_bytes: int
    """For the trainers."""

    @property
    def share(self) -> str:
        """`0.9 × 79.9`."""
        return f"{self.engine.utilization:g} × {gib(self.outlook.usable_bytes)}"

    @property
    def trainers(self) -> str:
        """`trainer and sft`."""
        return " and ".join(user.component for user in self.outlook.trainers)


def unreadable(device: GpuDevice, component: str) -> str:
    """For a device that gives no figures."""
    why = f" ({device.problem})" if device.problem else ""
    return f"{component}: the memory of {_gpu(device)} cannot be read{why}"


def fits(fit: EngineFit) -> str:
    """Good news."""
    takes = f"takes {gib(fit.budget_bytes)} GiB ({fit.share}) of {_gpu(fit.outlook.device)}"
    start = f"fits: {fit.user.component} {takes}"
    if not fit.trainers:
        return f"{start}, of which {gib(fit.free_bytes)} are free"
    peak = fit.outlook.trainers_peak
    history = f"whose peak was {gib(peak)}" if peak is not None else "whose need is not known yet"
    left = gib(fit.left_bytes)
    return f"{start}, leaves {left} for {fit.trainers}, {history}"


def will_refuse(fit: EngineFit, suggested: float | None) -> str:
    """VLLM's start check will fail."""
    needed, free = _two(fit.budget_bytes, fit.free_bytes)
    device = fit.outlook.device
    gone = {user.component for user in fit.outlook.users if user.stops}
    before = fit.outlook.users[: fit.outlook.users.index(fit.user)]
    will_take = [
        f"{gib(size)} will be taken by {user.component}"
        for user in before
        if (size := fit.outlook.takes_bytes(user))
    ]
    holders = [words for words in (holders_text(device, gone), *will_take) if words]
    why = f": {', '.join(holders)}" if holders else ""
    if suggested is None:
        advice = f"free {_gpu(device)} first: no smaller gpu_memory_utilization does"
    else:
        advice = f"write gpu_memory_utilization = {suggested:g}, or free the memory first"
    if any(share.owner == "orphan" for share in device.shares):
        advice += " (`rltui orphans --free` ends leftovers)"
    return (
        f"{fit.user.component} needs {needed} GiB free on {_gpu(device)} ({fit.share}), {free} are free{why};"
        f" {advice}"
    )


def no_kv_cache(fit: EngineFit, cache: KvCache, suggested: float | None) -> str:
    """The engine starts to load, and ends with an error when it sizes its cache."""
    name, where = fit.user.component, _gpu(fit.outlook.device)
    if cache.size_bytes <= 0:
        what = (
            f"{name} has no room for a KV cache on {where}: of its {gib(fit.budget_bytes)} GiB ({fit.share})"
            f" model and activations take {gib(fit.budget_bytes - cache.size_bytes)}"
        )
        other = "a smaller max_num_batched_tokens, or more devices per copy of the model"
    else:
        what = (
            f"the KV cache of {name} on {where} holds {cache.tokens or 0:,} tokens, fewer than one request of"
            f" {cache.longest_request or 0:,}"
        )
        other = f"max_model_len = {max(1, cache.tokens or 1)} or less"
    if fit.engine.kv_cache_memory_bytes is not None:
        return f"{what}; raise kv_cache_memory_bytes, or set {other}"
    if suggested is not None:
        return f"{what}; write gpu_memory_utilization = {suggested:g}, or set {other}"
    return f"{what}; no gpu_memory_utilization helps: set {other}"


def trainer_short(fit: EngineFit, peak_bytes: int, suggested: float | None) -> str:
    """Both start, and the trainer runs out of memory."""
    need, left = _two(peak_bytes, fit.left_bytes)
    what = (
        f"{fit.trainers} will not fit: the peak was {need} GiB, {fit.user.component} ({fit.share}) leaves"
        f" {left} on {_gpu(fit.outlook.device)}"
    )
    if fit.engine.kv_cache_memory_bytes is not None:
        return f"{what}; lower kv_cache_memory_bytes, or what {fit.trainers} needs"
    if suggested is not None:
        return f"{what}; largest safe gpu_memory_utilization is {suggested:g}"
    return (
        f"{what}; no gpu_memory_utilization is safe: make {fit.trainers} smaller, or give it another device"
    )


def trainer_tight(fit: EngineFit, suggested: float | None) -> str:
    """Nobody knows, and it does not look well."""
    what = (
        f"{fit.user.component} takes {gib(fit.budget_bytes)} GiB ({fit.share}) of"
        f" {_gpu(fit.outlook.device)} and leaves {gib(fit.left_bytes)} for {fit.trainers}, whose need is not"
        f" known yet"
    )
    return f"{what}: begin with gpu_memory_utilization = {suggested:g}" if suggested is not None else what


def trainer_alone(device: GpuDevice, component: str, *, free_bytes: int, peak_bytes: int | None) -> str:
    """A trainer beside which no engine starts."""
    free = f"{gib(free_bytes)} GiB are free on {_gpu(device)}"
    if peak_bytes is None:
        return f"what {component} needs is not known before its first run; {free}"
    return f"fits: {component} held {gib(peak_bytes)} GiB at most, {free}"


def trainer_alone_short(
    device: GpuDevice,
    user: MemoryUser,
    *,
    free_bytes: int,
    peak_bytes: int,
    engine: str,
    suggested: float | None,
) -> str:
    """A trainer that will run out of memory; `engine` runs beside it, empty where none does."""
    need, free = _two(peak_bytes, free_bytes)
    holders = holders_text(device, (user.component,))
    why = f": {holders}" if holders else ""
    what = f"{user.component} will not fit: its peak was {need} GiB, {free} are free on {_gpu(device)}{why}"
    if suggested is not None:
        return f"{what}; restart {engine} with gpu_memory_utilization = {suggested:g} or less"
    if engine:
        return f"{what}; no gpu_memory_utilization of {engine} is safe: make {user.component} smaller"
    return f"{what}; free the memory first, or make {user.component} smaller"


def refusal_note(fit: EngineFit) -> str:
    """The error to look for."""
    rule = engine_rule(fit.engine, fit.user.figures)
    said = rule.refusal(
        free_bytes=fit.free_bytes,
        usable_bytes=fit.outlook.usable_bytes,
        utilization=fit.engine.utilization,
        budget_bytes=fit.budget_bytes,
        local_device=fit.user.devices.index(fit.outlook.device.key),
    )
    return f"vLLM's words for it: {said}"


def close_start(fit: EngineFit) -> str:
    """The start check may fail after all."""
    spare = _mib(fit.free_bytes - fit.budget_bytes)
    return (
        f"close: only {spare} MiB more than needed are free, and the CUDA context, up to"
        f" {_mib(CONTEXT_BYTES)} MiB, is made before vLLM looks"
    )


def close_peak(fit: EngineFit, peak_bytes: int) -> str:
    """The trainer has little to spare."""
    spare = _mib(fit.left_bytes - peak_bytes)
    return f"close: only {spare} MiB remain beyond the peak of {fit.trainers}"


def user_notes(fit: EngineFit) -> tuple[str, ...]:
    """What the figures rest on."""
    overhead = fit.outlook.overhead_bytes(fit.user, fit.engine)
    notes = [f"beside its budget {fit.user.component} takes about {gib(overhead)} GiB (context, graphs)"]
    key = fit.outlook.device.key
    unknown = [user.component for user in fit.outlook.trainers if key not in user.peak_bytes]
    if unknown:
        notes.append(f"the need of {' and '.join(unknown)} is not known yet: a first run will show it")
    if fit.outlook.device.memory_kind == "unified":
        notes.append("unified memory: programs on the CPU take from it, too")
    return (*notes, *change_notes(fit.outlook.trainers))


def change_notes(users: Iterable[MemoryUser]) -> tuple[str, ...]:
    """Why a peak may be another one this time."""
    return tuple(
        f"since the peak of {user.component} was seen: {user.peak_note}" for user in users if user.peak_note
    )


def _gpu(device: GpuDevice) -> str:
    return f"GPU {device.label}" + (f" of {device.host}" if device.host else "")


def _two(first_bytes: int, second_bytes: int) -> tuple[str, str]:
    """In GiB, with as many digits as it takes to tell them apart."""
    short = gib(first_bytes), gib(second_bytes)
    if short[0] != short[1] or first_bytes == second_bytes:
        return short
    return f"{first_bytes / GIB:.4f}", f"{second_bytes / GIB:.4f}"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f}"


def lack_of_memory(devices: Iterable[GpuDevice], utilization: float) -> str | None:
    """What is missing on the first of the devices that lacks room; `None` where all have it.

    A device that cannot be read is no obstacle: the component itself will tell.
    """
    return next((text for device in devices if (text := _lack(device, utilization)) is not None), None)


def _lack(device: GpuDevice, utilization: float) -> str | None:
    needed = budget_bytes(device, utilization)
    if needed is None or device.free_bytes is None or passes_start_check(device.free_bytes, needed):
        return None
    parts = [f"needs {gib(needed)} GiB free", f"{gib(device.free_bytes)} GiB free", *_holders(device)]
    return f"GPU {device.label}: {', '.join(parts)}"


def _holders(device: GpuDevice) -> list[str]:
    known = [process for process in device.processes if process.used_bytes]
    largest = sorted(known, key=lambda process: -(process.used_bytes or 0))[:NAMED_HOLDERS]
    return [
        f"{gib(process.used_bytes or 0)} GiB held by {process.component or ''} pid {process.pid} "
        f"{process.name}".replace("  ", " ").rstrip()
        for process in largest
    ]
