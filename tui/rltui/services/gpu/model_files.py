"""The size of a model, from the files in its folder. Uses neither the network nor the weights themselves."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from rltui.base.kinds import is_integer, is_number
from rltui.core.gpu.budget import ModelShape
from rltui.core.gpu.training import TrainingShape
from rltui.services.own_files import read_regular

Config = Mapping[str, Any]
HubKind = Literal["models", "datasets"]

_BYTES = {"float64": 8, "float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}
_TEXT_TABLES = ("text_config", "llm_config", "language_config")
_FULL = frozenset({"full_attention", "attention", "hybrid"})
_COMMIT = re.compile(r"[0-9a-f]{1,64}")
_WINDOWED = frozenset({"sliding_attention", "chunked_attention"})


def model_shape(
    config: Config, *, dtype: str | None, kv_cache_dtype: str | None, weights_bytes: int | None
) -> ModelShape:
    """The shape as far as known; unknown values are `None`.

    Args:
        config: the parsed `config.json` of any model.
        dtype: vLLM's argument; `None` and `auto` mean that of the config.
        kv_cache_dtype: vLLM's argument; `None` and `auto` mean that of the model.
        weights_bytes: size when loaded.
    """
    text = text_config(config)
    element = _loaded_bytes(dtype)
    kv_element = _kv_element_bytes(config, kv_cache_dtype, element)
    heads = _kv_heads(text)
    per_layer = _kv_elements_per_layer(text, heads)
    layers, is_lower_bound = _layers_with_cache(text)
    vocabulary = _number(text, "vocab_size")
    hidden = _number(text, *_HIDDEN)
    return ModelShape(
        weights_bytes=weights_bytes,
        kv_bytes_per_token=per_layer * layers * kv_element if per_layer and layers and kv_element else None,
        activation_bytes_per_token=(4 * hidden + 3 * _inner(text)) * element if hidden else None,
        logits_bytes_per_request=4 * vocabulary if vocabulary else None,
        kv_heads=heads,
        kv_is_lower_bound=is_lower_bound,
        max_positions=_max_positions(text),
    )


def text_config(config: Config) -> Config:
    """The config of the language model, which multimodal models store in a table of its own."""
    tables = [config.get(name) for name in _TEXT_TABLES]
    text_table = next(
        (table for table in tables if isinstance(table, Mapping) and _number(table, *_LAYERS)), None
    )
    return config if text_table is None else text_table


def _loaded_bytes(dtype: str | None) -> int:
    """Bytes per element of the weights in memory.

    With `auto`, vLLM loads float32 models in 16 bits (`ModelConfig.dtype`: "auto").
    """
    return _BYTES.get((dtype or "").removeprefix("torch."), 2)


def _stored_bytes(config: Config) -> int:
    """Bytes per element of the weights in their files."""
    for table in (config, text_config(config)):
        name = table.get("dtype") or table.get("torch_dtype")
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
    """Number of layers that cache every token, and whether there are others, which cache a window or a
    state.
    """
    total = _number(config, *_LAYERS)
    if total is None:
        return None, False
    kinds = config.get("layer_types") or config.get("layers_block_type")
    if isinstance(kinds, Sequence) and not isinstance(kinds, str) and kinds:
        own = kinds[: max(0, len(kinds) - (_number(config, "num_kv_shared_layers") or 0))]
        full = sum(isinstance(kind, str) and kind in _FULL for kind in own)
        windowed = sum(isinstance(kind, str) and kind in _WINDOWED for kind in own)
        caching = full or windowed
        return caching or None, caching < len(own)
    caching = _layers_by_rule(config, total)
    return caching or None, caching < total


def _layers_by_rule(config: Config, total: int) -> int:
    """Number of caching layers for configs without a list of layer types."""
    pattern, flags = config.get("hybrid_override_pattern"), config.get("attn_type_list")
    if isinstance(pattern, str):  # Nemotron-H: M a state, - an MLP, * attention
        return pattern.count("*")
    if isinstance(flags, Sequence):  # MiniMax: 0 linear, 1 full
        return sum(flag == 1 for flag in flags)
    if period := _number(config, "attn_layer_period"):  # Jamba
        return len(range(_number(config, "attn_layer_offset") or 0, total, period))
    interval = _number(config, "full_attention_interval", "sliding_window_pattern")  # Qwen3-Next, Gemma 3
    return total // interval if interval else total


def _inner(config: Config) -> int:
    """Width of the MLP, of all experts that see a token; 0 if the config does not say."""
    inner = _number(config, "intermediate_size", "n_inner", "ffn_dim") or 0
    experts = _number(config, "moe_intermediate_size") or 0
    return max(inner, experts * (_number(config, "num_experts_per_tok") or 1))


def _max_positions(config: Config) -> int | None:
    """`None` also if the positions are stretched by a factor: vLLM then has rules per kind."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters")
    if isinstance(scaling, Mapping) and (scaling.get("rope_type") or scaling.get("type")) in _STRETCHED:
        return None
    return _number(config, "max_position_embeddings", "n_positions")


