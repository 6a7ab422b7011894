from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.gpu.budget import ModelShape
from rltui.services.gpu.model_files import model_shape

QWEN3_8B: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "max_position_embeddings": 40_960,
    "torch_dtype": "bfloat16",
    "sliding_window": None,
}


def shape(config: dict[str, Any], dtype: str | None = None, kv_cache_dtype: str | None = None) -> ModelShape:
    return model_shape(config, dtype=dtype, kv_cache_dtype=kv_cache_dtype, weights_bytes=None)


def test_grouped_heads() -> None:
    assert shape(QWEN3_8B) == ModelShape(
        kv_bytes_per_token=36 * 2 * 8 * 128 * 2,
        activation_bytes_per_token=(4 * 4096 + 3 * 12288) * 2,
        logits_bytes_per_request=4 * 151_936,
        kv_heads=8,
        max_positions=40_960,
    )


@pytest.mark.parametrize(
    ("dtype", "kv_cache_dtype", "element"),
    [
        (None, None, 2),
        ("auto", "auto", 2),
        ("float32", None, 4),
        ("float32", "bfloat16", 2),
        (None, "fp8", 1),
        (None, "fp8_e4m3", 1),
    ],
)
def test_the_dtype_of_the_cache(dtype: str | None, kv_cache_dtype: str | None, element: int) -> None:
    assert shape(QWEN3_8B, dtype, kv_cache_dtype).kv_bytes_per_token == 36 * 2 * 8 * 128 * element


def test_a_cache_dtype_that_is_not_known_tells_nothing() -> None:
    assert shape(QWEN3_8B, None, "nvfp4").kv_bytes_per_token is None


def test_a_checkpoint_may_ask_for_an_8_bit_cache() -> None:
    quantised = QWEN3_8B | {"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}
    assert shape(quantised).kv_bytes_per_token == 36 * 2 * 8 * 128


@pytest.mark.parametrize(
    ("changes", "layers", "is_part"),
    [
        ({"layer_types": ["full_attention"] * 36}, 36, False),
        ({"layer_types": ["sliding_attention"] * 30 + ["full_attention"] * 6}, 6, True),
        ({"layer_types": ["sliding_attention"] * 36}, 36, False),
        ({"layer_types": ["linear_attention", "full_attention"] * 18}, 18, True),
        ({"layer_types": ["full_attention"] * 36, "num_kv_shared_layers": 16}, 20, False),
        ({"layers_block_type": ["mamba"] * 27 + ["attention"] * 9}, 9, True),
        ({"hybrid_override_pattern": "M-M*-" * 7 + "*"}, 8, True),
        ({"attn_type_list": [0, 0, 1] * 12}, 12, True),
        ({"attn_layer_period": 8, "attn_layer_offset": 4}, 4, True),
        ({"full_attention_interval": 4}, 9, True),
        ({"sliding_window_pattern": 6}, 6, True),
    ],
)
def test_only_layers_that_keep_every_token_count(changes: dict[str, Any], layers: int, is_part: bool) -> None:
    found = shape(QWEN3_8B | changes)
    assert found.kv_bytes_per_token == layers * 2 * 8 * 128 * 2
    assert found.kv_is_lower_bound is is_part


def test_latent_attention_keeps_one_vector_that_no_device_splits() -> None:
    deepseek_v3 = {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "hidden_size": 7168}
    found = shape(deepseek_v3)
    assert found.kv_bytes_per_token == 61 * 576 * 2
    assert found.kv_heads == 1


def test_a_multimodal_model_keeps_its_language_model_in_a_table() -> None:
    config = {"torch_dtype": "bfloat16", "text_config": QWEN3_8B, "vision_config": {"num_hidden_layers": 27}}
    assert shape(config) == shape(QWEN3_8B)


def test_old_names_and_experts() -> None:
    gpt2 = {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024, "vocab_size": 50_257}
    found = shape(gpt2)
    assert found.kv_bytes_per_token == 12 * 2 * 12 * 64 * 2
    assert found.max_positions == 1024
    experts = QWEN3_8B | {"moe_intermediate_size": 768, "num_experts_per_tok": 32}
    assert shape(experts).activation_bytes_per_token == (4 * 4096 + 3 * 32 * 768) * 2


def test_more_shared_layers_than_there_are() -> None:
    config = QWEN3_8B | {"layer_types": ["full_attention"] * 36, "num_kv_shared_layers": 40}
    assert shape(config).kv_bytes_per_token is None


def test_stretched_positions_are_not_guessed() -> None:
    assert shape(QWEN3_8B | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}).max_positions is None
    others: tuple[Any, ...] = ("default", [], None)
    for kind in others:
        assert shape(QWEN3_8B | {"rope_parameters": {"rope_type": kind}}).max_positions == 40_960


WORDS = st.sampled_from(
    ["", "bfloat16", "full_attention", "type", "num_hidden_layers", "kv_cache_scheme", "M*"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 200) | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
NAMES = [
    *QWEN3_8B,
    "layer_types",
    "kv_lora_rank",
    "text_config",
    "rope_scaling",
    "quantization_config",
    "num_kv_shared_layers",
    "attn_type_list",
    "hybrid_override_pattern",
    "full_attention_interval",
]


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_any_config_gives_sizes_or_nothing(changes: dict[str, Any]) -> None:
    found = shape(QWEN3_8B | changes)
    assert found.kv_bytes_per_token is None or found.kv_bytes_per_token > 0
