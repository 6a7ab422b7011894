"""Other ways to write a config, brought to one: what prime-rl does before it looks at the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rltui.core.knobs import TomlValue
from rltui.frameworks.base import ConfigFile, ConfigFiles
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl.current.schema import SHAPES
from rltui.frameworks.prime_rl.current.schema_table import Table, Union
from rltui.frameworks.prime_rl.current.shape import NONE

_ALIASES = {"num_eval_gpus": "num_infer_gpus", "num_eval_nodes": "num_infer_nodes"}
_WORDS = {"ep": "auto", "fused_lm_head_token_chunk_size": "disabled"}
"""Words that may stand where a number is meant, in tables that have such a key."""
ON_BY_DEFAULT = ("model.compile", "model.ac", "model.ac_offloading")
"""Tables of a trainer that are there although no file names them."""


def spelled(files: ConfigFiles) -> ConfigFiles:
    """The files with one way to write each thing.

    `true` for a table becomes an empty one; words that stand for a table or beside numbers are left out;
    aliases and the kebab-case arguments of vLLM get their own names; `None` goes from the entries of arrays.
    """
    return {role: replace(file, data=_file(role, file)) for role, file in files.items()}


def switches(files: ConfigFiles) -> dict[str, bool]:
    """By name, whether a table that is there by default is on."""
    found: dict[str, bool] = {}
    for role, at, prefix in (("rl", "trainer.", "trainer."), ("sft", "", "sft.")):
        if role in files:
            data = files[role].data
            found |= {f"{prefix}{name}": value_at(data, at + name) != NONE for name in ON_BY_DEFAULT}
    return found


def _file(role: str, file: ConfigFile) -> dict[str, Any]:
    data = _table(file.data, SHAPES[role]) if role in SHAPES else dict(file.data)
    inference = data.get("inference")
    vllm = inference.get("vllm") if isinstance(inference, Mapping) else None
    if isinstance(inference, Mapping) and isinstance(vllm, Mapping):
        own = {key.replace("-", "_"): value for key, value in vllm.items()}
        data["inference"] = {**inference, "vllm": own}
    return data


def _table(data: Mapping[str, Any], shape: Table, *, in_entry: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        below = shape.tables.get(key)
        if (in_entry and value == NONE) or (key in shape.values and value == _WORDS.get(key, ())):
            continue
        if isinstance(below, Table) and below.switch and isinstance(value, bool):
            if value:
                found[key] = {}
        elif not (isinstance(below, Table) and below.word is not None and value == below.word):
            name = _ALIASES.get(key, key) if key in shape.values else key
            found[name] = value if below is None else _below(value, below, in_entry=in_entry)
    return found


def _below(value: TomlValue, shape: Table | Union, *, in_entry: bool) -> TomlValue:
    if isinstance(value, list) and isinstance(shape, Table) and shape.entries:
        return [_below(entry, shape, in_entry=True) for entry in value]
    if not isinstance(value, Mapping):
        return value
    if isinstance(shape, Table):
        return _table(value, shape, in_entry=in_entry)
    member = shape.members.get(str(value.get(shape.tag, shape.default)))
    return dict(value) if member is None else _table(value, member, in_entry=in_entry)
