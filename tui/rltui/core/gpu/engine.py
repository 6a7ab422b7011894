"""What a config says of an inference engine, as far as it decides about device memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """One inference server. Names and meaning are those of vLLM's engine arguments."""

    component: str
    utilization: float
    """`gpu_memory_utilization`: share of each device's total, per instance."""
    utilization_knob: str = ""
    """Knob that sets it, as `rltui set` takes it; empty where there is none."""
    model: str | None = None
    """Folder, relative to the workspace, or name on the hub."""
    dtype: str | None = None
    """`None` or `auto`: as the model's config says."""
    kv_cache_dtype: str | None = None
    """`None` or `auto`: that of the model."""
    tensor_parallel: int = 1
    """Devices that share each copy of the model."""
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool = False
    """No CUDA graphs."""
    kv_cache_memory_bytes: int | None = None
    """Set: the KV cache has this size, whatever `utilization`; the start check still uses that."""
    version: tuple[int, int] | None = None
    """vLLM's, such as (0, 16); `None` where it is not known: then the newest rules apply."""
