"""What a Hugging Face `config.json` says of a model's memory, besides its weights. Pure; takes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltui.core.gpu.memory_user import ModelShape

Config = Mapping[str, Any]

_BYTES = {"float64": 8, "float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
_FULL = frozenset({"full_attention", "attention", "hybrid"})
_WINDOWED = frozenset({"sliding_attention", "chunked_attention"})


def model_shape(
    config: Config, *, dtype: str | None, kv_cache_dtype: str | None, weights_bytes: int | None
) -> ModelShape:
    """All that can be told; what cannot stays `None`.

    Args:
        config: the parsed file, of whatever model.
        dtype: vLLM's argument; `None` and `auto` mean that of the config.
        kv_cache_dtype: vLLM's argument; `None` and `auto` mean that of the model.
        weights_bytes: as they are loaded.
    """
    text = text_config(config)
    element = loaded_bytes(dtype)
    kv_element = _kv_element_bytes(config, kv_cache_dtype, element)
    heads = _kv_heads(text)
    per_layer = _kv_elements_per_layer(text, heads)
    layers, is_part = _layers_with_cache(text)
    vocabulary = _number(text, "vocab_size")
    return ModelShape(
        weights_bytes=weights_bytes,
        kv_bytes_per_token=per_layer * layers * kv_element if per_layer and layers and kv_element else None,
        activation_bytes_per_token=_activation_bytes(text, element),
        logits_bytes_per_request=4 * vocabulary if vocabulary else None,
        kv_heads=heads,
        kv_is_lower_bound=is_part,
        max_positions=_max_positions(text),
    )


def text_config(config: Config) -> Config:
    """The part on the language model, which multimodal models keep in a table of its own."""
    parts = [config.get(name) for name in _TEXT_PARTS]
    found = next((part for part in parts if isinstance(part, Mapping) and _number(part, *_LAYERS)), None)
    return config if found is None else found


def loaded_bytes(dtype: str | None) -> int:
    """Bytes per element of the weights in memory.

    With `auto`, vLLM loads float32 models in 16 bits (`ModelConfig.dtype`: "auto").
    """
    if dtype and dtype != "auto":
        return _BYTES.get(dtype.removeprefix("torch."), 2)
    return 2


def stored_bytes(config: Config) -> int:
    """Bytes per element of the weights in their files."""
    for part in (config, text_config(config)):
        name = part.get("dtype") or part.get("torch_dtype")
        if isinstance(name, str):
            return _BYTES.get(name, 2)
    return 4  # what transformers saves where nothing is said


_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_HEADS = ("num_attention_heads", "n_head")
_HIDDEN = ("hidden_size", "n_embd", "d_model")


def _kv_element_bytes(config: Config, kv_cache_dtype: str | None, element: int) -> int | None:
    if kv_cache_dtype and kv_cache_dtype != "auto":
        return 1 if kv_cache_dtype.startswith("fp8") else _BYTES.get(kv_cache_dtype)
    quantization = config.get("quantization_config")
    scheme = quantization.get("kv_cache_scheme") if isinstance(quantization, Mapping) else None
    return 1 if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8 else element


def _kv_heads(config: Config) -> int | None:
    if _number(config, "kv_lora_rank"):
        return 1  # latent attention: every device keeps all of it
    if config.get("multi_query") is True:
        return 1
    return _number(config, "num_key_value_heads", "num_kv_heads", "multi_query_group_num", *_HEADS)


def _kv_elements_per_layer(config: Config, kv_heads: int | None) -> int | None:
    if rank := _number(config, "kv_lora_rank"):
        return rank + (_number(config, "qk_rope_head_dim") or 0)
    heads, hidden = _number(config, *_HEADS), _number(config, *_HIDDEN)
    size = _number(config, "head_dim") or (hidden // heads if heads and hidden else None)
    return 2 * kv_heads * size if kv_heads and size else None


def _layers_with_cache(config: Config) -> tuple[int | None, bool]:
    """How many layers keep every token, and whether there are others, which keep a window or a state."""
    total = _number(config, *_LAYERS)
    if total is None:
        return None, False
    kinds = config.get("layer_types") or config.get("layers_block_type")
    if isinstance(kinds, Sequence) and not isinstance(kinds, str) and kinds:
        own = kinds[: max(0, len(kinds) - (_number(config, "num_kv_shared_layers") or 0))]
        full = sum(isinstance(kind, str) and kind in _FULL for kind in own)
        windowed = sum(isinstance(kind, str) and kind in _WINDOWED for kind in own)
        kept = full or windowed
        return kept or None, kept < len(own)
    kept = _layers_by_rule(config, total)
    return kept or None, kept < total


def _layers_by_rule(config: Config, total: int) -> int:
    """For configs that give no list by names."""
    pattern, flags = config.get("hybrid_override_pattern"), config.get("attn_type_list")
    if isinstance(pattern, str):  # Nemotron-H: M a state, - an MLP, * attention
        return pattern.count("*")
    if isinstance(flags, Sequence):  # MiniMax: 0 linear, 1 full
        return sum(flag == 1 for flag in flags)
    if period := _number(config, "attn_layer_period"):  # Jamba
        return len(range(_number(config, "attn_layer_offset") or 0, total, period))
    interval = _number(config, "full_attention_interval", "sliding_window_pattern")  # Qwen3-Next, Gemma 3
    return total // interval if interval else total


def _activation_bytes(config: Config, element: int) -> int | None:
    """Residual, attention and the MLP's intermediate values of one layer; they are reused by the next."""
    hidden, inner = _number(config, *_HIDDEN), _number(config, "intermediate_size", "n_inner", "ffn_dim") or 0
    experts = _number(config, "moe_intermediate_size") or 0
    active = _number(config, "num_experts_per_tok") or 1
    return (4 * hidden + 3 * max(inner, experts * active)) * element if hidden else None


def _max_positions(config: Config) -> int | None:
    """`None` also where the positions are stretched by a factor: vLLM then has rules per kind."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters")
    if isinstance(scaling, Mapping) and (scaling.get("rope_type") or scaling.get("type")) in _STRETCHED:
        return None
    return _number(config, "max_position_embeddings", "n_positions")


_STRETCHED = ("yarn", "linear", "dynamic")


def _number(config: Config, *names: str) -> int | None:
    """The first of these that is a whole number above 0."""
    values = (config.get(name) for name in names)
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0), None)
