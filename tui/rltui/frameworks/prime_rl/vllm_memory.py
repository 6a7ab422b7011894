"""What a config of any generation says of vLLM's memory."""

from __future__ import annotations

from rltui.core.gpu.engine import EngineMemory
from rltui.core.knobs import TomlValue

DEFAULT_UTILIZATION = 0.9
"""vLLM's own; prime-rl does not change it."""


def engine(
    *,
    utilization: TomlValue,
    utilization_knob: str,
    model: str | None,
    dtype: str | None,
    tensor_parallel: int,
    max_model_len: int | None,
    enforce_eager: bool,
    version: tuple[int, int],
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    kv_cache_dtype: str | None = None,
    kv_cache_memory_bytes: int | None = None,
) -> EngineMemory | None:
    """The engine of the component `inference`; `None` where `utilization` is no share."""
    share = DEFAULT_UTILIZATION if utilization is None else utilization
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        return None
    return EngineMemory(
        "inference",
        float(share),
        utilization_knob=utilization_knob,
        model=model,
        dtype=dtype,
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel=max(1, tensor_parallel),
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        enforce_eager=enforce_eager,
        kv_cache_memory_bytes=kv_cache_memory_bytes,
        version=version,
    )
