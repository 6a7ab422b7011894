"""The memory that an engine claims of a device: vLLM's rules, its start check and its KV cache. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from rltui.core.gpu.report import GpuDevice
from rltui.core.gpu.training import TrainingNeed
from rltui.core.text import GIB


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """An engine's behaviour from version `since` up to the next rule."""

    since: tuple[int, int]
    graphs_in_budget: bool
    """CUDA graphs count within the budget; otherwise they come on top, commonly 0.3 to 3 GiB."""
    start_refusal: str
    """The beginning of the start check's error: a template of `device`, the index inside the process's
    `CUDA_VISIBLE_DEVICES`, of `free`, `total` and `budget` in GiB, and of `utilization`.
    """

    def refusal(
        self, *, free_bytes: int, usable_bytes: int, utilization: float, budget_bytes: int, local_device: int
    ) -> str:
        """The beginning of the start check's error, with the predicted sizes."""
        return self.start_refusal.format(
            device=local_device,
            free=free_bytes / GIB,
            total=usable_bytes / GIB,
            budget=budget_bytes / GIB,
            utilization=utilization,
        )


@dataclass(frozen=True, slots=True)
class EngineRules:
    """The memory rules of an engine by its versions."""

    title: str
    """Its name, for people."""
    versions: tuple[MemoryRule, ...]
    """Newest first. The last one also stands for earlier versions."""

    def of(self, version: tuple[int, int] | None) -> MemoryRule:
        """The rule of a version such as (0, 16); an unknown version, `None`, gets the newest rule."""
        if version is None:
            return self.versions[0]
        return next((entry for entry in self.versions if version >= entry.since), self.versions[-1])


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """One inference server. Names and meaning are those of vLLM's engine arguments."""

    component: str
    utilization: float
    """`gpu_memory_utilization`: share of each device's total, per instance."""
    rules: EngineRules = field(kw_only=True)
    model: str | None = None
    """Folder, relative to the workspace, or name on the hub."""
    dtype: str | None = None
    """`None` or `auto`: the dtype of the model's config."""
    kv_cache_dtype: str | None = None
    """`None` or `auto`: the dtype of the model."""
    tensor_parallel: int = 1
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool = False
    """The engine captures no CUDA graphs."""
    kv_cache_memory_bytes: int | None = None
    """Size of the KV cache, whatever `utilization` says; the start check still uses `utilization`."""
    version: tuple[int, int] | None = None
    """The engine's version, such as (0, 16); `None` if unknown: the newest rules apply."""


@dataclass(frozen=True, slots=True)
class EngineMeasurements:
    """Sizes that an engine printed in an earlier attempt, in bytes of one device."""

    budget_bytes: int | None = None
    """`gpu_memory_utilization × total` of that attempt."""
    utilization: float | None = None
    """`gpu_memory_utilization` of that attempt: gives the budget if the output does not name it."""
    weights_bytes: int | None = None
    """`Model loading took …`."""
    kv_cache_bytes: int | None = None
    """`Available KV cache memory`."""
    kv_cache_tokens: int | None = None
    graphs_bytes: int | None = None
    """Size of the captured CUDA graphs."""
    version: tuple[int, int] | None = None
    """Version of vLLM in that attempt."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a model according to its files."""

    weights_bytes: int | None = None
    """Sum over all devices, in the dtype the weights are loaded with."""
    kv_bytes_per_token: int | None = None
    """Sum over all layers, heads and devices, in the dtype of the cache."""
    activation_bytes_per_token: int | None = None
    """Rough peak of a forward pass, per token of the batch."""
    logits_bytes_per_request: int | None = None
    """Size of the vocabulary × 4 bytes."""
    kv_heads: int | None = None
    """Most devices over which keys and values can be split; each one beyond holds a copy."""
    kv_is_lower_bound: bool = False
    """Some layers are left out of `kv_bytes_per_token`: they keep a window, or a state of constant size."""
    max_positions: int | None = None
    """Longest request that the model takes: vLLM's `max_model_len` where nobody sets it."""


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
    measurements: EngineMeasurements | None = None
    """Measurements of the engine's last attempt with the same model."""
    shape: ModelShape | None = None
    peak_bytes: Mapping[str, int] = field(default_factory=dict)
    """Device key → most memory it held there in its last attempt."""
    training: TrainingNeed | None = None
    """The estimated need of a supervised trainer."""
    peak_note: str = ""
    """The difference between now and the attempt with the peak: `seq_len was 2048, is 4096`."""


