"""Recognises the config file of vf-rl, and defines its schema.

It has no model of its own: vf-rl reads four tables, vf-train makes an `RLConfig` of one of them, and vf-vllm
gets another as options. `data/rlconfig.json` comes from verifiers 0.1.9.post3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from rltui.core.config.data import value_at
from rltui.core.config.json_schema import Json
from rltui.core.config.schema import ConfigSchema

ARGS = "trainer.args"
"""The table that becomes an `RLConfig`."""
_DATE = "12 January 2026"
"""Date of the release of the snapshot."""
_AT_LEAST = {
    "rollouts_per_example": 2, "batch_size": 1, "micro_batch_size": 1, "max_seq_len": 1, "max_prompt_len": 1,
    "max_steps": 1, "max_concurrent": 1, "max_tokens": 1, "lora_rank": 1, "temperature": 0, "min_p": 0,
    "learning_rate": 0, "generation_timeout": 0, "vllm_server_timeout": 0, "warmup_steps": 0,
}  # fmt: skip
"""Bounds that no type declares: below, it fails, or does nothing."""
_AT_MOST = {"top_p": 1, "min_p": 1, "vllm_server_port": 65535}
_VLLM: Mapping[str, Json] = {
    "host": {"type": "string"},
    "port": {"type": "integer", "default": 8000, "minimum": 1, "maximum": 65535},
    "dtype": {"type": "string", "default": "auto"},
    "kv_cache_dtype": {"type": "string", "default": "auto"},
    "max_model_len": {"type": "integer", "minimum": 1},
    "gpu_memory_utilization": {"type": "number", "default": 0.9, "exclusiveMinimum": 0, "maximum": 1},
    "enforce_eager": {"type": "boolean", "default": False},
    "tensor_parallel_size": {"type": "integer", "default": 1, "minimum": 1},
    "data_parallel_size": {"type": "integer", "minimum": 1},
    "max_num_seqs": {"type": "integer", "minimum": 1},
    "max_num_batched_tokens": {"type": "integer", "minimum": 1},
    "enable_auto_tool_choice": {"type": "boolean", "default": False},
    "tool_call_parser": {"type": "string"},
    "reasoning_parser": {"type": "string"},
    "trust_remote_code": {"type": "boolean", "default": False},
}
"""The options of vLLM that people set here; it has hundreds more."""


def is_vf_rl(data: Mapping[str, Any]) -> bool:
    """The file names the model by a text, and has the arguments of its two programs in tables of their own,
    or an environment.
    """
    argument_tables = (f"{role}.args" for role in ("trainer", "inference"))
    has_arguments = any(isinstance(value_at(data, key), Mapping) for key in argument_tables)
    has_environment = isinstance(value_at(data, "env.id"), str) and "trainer" in data
    return isinstance(data.get("model"), str) and (has_arguments or has_environment)


def file_schema_of(arguments: Json) -> Json:
    """The schema of a whole file, from that of `RLConfig`. vf-rl ignores keys that it does not read."""
    properties = {name: dict(schema) for name, schema in arguments["properties"].items()}
    for bounds, bound_name in ((_AT_LEAST, "minimum"), (_AT_MOST, "maximum")):
        for name, limit in bounds.items():
            if name in properties:
                properties[name] = _with_bound(properties[name], bound_name, limit)
    gpus: Json = {"type": "integer", "minimum": 1}
    options = {name: _optional(schema) for name, schema in _VLLM.items()}
    tables = {
        "Env": _table({"id": {"type": "string"}, "args": {"type": "object", "default": {}}}, "id"),
        "Inference": _table({"gpus": gpus, "args": _of("InferenceArgs", default={})}, "gpus"),
        "InferenceArgs": {"type": "object", "properties": options, "additionalProperties": True},
        "Trainer": _table({"gpus": gpus, "args": _of("TrainerArgs", default={})}, "gpus"),
        "TrainerArgs": {**arguments, "properties": properties},
    }
    top_level = {
        "model": {"type": "string"},
        **{name.lower(): _of(name) for name in ("Env", "Inference", "Trainer")},
    }
    return {"$defs": tables, **_table(top_level, *top_level)}


def _of(table: str, **more: object) -> Json:
    return {"$ref": f"#/$defs/{table}", **more}


def _table(properties: Mapping[str, Json], *required: str) -> dict[str, Any]:
    """A table schema whose unknown keys are ignored."""
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _optional(schema: Json) -> Json:
    """A schema without a default may be left out."""
    return schema if "default" in schema else {"anyOf": [schema, {"type": "null"}], "default": None}


def _with_bound(schema: Json, bound_name: str, limit: float) -> dict[str, Any]:
    members = schema.get("anyOf")
    if members is None:
        return {**schema, bound_name: limit}
    return {
        **schema,
        "anyOf": [
            {**member, bound_name: limit} if member.get("type") in ("integer", "number") else member
            for member in members
        ],
    }


@cache
def snapshot() -> ConfigSchema:
    """The schema if no installation can be asked."""
    text = (resources.files(__package__) / "data" / "rlconfig.json").read_text(encoding="utf-8")
    return ConfigSchema(file_schema_of(json.loads(text)), none=None, date=_DATE)