_STRETCHED = ("yarn", "linear", "dynamic")


def _number(config: Config, *names: str) -> int | None:
    """The first of these values that is a whole number above 0."""
    values = (config.get(name) for name in names)
    return next((v for v in values if is_integer(v) and v > 0), None)


_INDEX = "model.safetensors.index.json"
_LONGEST_JSON_BYTES = 64 << 20
_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes per element of dtypes that are converted on loading; whole numbers and 8-bit floats are not."""
_Fingerprint = tuple[tuple[str, int, int], ...]


def model_folder(name: str, *, workspace: Path, environment: Mapping[str, str]) -> Path | None:
    """The model's folder: a local one, or a name on the hub that has been downloaded; `None` if neither
    exists.

    Args:
        name: as in the config.
        workspace: base of relative folders.
        environment: in which the engine runs; names the hub's cache.
    """
    folder = workspace / Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder
    cached = _cache_folder(name, "models", environment)
    commit = hub_commit(name, "models", environment)
    snapshots = [cached / "snapshots" / commit] if commit else sorted(cached.glob("snapshots/*"))
    return next((folder for folder in snapshots if (folder / "config.json").is_file()), None)


def hub_commit(name: str, kind: HubKind, environment: Mapping[str, str]) -> str:
    """The commit of this name in the hub's cache; empty if it is not there."""
    try:
        commit = read_regular(_cache_folder(name, kind, environment) / "refs" / "main", 100).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return commit if _COMMIT.fullmatch(commit) else ""


def _cache_folder(name: str, kind: str, environment: Mapping[str, str]) -> Path:
    return _hub_cache(environment) / f"{kind}--{name.replace('/', '--')}"


def read_shape(folder: Path, *, dtype: str | None, kv_cache_dtype: str | None) -> ModelShape | None:
    """As `model_shape`, from `config.json` and the weights' headers; `None` without a readable config."""
    return _read_shape(folder, _fingerprint(folder), dtype, kv_cache_dtype)


@lru_cache(maxsize=8)
def _read_shape(
    folder: Path, fingerprint: _Fingerprint, dtype: str | None, kv_cache_dtype: str | None
) -> ModelShape | None:
    del fingerprint  # another one means changed files
    config = _read_table(folder / "config.json")
    if config is None:
        return None
    weights = _weights_bytes(folder, config, _loaded_bytes(dtype))
    return model_shape(config, dtype=dtype, kv_cache_dtype=kv_cache_dtype, weights_bytes=weights)


def read_training_shape(folder: Path) -> TrainingShape | None:
    """Sizes that decide about training memory, from `config.json` and the headers of the weights; `None` if
    they are incomplete.
    """
    return _read_training_shape(folder, _fingerprint(folder))


