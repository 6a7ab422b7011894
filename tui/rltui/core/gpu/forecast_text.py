"""Sentences of a forecast and of a refused start: sizes in GiB, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rltui.core import hints
from rltui.core.gpu.budget import (
    CONTEXT_BYTES,
    EngineMemory,
    KvCache,
    MemoryUser,
    budget_bytes,
    engine_rule,
    passes_start_check,
)
from rltui.core.gpu.report import GpuDevice, GpuShare
from rltui.core.gpu.training import TrainingNeed
from rltui.core.text import GIB, gib

_NAMED_HOLDERS = 2
"""At most so many holders are named in one line."""
_SMALLEST_NAMED_BYTES = GIB // 10


def _holders_text(device: GpuDevice, stopped: Collection[str] = ()) -> str:
    """`18.2 held by trainer, 3.1 by user ann`, the largest first; empty if nobody holds much.

    `stopped`: components that will not hold anything.
    """
    shares = [
        share for share in device.shares if share.owner != "component" or share.component not in stopped
    ]
    large = [share for share in shares if share.used_bytes >= _SMALLEST_NAMED_BYTES]
    largest = sorted(large, key=lambda share: -share.used_bytes)[:_NAMED_HOLDERS]
    clauses = [f"{gib(share.used_bytes)} by {_name(share)}" for share in largest]
    return ", ".join(clauses).replace(" by ", " held by ", 1)


def _name(share: GpuShare) -> str:
    match share.owner:
        case "component":
            return share.component or "a component"
        case "orphan":
            return f"leftovers of {share.component}" if share.component else "leftovers"
        case "experiment":
            return f"experiment {share.experiment}" if share.experiment else "another experiment"
        case "mine":
            return "your other processes"
        case "other":
            return f"user {share.user}" if share.user else "another user"
        case "unknown":
            return "unknown processes"
        case "hidden":
            return "driver and hidden processes"


@dataclass(frozen=True, slots=True)
class EngineFit:
    """An engine that starts, on one of its devices, and the sentences about that."""

    device: GpuDevice
    user: MemoryUser
    engine: EngineMemory
    usable_bytes: int
    """The device's total as CUDA has it."""
    free_bytes: int
    """Free memory as it starts."""
    budget_bytes: int
    overhead_bytes: int
    """Memory beside its budget."""
    left_bytes: int
    trainers: tuple[MemoryUser, ...]
    trainers_peak: int | None
    """Sum of their peaks; `None` unless each is known."""
    stopped: frozenset[str]
    """Components whose memory is freed before it starts."""
    earlier_demands: tuple[tuple[str, int], ...]
    """Components that start before it, and the memory each takes."""

    @property
    def name(self) -> str:
        return self.user.component

    @property
    def gpu(self) -> str:
        return _gpu(self.device)

    @property
    def share(self) -> str:
        """`0.9 × 79.9`."""
        return f"{self.engine.utilization:g} × {gib(self.usable_bytes)}"

    @property
    def trainer(self) -> str:
        """`trainer and sft`."""
        return " and ".join(user.component for user in self.trainers)

    def fits(self) -> str:
        takes = f"takes {gib(self.budget_bytes)} GiB ({self.share}) of {self.gpu}"
        start = f"fits: {self.name} {takes}"
        if not self.trainers:
            return f"{start}; {gib(self.free_bytes)} free"
        peak = self.trainers_peak
        history = f"peak {gib(peak)}" if peak is not None else "peak unknown until its first run"
        remaining = gib(self.left_bytes)
        return f"{start}, leaves {remaining} for {self.trainer}, {history}"

    def will_refuse(self, suggested: float | None) -> str:
        needed, free = _distinct_gib(self.budget_bytes, self.free_bytes)
        will_take = [f"{gib(size)} reserved for {name}" for name, size in self.earlier_demands if size]
        holders = [text for text in (_holders_text(self.device, self.stopped), *will_take) if text]
        reason = f": {', '.join(holders)}" if holders else ""
        if suggested is None:
            advice = f"free memory on {self.gpu} first; no gpu_memory_utilization is small enough"
        else:
            advice = f"set gpu_memory_utilization = {suggested:g}, or free the memory first"
        if any(share.owner == "orphan" for share in self.device.shares):
            advice += f" (`{hints.FREE_LEFTOVERS}` ends leftovers)"
        needs = f"{self.name} needs {needed} GiB free on {self.gpu} ({self.share}), {free} free"
        return f"{needs}{reason}; {advice}"

    def no_kv_cache(self, cache: KvCache, suggested: float | None) -> str:
        """The engine begins to load, and fails when it sizes its cache."""
        if cache.size_bytes <= 0:
            what = (
                f"{self.name} has no room for a KV cache on {self.gpu}: model and activations take"
                f" {gib(self.budget_bytes - cache.size_bytes)} of {gib(self.budget_bytes)} GiB"
                f" ({self.share})"
            )
            other = "a smaller max_num_batched_tokens or more GPUs per copy of the model"
        else:
            what = (
                f"the KV cache of {self.name} on {self.gpu} holds {cache.tokens or 0:,} tokens, fewer"
                f" than one request of {cache.longest_request or 0:,}"
            )
            other = f"max_model_len = {max(1, cache.tokens or 1)} or less"
        if self.engine.kv_cache_memory_bytes is not None:
            return f"{what}; raise kv_cache_memory_bytes, or use {other}"
        if suggested is not None:
            return f"{what}; set gpu_memory_utilization = {suggested:g}, or use {other}"
        return f"{what}; no gpu_memory_utilization helps; use {other}"

    def trainer_short(self, peak_bytes: int, suggested: float | None) -> str:
        """Both start, and the trainer runs out of memory."""
        need, remaining = _distinct_gib(peak_bytes, self.left_bytes)
        what = (
            f"{self.trainer} will not fit: the peak was {need} GiB, {self.name} ({self.share}) leaves"
            f" {remaining} on {self.gpu}"
        )
        if self.engine.kv_cache_memory_bytes is not None:
            return f"{what}; lower kv_cache_memory_bytes, or reduce the memory use of {self.trainer}"
        if suggested is not None:
            return f"{what}; largest safe gpu_memory_utilization: {suggested:g}"
        advice = f"reduce the memory use of {self.trainer}, or give it another GPU"
        return f"{what}; no gpu_memory_utilization is safe; {advice}"

    def trainer_tight(self, suggested: float | None) -> str:
        what = (
            f"{self.name} takes {gib(self.budget_bytes)} GiB ({self.share}) of {self.gpu} and leaves"
            f" {gib(self.left_bytes)} for {self.trainer}, peak unknown until its first run"
        )
        return f"{what}; start with gpu_memory_utilization = {suggested:g}" if suggested is not None else what

    def refusal_note(self) -> str:
        rule = engine_rule(self.engine, self.user.measurements)
        refusal = rule.refusal(
            free_bytes=self.free_bytes,
            usable_bytes=self.usable_bytes,
            utilization=self.engine.utilization,
            budget_bytes=self.budget_bytes,
            local_device=self.user.devices.index(self.device.key),
        )
        return f"{self.engine.rules.title} says: {refusal}"

    def close_start(self) -> str:
        """The start check may fail after all."""
        spare = _mib(self.free_bytes - self.budget_bytes)
        return (
            f"tight: only {spare} MiB to spare, and the CUDA context (up to {_mib(CONTEXT_BYTES)} MiB) is"
            f" created before {self.engine.rules.title} checks"
        )

    def close_peak(self, peak_bytes: int) -> str:
        spare = _mib(self.left_bytes - peak_bytes)
        return f"tight: only {spare} MiB beyond the peak of {self.trainer}"

    def user_notes(self) -> tuple[str, ...]:
        overhead = gib(self.overhead_bytes)
        notes = [f"{self.name} takes about {overhead} GiB on top of its budget (context, graphs)"]
        key = self.device.key
        unknown = [user.component for user in self.trainers if key not in user.peak_bytes]
        if unknown:
            notes.append(f"peak of {' and '.join(unknown)} unknown until the first run")
        if self.device.memory_kind == "unified":
            notes.append("unified memory, shared with CPU programs")
        return (*notes, *change_notes(self.trainers))


