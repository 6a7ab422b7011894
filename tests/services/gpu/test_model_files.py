from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.core.gpu.budget import ModelShape
from rltui.services.gpu.model_files import (
    hub_commit,
    model_folder,
    model_shape,
    read_shape,
    read_training_shape,
)

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


def test_what_training_takes(tmp_path: Path) -> None:
    """As torch counted it for Qwen3-0.6B (`facts/prime-rl.md`, Memory of the trainer)."""
    config = {**QWEN3_8B, "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_training_shape(tmp_path) is None, "no weights yet"
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 1200}}')
    found = read_training_shape(tmp_path)
    assert found is not None
    assert (found.parameters, found.layers, found.hidden, found.vocabulary) == (600, 36, 1024, 151_936)
    assert abs(found.layer_bytes_per_token - 71_848) < 0.01 * 71_848
    assert read_training_shape(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("dtype", "kv_cache_dtype", "element"),
    [
        (None, None, 2),
        ("auto", "auto", 2),
        ("float32", None, 4),
        ("float32", "bfloat16", 2),
        (None, "fp8", 1),
        (None, "fp8_e4m3", 1),
        (None, "nvfp4", None),
    ],
)
def test_the_dtype_of_the_cache(dtype: str | None, kv_cache_dtype: str | None, element: int | None) -> None:
    size = None if element is None else 36 * 2 * 8 * 128 * element
    assert shape(QWEN3_8B, dtype, kv_cache_dtype).kv_bytes_per_token == size


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
    *QWEN3_8B, "layer_types", "kv_lora_rank", "text_config", "rope_scaling", "quantization_config",
    "num_kv_shared_layers", "attn_type_list", "hybrid_override_pattern", "full_attention_interval",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_any_config_gives_sizes_or_nothing(changes: dict[str, Any]) -> None:
    found = shape(QWEN3_8B | changes)
    assert found.kv_bytes_per_token is None or found.kv_bytes_per_token > 0


CONFIG = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
Tensors = Mapping[str, tuple[str, int]]
"""By name: dtype and bytes."""


