"""How much of an engine's budget remains for keys and values, and how many requests that holds. Pure.

vLLM: KV cache = budget - weights - peak activation [- CUDA graphs] (`reference/vllm.md`, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

from rltui.core.gpu.budget import GRAPHS_BYTES, share_bytes
from rltui.core.gpu.engine import EngineMemory
from rltui.core.gpu.memory_user import EngineFigures, ModelShape
from rltui.core.gpu.vllm_rules import VllmRule, rule
from rltui.core.text import GIB

LARGE_DEVICE_BYTES = 70 * GIB
"""vLLM's server takes larger batches by default on devices from this size on, A100 excepted
(`EngineArgs.get_batch_defaults`, 0.10 to 0.32)."""
_DEFAULT_TOKENS, _DEFAULT_SEQS = 2048, 256
_LARGE_TOKENS, _LARGE_SEQS = 8192, 1024


@dataclass(frozen=True, slots=True)
class KvCache:
    """Of one instance, on one of its devices."""

    size_bytes: int
    """Not above 0: there is no room, and vLLM does not start."""
    tokens: int | None = None
    requests: float | None = None
    """How many of the longest requests fit at once; below 1 vLLM does not start."""
    longest_request: int | None = None
    """In tokens."""
    notes: tuple[str, ...] = ()

    @property
    def suffices(self) -> bool:
        """It is enough for vLLM to start, as far as is known."""
        return self.size_bytes > 0 and (self.requests is None or self.requests >= 1)


def engine_rule(engine: EngineMemory, figures: EngineFigures | None) -> VllmRule:
    """The rule of the engine's version; where that is not known, of the one that its last attempt named."""
    return rule(engine.version or (figures.version if figures else None))


def kv_cache(
    engine: EngineMemory,
    usable_bytes: int,
    *,
    figures: EngineFigures | None = None,
    shape: ModelShape | None = None,
) -> KvCache | None:
    """What remains on a device of this size; `None` where neither figures nor model tell."""
    if engine.kv_cache_memory_bytes is not None:
        note = "KV cache: its size is set by kv_cache_memory_bytes, not by gpu_memory_utilization"
        size = engine.kv_cache_memory_bytes
    else:
        kept = kept_bytes(engine, usable_bytes, figures=figures, shape=shape)
        if kept is None:
            return None
        size, note = share_bytes(usable_bytes, engine.utilization) - kept[0], kept[1]
    notes = [note]
    longest = engine.max_model_len or (shape.max_positions if shape else None)
    per_token = _bytes_per_token(engine, figures, shape)
    if not per_token:
        return KvCache(size, longest_request=longest, notes=tuple(notes))
    if shape and shape.kv_is_lower_bound and not _measured_per_token(figures):
        notes.append("KV cache: at most so many tokens; layers that keep a window or a state are left out")
    tokens = int(max(0, size) / per_token)
    return KvCache(size, tokens, tokens / longest if longest else None, longest, tuple(notes))


def kept_bytes(
    engine: EngineMemory,
    usable_bytes: int,
    *,
    figures: EngineFigures | None = None,
    shape: ModelShape | None = None,
) -> tuple[int, str] | None:
    """What of the budget is no KV cache, on each device, and in words how that is known."""
    if (measured := _measured_kept(usable_bytes, figures)) is not None:
        return measured, "KV cache: as measured in the last attempt with this model"
    weights = _weights(engine, figures, shape)
    if weights is None:
        return None
    large = usable_bytes >= LARGE_DEVICE_BYTES
    tokens = engine.max_num_batched_tokens or (_LARGE_TOKENS if large else _DEFAULT_TOKENS)
    requests = engine.max_num_seqs or (_LARGE_SEQS if large else _DEFAULT_SEQS)
    forward = tokens * ((shape.activation_bytes_per_token if shape else None) or 0)
    logits = 2 * requests * ((shape.logits_bytes_per_request if shape else None) or 0)  # and a copy
    graphs = 0
    if engine_rule(engine, figures).graphs_in_budget and not engine.enforce_eager:
        graphs = GRAPHS_BYTES
    return (
        weights + max(forward, logits) + graphs,
        "KV cache: estimated from the model's files; activations roughly",
    )


def earlier_budget(figures: EngineFigures | None, usable_bytes: int) -> int | None:
    """The budget of the attempt that these figures are from, on a device as large as this one."""
    if figures is None:
        return None
    if figures.budget_bytes is None and figures.utilization is not None:
        return share_bytes(usable_bytes, figures.utilization)
    return figures.budget_bytes


def _measured_kept(usable_bytes: int, figures: EngineFigures | None) -> int | None:
    budget = earlier_budget(figures, usable_bytes)
    if figures is None or figures.kv_cache_bytes is None or budget is None:
        return None
    return budget - figures.kv_cache_bytes if budget >= figures.kv_cache_bytes else None


def _weights(engine: EngineMemory, figures: EngineFigures | None, shape: ModelShape | None) -> int | None:
    if figures is not None and figures.weights_bytes is not None:
        return figures.weights_bytes
    if shape is None or shape.weights_bytes is None:
        return None
    return shape.weights_bytes // engine.tensor_parallel


def _measured_per_token(figures: EngineFigures | None) -> float | None:
    if figures is None or not figures.kv_cache_bytes or not figures.kv_cache_tokens:
        return None
    return figures.kv_cache_bytes / figures.kv_cache_tokens


def _bytes_per_token(
    engine: EngineMemory, figures: EngineFigures | None, shape: ModelShape | None
) -> float | None:
    """On each device: heads are spread over the devices, as far as there are heads."""
    if measured := _measured_per_token(figures):
        return measured
    if shape is None or shape.kv_bytes_per_token is None:
        return None
    parts = min(engine.tensor_parallel, shape.kv_heads or engine.tensor_parallel)
    return shape.kv_bytes_per_token / parts