CONTEXT_BYTES = round(0.6 * GIB)
"""CUDA context of a process, outside of every budget: 0.3 to 0.6 GiB (`facts/vllm.md`, Memory budget)."""
GRAPHS_BYTES = GIB
"""Assumed size of CUDA graphs that no attempt has measured; 0.3 to 3 GiB are common."""
MARGIN_BYTES = GIB
"""Memory to leave free beside engine and trainer: samples one second apart miss short peaks, and an
allocator that is nearly full fragments.
"""


def share_bytes(usable_bytes: int, utilization: float) -> int:
    """VLLM's budget, with its own rounding: `ceil(total × utilization)`, `total` as CUDA has it."""
    return math.ceil(usable_bytes * utilization)


def budget_bytes(device: GpuDevice, utilization: float) -> int | None:
    """Bytes that an instance with this utilization claims there; `None` if the device's size is unknown."""
    usable = device.usable_bytes
    return None if usable is None else share_bytes(usable, utilization)


def passes_start_check(free_bytes: int, budget_bytes: int) -> bool:
    """VLLM starts only if its whole budget is free, even if it would need less."""
    return free_bytes >= budget_bytes


def largest_passing_utilization(device: GpuDevice, free_bytes: int) -> float | None:
    """Largest utilization, in steps of 0.01, that starts with this much free; `None` if none does.

    vLLM checks after it has made its CUDA context: at least 0.01 of the total is kept for that, or all of
    `CONTEXT_BYTES` on a device where 0.01 is less. On unified memory "free" is what the system has available.
    """
    usable = device.usable_bytes
    if not usable:
        return None
    context_bytes = max(CONTEXT_BYTES, math.ceil(usable / 100))
    return utilization_within(usable, free_bytes - context_bytes)


def passing_utilization(free: float, total: float) -> float:
    """Largest utilization, in steps of 0.01, that passes with the sizes of vLLM's own refusal; 0 if none
    does.

    vLLM measured with its context made; one step is kept for the next context (`facts/nvml.md`, Against
    vLLM's budget).

    Args:
        free: in the unit of `total`, as the refusal names both.
        total: as CUDA has it.
    """
    return max(0.0, (math.floor(free / total * 100) - 1) / 100) if total > 0 else 0.0


