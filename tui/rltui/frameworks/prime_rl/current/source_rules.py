"""Rules on environment sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core.config_report import Problem
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.config_data import value_at
from rltui.frameworks.prime_rl.current.sources import Source, sources

_RESERVED = "agg"
_GROUPED = ("grpo", "echo", "max_rl")
"""Algorithms that judge a rollout against the others of its group."""
_EVALS = (("rl", "orchestrator.eval", ""), ("sft", "eval", "sft."))


def source_problems(files: ConfigFiles, values: Mapping[str, Any]) -> Iterator[Problem]:
    """`values`: every knob's effective value by name, those of the sources included."""
    found = sources(files)
    names = Counter((one.file, one.split, one.name) for one in found)
    for one in found:
        for key, message, severity in _of_one(one, names, values):
            name = f"{one.namespace}.{one.at}" if one.namespace else one.at
            path = files[one.file].path
            yield Problem(
                severity=severity, key=f"{name}.{key}", message=f"{name}.{key} {message}", file=path
            )
    for role, table, prefix in _EVALS:
        is_there = role in files and isinstance(value_at(files[role].data, table), Mapping)
        if is_there and not any(one.file == role and one.split == "eval" for one in found):
            message = f"[{table}] needs a source: add [[{table}.source]], or remove [{table}]"
            yield Problem(key=prefix + table, message=message, file=files[role].path)


def _of_one(one: Source, names: Counter[Any], values: Mapping[str, Any]) -> Iterator[Any]:
    if not one.has_environment:
        yield "env", 'must say which environment it is, such as env.taskset.id = "reverse-text"', "error"
    elif one.name == _RESERVED:
        yield "name", f'cannot be "{_RESERVED}", which stands for all environments in the metrics', "error"
    elif names[(one.file, one.split, one.name)] > 1:
        yield "name", f'("{one.name}") is that of another source too: give each a name of its own', "error"
    if one.split == "train" and values:
        yield from _of_group(one, values)


def _of_group(one: Source, values: Mapping[str, Any]) -> Iterator[Any]:
    own, batch = one.data.get("group_size"), values["orchestrator.batch_size"]
    group = values[f"{one.at}.group_size"]
    algorithm = value_at(one.data, "algo.type") or values["orchestrator.algo.type"]
    if group == 1 and algorithm in _GROUPED:
        reason = f"alone in its group, a rollout has advantage 0 with {algorithm}; try 8 or 16"
        yield "group_size", f"is 1: {reason}", "warning"
    if own is not None and batch is not None and batch % group:
        message = f"({group}) does not divide orchestrator.batch_size ({batch}): the last group is cut"
        yield "group_size", message, "warning"
