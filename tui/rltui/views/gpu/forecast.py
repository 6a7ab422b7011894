"""Forecasts of a start in words: sizes in GiB, the holders of the memory, the advice."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rltui.base.text import GIB, gib
from rltui.core import hints
from rltui.core.gpu.budget import CONTEXT_BYTES, EngineMemory
from rltui.core.gpu.forecast import MARGIN_BYTES, Forecast, MemoryUser, worst_per_component
from rltui.core.gpu.report import GpuDevice, GpuShare, MemoryVerdict
from rltui.views.gpu.reservations import reserved_text

_NAMED_HOLDERS = 2
"""At most so many holders are named in one line."""
_SMALLEST_NAMED_BYTES = GIB // 10


def worst_verdicts(forecasts: Iterable[Forecast]) -> tuple[MemoryVerdict, ...]:
    """The worst of each component."""
    return tuple(map(memory_verdict, worst_per_component(forecasts)))


def memory_verdict(forecast: Forecast) -> MemoryVerdict:
    """The forecast with its sentences, as it is sent and shown."""
    plan, user, engine = forecast.plan, forecast.user, forecast.user.engine
    device, cache = plan.device, forecast.cache
    if not plan.usable_bytes:
        reason = f" ({device.problem})" if device.problem else ""
        return MemoryVerdict(
            verdict=forecast.verdict,
            text=f"{user.component}: cannot read the memory of {_gpu(device)}{reason}",
            component=user.component,
            device=device.index,
            uuid=device.uuid,
        )
    if engine is None:
        text, notes, left_bytes = _trainer_text(forecast), _change_notes([user]), plan.free_for(user)
    else:
        text, notes, left_bytes = _EngineStart(forecast, engine).described()
    verdict = MemoryVerdict(
        verdict=forecast.verdict,
        text=text,
        component=user.component,
        device=device.index,
        uuid=device.uuid,
        total_bytes=plan.usable_bytes,
        free_bytes=plan.free_for(user),
        budget_bytes=None if engine is None else engine.budget_bytes(plan.usable_bytes),
        utilization=None if engine is None else engine.utilization,
        left_bytes=left_bytes,
        peak_bytes=forecast.peak_bytes,
        safe_utilization=forecast.safe,
        suggested_utilization=forecast.suggested,
        kv_cache_tokens=None if cache is None else cache.tokens,
        kv_cache_requests=None if cache is None else cache.requests,
        notes=notes,
    )
    if not (reserved := reserved_text(device.claims)):
        return verdict
    text = f"{text} ({reserved})" if verdict.is_bad else text
    return verdict.replace(text=text, notes=(*notes, reserved))


def wait_text(refused: Forecast) -> str:
    """Say for what memory an engine waits: `GPU 0: needs 71.9 GiB free, 12.1 GiB free, 58.0 GiB
    held by pid 4711 VLLM::EngineCore`.
    """
    plan, engine = refused.plan, refused.user.engine
    needed = 0 if engine is None else engine.budget_bytes(plan.usable_bytes)
    processes = [process for process in plan.device.processes if process.used_bytes]
    largest = sorted(processes, key=lambda process: -(process.used_bytes or 0))[:_NAMED_HOLDERS]
    holders = (
        f"{gib(process.used_bytes or 0)} GiB held by {process.component or ''} pid {process.pid} "
        f"{process.name}".replace("  ", " ").rstrip()
        for process in largest
    )
    needs = f"needs {gib(needed)} GiB free", f"{gib(plan.device.free_bytes or 0)} GiB free"
    return f"GPU {plan.device.label}: {', '.join((*needs, *holders))}"


class _EngineStart:
    """The sentences about an engine that starts."""

    def __init__(self, forecast: Forecast, engine: EngineMemory) -> None:
        self._forecast, self._engine = forecast, engine
        self._plan = plan = forecast.plan
        self._name, self._gpu = forecast.user.component, _gpu(plan.device)
        self._free_bytes = plan.free_for(forecast.user)
        self._budget_bytes = engine.budget_bytes(plan.usable_bytes)
        self._left_bytes = plan.left_bytes(forecast.user, engine)
        self._share = f"{engine.utilization:g} × {gib(plan.usable_bytes)}"
        self._takes = f"takes {gib(self._budget_bytes)} GiB ({self._share}) of {self._gpu}"
        self._trainer = " and ".join(user.component for user in plan.trainers)

    def described(self) -> tuple[str, tuple[str, ...], int]:
        """Return the sentence, its notes, and the bytes that the engine leaves."""
        match self._forecast.verdict:
            case "will_refuse":
                text, notes = self._will_refuse(), [self._refusal()]
            case "no_kv_cache":
                text, notes = self._no_kv_cache(), []
            case "trainer_short":
                text, notes = self._trainer_short(), []
            case "trainer_tight":
                text, notes = self._trainer_tight(), []
            case _:
                text, notes = self._fits(), self._close_calls()
        cache = self._forecast.cache
        return text, (*notes, *self._user_notes(), *(cache.notes if cache else ())), self._left_bytes

    def _fits(self) -> str:
        start = f"fits: {self._name} {self._takes}"
        if not self._trainer:
            return f"{start}; {gib(self._free_bytes)} free"
        peak = self._forecast.peak_bytes
        history = f"peak {gib(peak)}" if peak is not None else "peak unknown until its first run"
        return f"{start}, leaves {gib(self._left_bytes)} for {self._trainer}, {history}"

    def _close_calls(self) -> list[str]:
        notes, peak = [], self._forecast.peak_bytes
        if (spare := self._free_bytes - self._budget_bytes) < CONTEXT_BYTES:
            notes.append(
                f"tight: only {_mib(spare)} MiB to spare, and the CUDA context (up to {_mib(CONTEXT_BYTES)}"
                f" MiB) is created before {self._engine.rules.title} checks"
            )
        if peak is not None and (spare := self._left_bytes - peak) < MARGIN_BYTES:
            notes.append(f"tight: only {_mib(spare)} MiB beyond the peak of {self._trainer}")
        return notes

    def _will_refuse(self) -> str:
        plan, suggested = self._plan, self._forecast.suggested
        needed, free = _distinct_gib(self._budget_bytes, self._free_bytes)
        demands = plan.earlier_demands(self._forecast.user)
        will_take = [f"{gib(size)} reserved for {name}" for name, size in demands.items() if size]
        stopped = [user.component for user in plan.users if user.stops]
        holders = [text for text in (_holders_text(plan.device, stopped), *will_take) if text]
        reason = f": {', '.join(holders)}" if holders else ""
        if suggested is None:
            advice = f"free memory on {self._gpu} first; no gpu_memory_utilization is small enough"
        else:
            advice = f"set gpu_memory_utilization = {suggested:g}, or free the memory first"
        if any(share.owner == "orphan" for share in plan.device.shares):
            advice += f" (`{hints.FREE_LEFTOVERS}` ends leftovers)"
        needs = f"{self._name} needs {needed} GiB free on {self._gpu} ({self._share}), {free} free"
        return f"{needs}{reason}; {advice}"

    def _refusal(self) -> str:
        engine, plan, user = self._engine, self._plan, self._forecast.user
        refusal = engine.rule.refusal(
            free_bytes=self._free_bytes,
            usable_bytes=plan.usable_bytes,
            utilization=engine.utilization,
            budget_bytes=self._budget_bytes,
            local_device=user.devices.index(plan.device.key),
        )
        return f"{engine.rules.title} says: {refusal}"

    def _no_kv_cache(self) -> str:
        """The engine begins to load, and fails when it sizes its cache."""
        cache, suggested = self._forecast.cache, self._forecast.suggested
        size, tokens, longest = (
            (cache.size_bytes, cache.tokens, cache.longest_request) if cache else (0, 0, 0)
        )
        if size <= 0:
            what = (
                f"{self._name} has no room for a KV cache on {self._gpu}: model and activations take"
                f" {gib(self._budget_bytes - size)} of {gib(self._budget_bytes)} GiB ({self._share})"
            )
            other = "a smaller max_num_batched_tokens or more GPUs per copy of the model"
        else:
            what = (
                f"the KV cache of {self._name} on {self._gpu} holds {tokens or 0:,} tokens, fewer"
                f" than one request of {longest or 0:,}"
            )
            other = f"max_model_len = {max(1, tokens or 1)} or less"
        if self._engine.kv_cache_memory_bytes is not None:
            return f"{what}; raise kv_cache_memory_bytes, or use {other}"
        if suggested is not None:
            return f"{what}; set gpu_memory_utilization = {suggested:g}, or use {other}"
        return f"{what}; no gpu_memory_utilization helps; use {other}"

    def _trainer_short(self) -> str:
        """Both start, and the trainer runs out of memory."""
        suggested = self._forecast.suggested
        need, remaining = _distinct_gib(self._forecast.peak_bytes or 0, self._left_bytes)
        what = (
            f"{self._trainer} will not fit: the peak was {need} GiB, {self._name} ({self._share}) leaves"
            f" {remaining} on {self._gpu}"
        )
        if self._engine.kv_cache_memory_bytes is not None:
            return f"{what}; lower kv_cache_memory_bytes, or reduce the memory use of {self._trainer}"
        if suggested is not None:
            return f"{what}; largest safe gpu_memory_utilization: {suggested:g}"
        advice = f"reduce the memory use of {self._trainer}, or give it another GPU"
        return f"{what}; no gpu_memory_utilization is safe; {advice}"

    def _trainer_tight(self) -> str:
        suggested = self._forecast.suggested
        leaves = f"leaves {gib(self._left_bytes)} for {self._trainer}, peak unknown until its first run"
        what = f"{self._name} {self._takes} and {leaves}"
        return f"{what}; start with gpu_memory_utilization = {suggested:g}" if suggested is not None else what

    def _user_notes(self) -> tuple[str, ...]:
        overhead = gib(self._plan.overhead_bytes(self._forecast.user, self._engine))
        notes = [f"{self._name} takes about {overhead} GiB on top of its budget (context, graphs)"]
        device, trainers = self._plan.device, self._plan.trainers
        unknown = [user.component for user in trainers if device.key not in user.peak_bytes]
        if unknown:
            notes.append(f"peak of {' and '.join(unknown)} unknown until the first run")
        if device.memory_kind == "unified":
            notes.append("unified memory, shared with CPU programs")
        return (*notes, *_change_notes(trainers))


def _trainer_text(forecast: Forecast) -> str:
    """The text about a trainer beside which no engine starts."""
    plan, user, peak = forecast.plan, forecast.user, forecast.peak_bytes
    name, free_bytes = user.component, plan.free_for(user)
    free = f"{gib(free_bytes)} GiB free on {_gpu(plan.device)}"
    if forecast.verdict == "trainer_short":
        return _trainer_short_text(forecast, free_bytes, peak or 0)
    if peak is not None:
        return f"fits: {name} peaked at {gib(peak)} GiB, {free}"
    unknown = f"memory needs of {name} unknown until its first run; {free}"
    if user.training is None:
        return unknown
    estimate, advice = user.training.estimate_bytes(), user.training.advice(free_bytes)
    if estimate is None:
        return f"{unknown}; if that is not enough, {advice}" if advice else unknown
    sizes = user.training.sizes()
    about = f"about {gib(estimate)} GiB estimated from model and micro-batch ({sizes}), {free}"
    if estimate <= free_bytes:
        return f"{name} should fit: {about}"
    return f"{name} may not fit: {about}" + (f"; {advice}" if advice else "")


def _trainer_short_text(forecast: Forecast, free_bytes: int, peak_bytes: int) -> str:
    """The text about a trainer that will run out of memory."""
    user, device, engine = forecast.user, forecast.plan.device, forecast.neighbour
    need, free = _distinct_gib(peak_bytes, free_bytes)
    holders = _holders_text(device, (user.component,))
    reason = f": {holders}" if holders else ""
    what = f"{user.component} will not fit: its peak was {need} GiB, {free} free on {_gpu(device)}{reason}"
    if forecast.suggested is not None:
        return f"{what}; restart {engine} with gpu_memory_utilization = {forecast.suggested:g} or less"
    lower = (
        user.training and user.training.advice(free_bytes, peak_bytes)
    ) or f"reduce the memory use of {user.component}"
    if engine:
        return f"{what}; no gpu_memory_utilization of {engine} is safe; {lower}"
    return f"{what}; free the memory first, or {lower}"


def _change_notes(users: Iterable[MemoryUser]) -> tuple[str, ...]:
    """Reasons why a peak may be a different one this time."""
    return tuple(
        f"since the last peak of {user.component}: {user.peak_note}" for user in users if user.peak_note
    )


def _holders_text(device: GpuDevice, stopped: Collection[str]) -> str:
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