@lru_cache(maxsize=8)
def _read_training_shape(folder: Path, fingerprint: _Fingerprint) -> TrainingShape | None:
    del fingerprint
    config = _read_table(folder / "config.json") or {}
    text = text_config(config)
    parameters, layers = _weights_bytes(folder, config, 1), _number(text, *_LAYERS)
    hidden, vocabulary = _number(text, *_HIDDEN), _number(text, "vocab_size")
    heads, inner = _number(text, *_HEADS), _inner(text)
    if not (parameters and layers and hidden and vocabulary and heads and inner):
        return None
    size = _number(text, "head_dim") or hidden // heads
    width = 8 * hidden + 5 * size * (heads + (_kv_heads(text) or heads)) + 4 * inner
    return TrainingShape(parameters, layers, 2 * width, hidden, vocabulary)


def _fingerprint(folder: Path) -> _Fingerprint:
    try:
        files = [file for file in folder.iterdir() if file.suffix in (".json", ".safetensors")]
        stats = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats))


def _hub_cache(environment: Mapping[str, str]) -> Path:
    """The folder as `huggingface_hub/constants.py` resolves it."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    caches = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '~')}/.cache"
    home = environment.get("HF_HOME") or f"{caches}/huggingface"
    return Path(home).expanduser() / "hub"


def _weights_bytes(folder: Path, config: Mapping[str, Any], element: int) -> int | None:
    """Bytes of all weights once loaded with `element` bytes per float; `None` if the files do not say."""
    index = _read_table(folder / _INDEX)
    tensors = _tensors(folder, index)
    if tensors is not None:
        return sum(
            size * element // _FLOATS[kind] if kind in _FLOATS else size
            for name, (kind, size) in tensors.items()
            if not (name == "lm_head.weight" and config.get("tie_word_embeddings") is True)
        )
    total = (index or {}).get("metadata")
    size = total.get("total_size") if isinstance(total, Mapping) else None
    if not is_number(size) or not 0 < size < math.inf:
        return None
    if "quantization_config" in config:
        return int(size)
    return int(size) * element // _stored_bytes(config)


def _tensors(folder: Path, index: Mapping[str, Any] | None) -> dict[str, tuple[str, int]] | None:
    """Tensor name → dtype and bytes; `None` unless every file exists and can be read."""
    files = _weight_files(folder, index)
    tensors: dict[str, tuple[str, int]] = {}
    for file in files:
        header, _ = safetensors_header(file)
        if header is None:
            return None
        for name, entry in header.items():
            try:
                begin, end = entry["data_offsets"]
                tensors[name] = (str(entry["dtype"]), int(end) - int(begin))
            except (TypeError, ValueError, KeyError, OverflowError):
                return None
    return tensors or None


def _weight_files(folder: Path, index: Mapping[str, Any] | None) -> list[Path]:
    shards = (index or {}).get("weight_map")
    if isinstance(shards, Mapping):
        return [folder / name for name in sorted({Path(str(shard)).name for shard in shards.values()})]
    single = folder / "model.safetensors"
    return [single] if single.is_file() else sorted(folder.glob("*.safetensors"))


def safetensors_header(file: Path) -> tuple[dict[str, Any] | None, int]:
    """Name of each tensor → its description, and the offset at which the data begin. `None` if it cannot be
    read.

    A file begins with the length of its header as 8 bytes, little-endian, then the header as JSON.
    """
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = _table(stream.read(length)) if length <= _LONGEST_JSON_BYTES else None
    except (OSError, struct.error):
        return None, 0
    if header is not None:
        header.pop("__metadata__", None)
    return header, 8 + length


def _read_table(file: Path) -> dict[str, Any] | None:
    try:
        with file.open("rb") as stream:
            return _table(stream.read(_LONGEST_JSON_BYTES))
    except OSError:
        return None


def _table(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
