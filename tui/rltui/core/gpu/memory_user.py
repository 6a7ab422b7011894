"""A component with devices, as a forecast of their memory sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rltui.core.gpu.engine import EngineMemory


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """What an engine measured in an earlier attempt, read from its output. Bytes, of one device."""

    budget_bytes: int | None = None
    """`gpu_memory_utilization × total` of that attempt."""
    utilization: float | None = None
    """`gpu_memory_utilization` of that attempt: gives the budget where the output does not name it."""
    weights_bytes: int | None = None
    """`Model loading took …`."""
    kv_cache_bytes: int | None = None
    """`Available KV cache memory`."""
    kv_cache_tokens: int | None = None
    graphs_bytes: int | None = None
    """CUDA graphs, as captured."""
    version: tuple[int, int] | None = None
    """vLLM's."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a model's files say of its size."""

    weights_bytes: int | None = None
    """In the dtype it is loaded with, over all devices."""
    kv_bytes_per_token: int | None = None
    """Over all layers and heads, in the dtype of the cache, over all devices."""
    activation_bytes_per_token: int | None = None
    """Rough: peak of a forward pass, per token of the batch."""
    logits_bytes_per_request: int | None = None
    """Vocabulary × 4 bytes."""
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
    """`GpuDevice.key` of each, in its own order."""
    starts: bool = False
    """It is, or would be, started now."""
    stops: bool = False
    """What it holds now is given back before anything starts."""
    engine: EngineMemory | None = None
    """It is an inference engine; else a trainer or the like, which takes what it needs."""
    figures: EngineFigures | None = None
    """Of the engine's last attempt with the same model."""
    shape: ModelShape | None = None
    """Of the engine's model."""
    peak_bytes: Mapping[str, int] = field(default_factory=dict)
    """By device key: most it held in its last attempt."""
    peak_note: str = ""
    """What is different now from that attempt: `seq_len was 2048, is 4096`."""
