"""The size of a model, from the files in its folder. Never the network, never the weights themselves."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rltui.core.gpu.memory_user import ModelShape
from rltui.core.gpu.model_shape import loaded_bytes, model_shape, stored_bytes

_INDEX = "model.safetensors.index.json"
_LONGEST_JSON_BYTES = 64 << 20
_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes per element of what is converted on loading; whole numbers and 8-bit floats stay as they are."""
_Stamp = tuple[tuple[str, int, int], ...]


def model_folder(name: str, *, workspace: Path, environment: Mapping[str, str]) -> Path | None:
    """Where the model lies: a folder, or a name on the hub that has been downloaded; `None` where neither.

    Args:
        name: as in the config.
        workspace: that relative folders count from.
        environment: in which the engine runs; names the hub's cache.
    """
    folder = workspace / Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder
    cached = _hub_cache(environment) / f"models--{name.replace('/', '--')}"
    try:
        commit = (cached / "refs" / "main").read_text().strip()
        snapshots = [cached / "snapshots" / commit]
    except (OSError, UnicodeDecodeError):
        snapshots = sorted(cached.glob("snapshots/*"))
    return next((folder for folder in snapshots if (folder / "config.json").is_file()), None)


def read_shape(folder: Path, *, dtype: str | None, kv_cache_dtype: str | None) -> ModelShape | None:
    """What `config.json` and the headers of the weights tell; `None` without a readable config.

    Args:
        folder: of the model.
        dtype: vLLM's argument of that name; `None` and `auto` mean that of the config.
        kv_cache_dtype: likewise; `None` and `auto` mean that of the model.
    """
    return _read_shape(folder, _stamp(folder), dtype, kv_cache_dtype)


@lru_cache(maxsize=8)
def _read_shape(
    folder: Path, stamp: _Stamp, dtype: str | None, kv_cache_dtype: str | None
) -> ModelShape | None:
    del stamp  # another one means changed files
    config = _read_table(folder / "config.json")
    if config is None:
        return None
    weights = _weights_bytes(folder, config, loaded_bytes(dtype))
    return model_shape(config, dtype=dtype, kv_cache_dtype=kv_cache_dtype, weights_bytes=weights)


def _stamp(folder: Path) -> _Stamp:
    try:
        files = [file for file in folder.iterdir() if file.suffix in (".json", ".safetensors")]
        stats = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats))


def _hub_cache(environment: Mapping[str, str]) -> Path:
    """As `huggingface_hub/constants.py` has it."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    caches = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '~')}/.cache"
    home = environment.get("HF_HOME") or f"{caches}/huggingface"
    return Path(home).expanduser() / "hub"


def _weights_bytes(folder: Path, config: Mapping[str, Any], element: int) -> int | None:
    """Of all weights once they are loaded with `element` bytes per float; `None` if the files do not tell."""
    index = _read_table(folder / _INDEX)
    tensors = _tensors(folder, index)
    if tensors is not None:
        return sum(
            size * element // _FLOATS[kind] if kind in _FLOATS else size
            for name, (kind, size) in tensors.items()
            if not _is_tied_copy(name, config)
        )
    total = (index or {}).get("metadata")
    size = total.get("total_size") if isinstance(total, Mapping) else None
    if not isinstance(size, int | float) or isinstance(size, bool) or not 0 < size < math.inf:
        return None
    if "quantization_config" in config:
        return int(size)
    return int(size) * element // stored_bytes(config)


def _is_tied_copy(name: str, config: Mapping[str, Any]) -> bool:
    """VLLM passes over the output layer of a model whose embeddings serve as such."""
    return name == "lm_head.weight" and config.get("tie_word_embeddings") is True


def _tensors(folder: Path, index: Mapping[str, Any] | None) -> dict[str, tuple[str, int]] | None:
    """Dtype and bytes of each, by name; `None` unless every file is there and can be read."""
    files = _weight_files(folder, index)
    found: dict[str, tuple[str, int]] = {}
    for file in files:
        header = _read_header(file)
        if header is None:
            return None
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            try:
                begin, end = entry["data_offsets"]
                found[name] = (str(entry["dtype"]), int(end) - int(begin))
            except (TypeError, ValueError, KeyError, OverflowError):
                return None
    return found or None


def _weight_files(folder: Path, index: Mapping[str, Any] | None) -> list[Path]:
    shards = (index or {}).get("weight_map")
    if isinstance(shards, Mapping):
        return [folder / name for name in sorted({Path(str(shard)).name for shard in shards.values()})]
    whole = folder / "model.safetensors"
    return [whole] if whole.is_file() else sorted(folder.glob("*.safetensors"))


def _read_header(file: Path) -> dict[str, Any] | None:
    """Of a safetensors file: its length as 8 bytes, little-endian, then JSON."""
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            return _table(stream.read(length)) if length <= _LONGEST_JSON_BYTES else None
    except (OSError, struct.error):
        return None


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