def unreadable(device: GpuDevice, component: str) -> str:
    reason = f" ({device.problem})" if device.problem else ""
    return f"{component}: cannot read the memory of {_gpu(device)}{reason}"


def trainer_alone(device: GpuDevice, component: str, *, free_bytes: int, peak_bytes: int | None) -> str:
    """The text about a trainer beside which no engine starts."""
    free = f"{gib(free_bytes)} GiB free on {_gpu(device)}"
    if peak_bytes is None:
        return f"memory needs of {component} unknown until its first run; {free}"
    return f"fits: {component} peaked at {gib(peak_bytes)} GiB, {free}"


def trainer_unseen(device: GpuDevice, component: str, need: TrainingNeed, *, free_bytes: int) -> str:
    """The text about a supervised trainer before its first run."""
    free = f"{gib(free_bytes)} GiB free on {_gpu(device)}"
    estimate, advice = need.estimate_bytes(), need.advice(free_bytes)
    if estimate is None:
        unknown = f"memory needs of {component} unknown until its first run; {free}"
        return f"{unknown}; if that is not enough, {advice}" if advice else unknown
    about = f"about {gib(estimate)} GiB estimated from model and micro-batch ({need.sizes()}), {free}"
    if estimate <= free_bytes:
        return f"{component} should fit: {about}"
    return f"{component} may not fit: {about}" + (f"; {advice}" if advice else "")


