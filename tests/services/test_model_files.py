from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rltui.core.gpu.budget import ModelShape
from rltui.services.gpu.model_files import model_folder, read_shape

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


def test_the_config_tells_of_the_cache(tmp_path: Path) -> None:
    found = read_shape(model(tmp_path), dtype=None, kv_cache_dtype=None)
    assert found == ModelShape(
        kv_bytes_per_token=2 * 2 * 2 * 16 * 2,
        activation_bytes_per_token=(4 * 64 + 3 * 128) * 2,
        logits_bytes_per_request=400,
        kv_heads=2,
    )


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
        cache = network(torch.zeros((1, 5), dtype=torch.long), use_cache=True).past_key_values
    kept = sum(t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values))
    assert found.kv_bytes_per_token == kept // 5
