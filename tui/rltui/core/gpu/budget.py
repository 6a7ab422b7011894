"""The memory that an engine claims of a device: vLLM's rules, its start check and its KV cache. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rltui.base.text import GIB


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

    @property
    def bytes_per_token(self) -> float | None:
        if not self.kv_cache_bytes or not self.kv_cache_tokens:
            return None
        return self.kv_cache_bytes / self.kv_cache_tokens


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


CONTEXT_BYTES = round(0.6 * GIB)
"""CUDA context of a process, outside of every budget: 0.3 to 0.6 GiB (`facts/vllm.md`, Memory budget)."""
GRAPHS_BYTES = GIB
"""Assumed size of CUDA graphs that no attempt has measured; 0.3 to 3 GiB are common."""
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
    """The engine's version, such as (0, 16); `None` if unknown: that of its last attempt, else the newest."""
    measured: EngineMeasurements = field(default_factory=EngineMeasurements)
    """Sizes that its last attempt with the same model printed."""
    shape: ModelShape = field(default_factory=ModelShape)

    @property
    def rule(self) -> MemoryRule:
        return self.rules.of(self.version or self.measured.version)

    def budget_bytes(self, usable_bytes: int) -> int:
        """Memory that an instance claims of a device of this size."""
        return share_bytes(usable_bytes, self.utilization)

    def earlier_budget_bytes(self, usable_bytes: int) -> int | None:
        """The budget of its last attempt, on a device as large as this one."""
        measured = self.measured
        if measured.budget_bytes is None and measured.utilization is not None:
            return share_bytes(usable_bytes, measured.utilization)
        return measured.budget_bytes

    @property
    def overhead_bytes(self) -> int:
        """Bytes beside its budget: its CUDA context, and in old versions its CUDA graphs."""
        if self.enforce_eager or self.rule.graphs_in_budget:
            return CONTEXT_BYTES
        graphs_bytes = self.measured.graphs_bytes
        return CONTEXT_BYTES + (GRAPHS_BYTES if graphs_bytes is None else graphs_bytes)

    def serving_bytes(self, usable_bytes: int) -> int:
        """Memory without overhead that it holds once it serves: its budget, or what a cache of set size
        makes of it.
        """
        if self.kv_cache_memory_bytes is not None:
            non_cache = self._non_cache_bytes(usable_bytes)
            if non_cache is not None:
                return non_cache[0] + self.kv_cache_memory_bytes
        return self.budget_bytes(usable_bytes)

    def kv_cache(self, usable_bytes: int) -> KvCache | None:
        """The cache on a device of this size; `None` if neither measurements nor the model's files tell its
        size.
        """
        if self.kv_cache_memory_bytes is not None:
            note = "KV cache: size set by kv_cache_memory_bytes, not by gpu_memory_utilization"
            size = self.kv_cache_memory_bytes
        else:
            non_cache = self._non_cache_bytes(usable_bytes)
            if non_cache is None:
                return None
            size, note = self.budget_bytes(usable_bytes) - non_cache[0], non_cache[1]
        notes = [note]
        longest = self.max_model_len or self.shape.max_positions
        measured_per_token = self.measured.bytes_per_token
        per_token = measured_per_token or self._shape_bytes_per_token()
        if not per_token:
            return KvCache(size, longest_request=longest, notes=tuple(notes))
        if self.shape.kv_is_lower_bound and not measured_per_token:
            notes.append("KV cache: upper bound; sliding-window and state layers are not counted")
        tokens = int(max(0, size) / per_token)
        return KvCache(size, tokens, tokens / longest if longest else None, longest, tuple(notes))

    def _non_cache_bytes(self, usable_bytes: int) -> tuple[int, str] | None:
        """Bytes of the budget that are not KV cache, on each device, and a note on how that is known."""
        budget, cache_bytes = self.earlier_budget_bytes(usable_bytes), self.measured.kv_cache_bytes
        if budget is not None and cache_bytes is not None and budget >= cache_bytes:
            return budget - cache_bytes, "KV cache: measured in the last attempt with this model"
        weights, shape = self.measured.weights_bytes, self.shape
        if weights is None and shape.weights_bytes is not None:
            weights = shape.weights_bytes // self.tensor_parallel
        if weights is None:
            return None
        large = usable_bytes >= _LARGE_DEVICE_BYTES
        tokens = self.max_num_batched_tokens or (_LARGE_TOKENS if large else _DEFAULT_TOKENS)
        requests = self.max_num_seqs or (_LARGE_SEQS if large else _DEFAULT_SEQS)
        forward = tokens * (shape.activation_bytes_per_token or 0)
        logits = 2 * requests * (shape.logits_bytes_per_request or 0)  # and a copy
        graphs = GRAPHS_BYTES if self.rule.graphs_in_budget and not self.enforce_eager else 0
        return (
            weights + max(forward, logits) + graphs,
            "KV cache: estimated from the model's files; activations are approximate",
        )

    def _shape_bytes_per_token(self) -> float | None:
        """Bytes on each device: heads are spread over the devices, as far as there are heads."""
        if self.shape.kv_bytes_per_token is None:
            return None
        return self.shape.kv_bytes_per_token / min(
            self.tensor_parallel, self.shape.kv_heads or self.tensor_parallel
        )


def share_bytes(usable_bytes: int, utilization: float) -> int:
    """VLLM's budget, with its own rounding: `ceil(total × utilization)`, `total` as CUDA has it."""
    return math.ceil(usable_bytes * utilization)


def largest_passing_utilization(usable_bytes: int, free_bytes: int) -> float | None:
    """Largest utilization, in steps of 0.01, that starts with this much free; `None` if none does.

    vLLM checks after it has made its CUDA context: at least 0.01 of the total is kept for that, or all of
    `CONTEXT_BYTES` on a device where 0.01 is less. On unified memory "free" is what the system has available.
    """
    context_bytes = max(CONTEXT_BYTES, math.ceil(usable_bytes / 100))
    return utilization_within(usable_bytes, free_bytes - context_bytes)


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