def utilization_within(usable_bytes: int, room_bytes: int) -> float | None:
    """Largest utilization, in steps of 0.01 up to 1, that claims at most `room_bytes`; `None` where none."""
    hundredths = min(100, room_bytes * 100 // usable_bytes)
    while hundredths >= 1 and share_bytes(usable_bytes, hundredths / 100) > room_bytes:
        hundredths -= 1  # the budget is rounded up
    return hundredths / 100 if hundredths >= 1 else None


def overhead_bytes(rule: MemoryRule, *, eager: bool = False, graphs_bytes: int | None = None) -> int:
    """Bytes that an engine takes beside its budget: its CUDA context, and in old versions its CUDA graphs.

    Args:
        rule: of its version.
        eager: it makes no graphs.
        graphs_bytes: as measured in an earlier attempt; `None` takes `GRAPHS_BYTES`.
    """
    if eager or rule.graphs_in_budget:
        return CONTEXT_BYTES
    return CONTEXT_BYTES + (GRAPHS_BYTES if graphs_bytes is None else graphs_bytes)


def safe_utilization(
    device: GpuDevice, *, room_bytes: int, overhead_bytes: int, trainer_bytes: int
) -> float | None:
    """Largest utilization, rounded down to 0.01, that leaves the trainers their peak and `MARGIN_BYTES`.

    Args:
        device: that they share.
        room_bytes: memory for the engine and the trainers together: without what all others hold.
        overhead_bytes: of the engine, beside its budget.
        trainer_bytes: peak of the trainers, as NVML counts it: with their CUDA contexts.
    """
    usable = device.usable_bytes
    if not usable:
        return None
    return utilization_within(usable, room_bytes - overhead_bytes - trainer_bytes - MARGIN_BYTES)


_LARGE_DEVICE_BYTES = 70 * GIB
"""vLLM's server takes larger batches by default on devices from this size on, A100 excepted
(`EngineArgs.get_batch_defaults`, 0.10 to 0.32)."""
_DEFAULT_TOKENS, _DEFAULT_SEQS = 2048, 256
_LARGE_TOKENS, _LARGE_SEQS = 8192, 1024


@dataclass(frozen=True, slots=True)
class KvCache:
    """The KV cache of one instance, on one of its devices."""

    size_bytes: int
    """If it is not above 0, there is no room and vLLM does not start."""
    tokens: int | None = None
    requests: float | None = None
    """Number of the longest requests that fit at once; below 1 vLLM does not start."""
    longest_request: int | None = None
    """Length of the longest request, in tokens."""
    notes: tuple[str, ...] = ()

    @property
    def suffices(self) -> bool:
        """The cache is large enough for vLLM to start, as far as is known."""
        return self.size_bytes > 0 and (self.requests is None or self.requests >= 1)


def engine_rule(engine: EngineMemory, measurements: EngineMeasurements | None) -> MemoryRule:
    """The rule of the engine's version, or of the version that its last attempt named."""
    return engine.rules.of(engine.version or (measurements.version if measurements else None))


def kv_cache(
    engine: EngineMemory,
    usable_bytes: int,
    measurements: EngineMeasurements | None,
    shape: ModelShape | None,
) -> KvCache | None:
    """The cache on a device of this size; `None` if neither measurements nor the model's files tell its
    size.
    """
    if engine.kv_cache_memory_bytes is not None:
        note = "KV cache: size set by kv_cache_memory_bytes, not by gpu_memory_utilization"
        size = engine.kv_cache_memory_bytes
    else:
        non_cache = non_cache_bytes(engine, usable_bytes, measurements, shape)
        if non_cache is None:
            return None
        size, note = share_bytes(usable_bytes, engine.utilization) - non_cache[0], non_cache[1]
    notes = [note]
    longest = engine.max_model_len or (shape.max_positions if shape else None)
    per_token = _bytes_per_token(engine, measurements, shape)
    if not per_token:
        return KvCache(size, longest_request=longest, notes=tuple(notes))
    if shape and shape.kv_is_lower_bound and not _measured_per_token(measurements):
        notes.append("KV cache: upper bound; sliding-window and state layers are not counted")
    tokens = int(max(0, size) / per_token)
    return KvCache(size, tokens, tokens / longest if longest else None, longest, tuple(notes))


def non_cache_bytes(
    engine: EngineMemory,
    usable_bytes: int,
    measurements: EngineMeasurements | None,
    shape: ModelShape | None,
) -> tuple[int, str] | None:
    """Bytes of the budget that are not KV cache, on each device, and a note on how that is known."""
    if (measured_bytes := _measured_non_cache(usable_bytes, measurements)) is not None:
        return measured_bytes, "KV cache: measured in the last attempt with this model"
    weights = _weights(engine, measurements, shape)
    if weights is None:
        return None
    large = usable_bytes >= _LARGE_DEVICE_BYTES
    tokens = engine.max_num_batched_tokens or (_LARGE_TOKENS if large else _DEFAULT_TOKENS)
    requests = engine.max_num_seqs or (_LARGE_SEQS if large else _DEFAULT_SEQS)
    forward = tokens * ((shape.activation_bytes_per_token if shape else None) or 0)
    logits = 2 * requests * ((shape.logits_bytes_per_request if shape else None) or 0)  # and a copy
    graphs = 0
    if engine_rule(engine, measurements).graphs_in_budget and not engine.enforce_eager:
        graphs = GRAPHS_BYTES
    return (
        weights + max(forward, logits) + graphs,
        "KV cache: estimated from the model's files; activations are approximate",
    )


def earlier_budget(measurements: EngineMeasurements | None, usable_bytes: int) -> int | None:
    """The budget of the attempt with these measurements, on a device as large as this one."""
    if measurements is None:
        return None
    if measurements.budget_bytes is None and measurements.utilization is not None:
        return share_bytes(usable_bytes, measurements.utilization)
    return measurements.budget_bytes


def _measured_non_cache(usable_bytes: int, measurements: EngineMeasurements | None) -> int | None:
    budget = earlier_budget(measurements, usable_bytes)
    if measurements is None or measurements.kv_cache_bytes is None or budget is None:
        return None
    return budget - measurements.kv_cache_bytes if budget >= measurements.kv_cache_bytes else None


def _weights(
    engine: EngineMemory, measurements: EngineMeasurements | None, shape: ModelShape | None
) -> int | None:
    if measurements is not None and measurements.weights_bytes is not None:
        return measurements.weights_bytes
    if shape is None or shape.weights_bytes is None:
        return None
    return shape.weights_bytes // engine.tensor_parallel


def _measured_per_token(measurements: EngineMeasurements | None) -> float | None:
    if measurements is None or not measurements.kv_cache_bytes or not measurements.kv_cache_tokens:
        return None
    return measurements.kv_cache_bytes / measurements.kv_cache_tokens


def _bytes_per_token(
    engine: EngineMemory, measurements: EngineMeasurements | None, shape: ModelShape | None
) -> float | None:
    """Bytes on each device: heads are spread over the devices, as far as there are heads."""
    if measurement := _measured_per_token(measurements):
        return measurement
    if shape is None or shape.kv_bytes_per_token is None:
        return None
    shards = min(engine.tensor_parallel, shape.kv_heads or engine.tensor_parallel)
    return shape.kv_bytes_per_token / shards