def trainer_alone_short(
    device: GpuDevice,
    user: MemoryUser,
    *,
    free_bytes: int,
    peak_bytes: int,
    engine: str,
    suggested: float | None,
) -> str:
    """The text about a trainer that will run out of memory.

    `engine`: runs beside it; empty if none does.
    """
    need, free = _distinct_gib(peak_bytes, free_bytes)
    holders = _holders_text(device, (user.component,))
    reason = f": {holders}" if holders else ""
    what = f"{user.component} will not fit: its peak was {need} GiB, {free} free on {_gpu(device)}{reason}"
    if suggested is not None:
        return f"{what}; restart {engine} with gpu_memory_utilization = {suggested:g} or less"
    lower = (
        user.training and user.training.advice(free_bytes, peak_bytes)
    ) or f"reduce the memory use of {user.component}"
    if engine:
        return f"{what}; no gpu_memory_utilization of {engine} is safe; {lower}"
    return f"{what}; free the memory first, or {lower}"


def change_notes(users: Iterable[MemoryUser]) -> tuple[str, ...]:
    """Reasons why a peak may be a different one this time."""
    return tuple(
        f"since the last peak of {user.component}: {user.peak_note}" for user in users if user.peak_note
    )


def _gpu(device: GpuDevice) -> str:
    return f"GPU {device.label}" + (f" of {device.host}" if device.host else "")


def _distinct_gib(first_bytes: int, second_bytes: int) -> tuple[str, str]:
    """Both in GiB, with as many digits as it takes to tell them apart."""
    short = gib(first_bytes), gib(second_bytes)
    if short[0] != short[1] or first_bytes == second_bytes:
        return short
    return f"{first_bytes / GIB:.4f}", f"{second_bytes / GIB:.4f}"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f}"


def lack_of_memory(devices: Iterable[GpuDevice], utilization: float) -> str | None:
    """The shortage on the first of the devices that lacks room; `None` if all have it.

    A device that cannot be read blocks nothing: the component itself will tell.
    """
    return next((text for device in devices if (text := _lack(device, utilization)) is not None), None)


def _lack(device: GpuDevice, utilization: float) -> str | None:
    needed = budget_bytes(device, utilization)
    if needed is None or device.free_bytes is None or passes_start_check(device.free_bytes, needed):
        return None
    clauses = [f"needs {gib(needed)} GiB free", f"{gib(device.free_bytes)} GiB free", *_holders(device)]
    return f"GPU {device.label}: {', '.join(clauses)}"


def _holders(device: GpuDevice) -> list[str]:
    holders = [process for process in device.processes if process.used_bytes]
    largest = sorted(holders, key=lambda process: -(process.used_bytes or 0))[:_NAMED_HOLDERS]
    return [
        f"{gib(process.used_bytes or 0)} GiB held by {process.component or ''} pid {process.pid} "
        f"{process.name}".replace("  ", " ").rstrip()
        for process in largest
    ]