def write_header(file: Path, tensors: Tensors) -> None:
    """A safetensors file as far as it is read: no weights."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [size], "data_offsets": [offset, offset + size]}
        offset += size
    data = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(data)) + data)


def model(folder: Path, tensors: Tensors | None = None, **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    if tensors is not None:
        write_header(folder / "model.safetensors", tensors)
    return folder


def weights(folder: Path, dtype: str | None = None) -> int | None:
    found = read_shape(folder, dtype=dtype, kv_cache_dtype=None)
    assert found is not None
    return found.weights_bytes


@pytest.mark.parametrize(
    ("stored", "dtype", "size"),
    [
        ("BF16", None, 1000),
        ("BF16", "float32", 2000),
        ("F32", None, 500),
        ("F32", "float32", 1000),
        ("F8_E4M3", None, 1000),
        ("I32", "float16", 1000),
    ],
)
def test_floats_are_converted_when_loaded(tmp_path: Path, stored: str, dtype: str | None, size: int) -> None:
    assert weights(model(tmp_path, {"a": (stored, 600), "b": (stored, 400)}), dtype) == size


def test_an_output_layer_that_is_the_embedding_counts_once(tmp_path: Path) -> None:
    tensors = {"model.embed_tokens.weight": ("BF16", 600), "lm_head.weight": ("BF16", 600)}
    assert weights(model(tmp_path / "tied", tensors, tie_word_embeddings=True)) == 600
    assert weights(model(tmp_path / "untied", tensors)) == 1200


def test_shards_add_up(tmp_path: Path) -> None:
    model(tmp_path)
    index = {"metadata": {"total_size": 777}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    write_header(tmp_path / "m-1.safetensors", {"a": ("BF16", 300)})
    assert weights(tmp_path) == 777, "a missing shard: the index knows"
    write_header(tmp_path / "m-2.safetensors", {"b": ("BF16", 200)})
    assert weights(tmp_path) == 500


@pytest.mark.parametrize(
    ("config", "dtype", "size"),
    [
        ({}, None, 800),
        ({}, "float32", 1600),
        ({"torch_dtype": "float32"}, None, 400),
        ({"torch_dtype": None, "text_config": CONFIG}, None, 800),
        ({"quantization_config": {"quant_method": "fp8"}}, "float32", 800),
    ],
)
def test_an_index_without_files(tmp_path: Path, config: dict[str, Any], dtype: str | None, size: int) -> None:
    model(tmp_path, **config)
    index = {"metadata": {"total_size": 800}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert weights(tmp_path, dtype) == size


def test_files_of_other_names_count_where_there_is_no_model_file(tmp_path: Path) -> None:
    write_header(model(tmp_path) / "weights.safetensors", {"a": ("BF16", 40)})
    assert weights(tmp_path) == 40


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    assert weights(model(tmp_path, {"a": ("BF16", 300)})) == 300
    write_header(tmp_path / "model.safetensors", {"a": ("BF16", 3000)})
    assert weights(tmp_path) == 3000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 4,
        struct.pack("<Q", 1 << 60),
        struct.pack("<Q", 100) + b"{}",
        struct.pack("<Q", 4) + b"[12]",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 8) + b'{"a": 1}',
        struct.pack("<Q", 26) + b'{"a":{"data_offsets":[1]}}',
        struct.pack("<Q", 50) + b'{"a":{"dtype":"BF16","data_offsets":[0,Infinity]}}',
    ],
)
def test_a_broken_weights_file_leaves_its_size_open(tmp_path: Path, data: bytes) -> None:
    (model(tmp_path) / "model.safetensors").write_bytes(data)
    assert weights(tmp_path) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_without_a_config_nothing_is_known(tmp_path: Path, data: bytes) -> None:
    (model(tmp_path, {"a": ("BF16", 300)}) / "config.json").write_bytes(data)
    assert read_shape(tmp_path, dtype=None, kv_cache_dtype=None) is None
    assert read_shape(tmp_path / "gone", dtype=None, kv_cache_dtype=None) is None


def test_a_folder_is_found_from_the_workspace(tmp_path: Path) -> None:
    folder = model(tmp_path / "models" / "tiny")
    assert model_folder("models/tiny", workspace=tmp_path, environment={}) == folder
    assert model_folder(str(folder), workspace=Path("/nowhere"), environment={}) == folder
    missing = {"HOME": str(tmp_path)}
    assert model_folder("models/other", workspace=tmp_path, environment=missing) is None
    assert model_folder("", workspace=tmp_path, environment=missing) is None


@pytest.mark.parametrize(
    ("variable", "value", "cache"),
    [
        ("HF_HUB_CACHE", "hub-a", "hub-a"),
        ("HUGGINGFACE_HUB_CACHE", "hub-b", "hub-b"),
        ("HF_HOME", "hf", "hf/hub"),
        ("XDG_CACHE_HOME", "xdg", "xdg/huggingface/hub"),
        ("HOME", "home", "home/.cache/huggingface/hub"),
    ],
)
def test_a_name_is_found_in_the_hubs_cache(tmp_path: Path, variable: str, value: str, cache: str) -> None:
    cached = tmp_path / cache / "models--Qwen--Qwen3-8B"
    environment = {"HOME": str(tmp_path / "nobody"), variable: str(tmp_path / value)}
    model(cached / "snapshots" / "aaa")
    wanted = model(cached / "snapshots" / "bbb")
    found = model_folder("Qwen/Qwen3-8B", workspace=tmp_path, environment=environment)
    assert found == cached / "snapshots" / "aaa"
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("bbb\n")
    assert model_folder("Qwen/Qwen3-8B", workspace=tmp_path, environment=environment) == wanted


@pytest.mark.timeout(10)
def test_a_commit_is_read_as_one(tmp_path: Path) -> None:
    """Never as a path, and never for ever."""
    cached = model(tmp_path / "hub/models--Qwen--Qwen3-8B/snapshots/aaa").parents[1]
    model(tmp_path / "hub/other")
    (cached / "refs").mkdir()
    environment = {"HF_HOME": str(tmp_path)}
    for text in ("../../other", "/", "a" * 10_000, ""):
        (cached / "refs/main").write_text(text)
        assert hub_commit("Qwen/Qwen3-8B", "models", environment) == ""
        found = model_folder("Qwen/Qwen3-8B", workspace=tmp_path, environment=environment)
        assert found == cached / "snapshots/aaa"
    (cached / "refs/main").unlink()
    os.mkfifo(cached / "refs/main")
    assert hub_commit("Qwen/Qwen3-8B", "models", environment) == ""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_saved_by_transformers_has_the_size_of_its_parameters(
    tmp_path: Path, dtype: str, tied: bool
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen3Config(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        vocab_size=300,
        tie_word_embeddings=tied,
    )
    network = transformers.Qwen3ForCausalLM(config).to(getattr(torch, dtype))
    network.save_pretrained(tmp_path)
    found = read_shape(tmp_path, dtype=dtype, kv_cache_dtype=None)
    assert found is not None
    assert found.weights_bytes == sum(p.numel() * p.element_size() for p in network.parameters())
    with torch.no_grad():
        # In float32: some virtual CPUs say that they can multiply bfloat16, and then cannot.
        cache = network.float()(torch.zeros((1, 5), dtype=torch.long), use_cache=True).past_key_values
    size = getattr(torch, dtype).itemsize
    kept = sum(t.numel() * size for layer in cache.layers for t in (layer.keys, layer.values))
    assert found.kv_bytes_per_token == kept // 5
