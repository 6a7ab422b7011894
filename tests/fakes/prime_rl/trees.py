"""Configs as nested tables: dotted access, merging, writing."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.fakes.prime_rl.generation import Tree


def value_at(tree: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """The value of a dotted key; `default` where it is absent or `None`."""
    node: Any = tree
    for segment in key.split("."):
        if not isinstance(node, Mapping) or segment not in node:
            return default
        node = node[segment]
    return default if node is None else node


def has(tree: Mapping[str, Any], key: str) -> bool:
    """Whether the key is there, be it with the value `None`."""
    missing = object()
    *tables, last = key.split(".")
    node = value_at(tree, ".".join(tables), {}) if tables else tree
    return isinstance(node, Mapping) and node.get(last, missing) is not missing


def set_at(tree: Tree, key: str, value: Any) -> None:
    """Set a dotted key, making the tables above it."""
    *tables, last = key.split(".")
    for segment in tables:
        below = tree.get(segment)
        if not isinstance(below, dict):
            below = tree[segment] = {}
        tree = below
    tree[last] = value


def fill(tree: Tree, key: str, value: Any) -> None:
    """Set a dotted key only where it is absent."""
    if not has(tree, key):
        set_at(tree, key, value)


def merge(base: Tree, over: Mapping[str, Any], *, deep: bool) -> Tree:
    """`over` on top of `base`: table by table, or each top-level table as a whole. Tables are copied."""
    merged = copy.deepcopy(base)
    for key, value in over.items():
        below = merged.get(key)
        if deep and isinstance(below, dict) and isinstance(value, Mapping):
            merged[key] = merge(below, value, deep=True)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything that is not a table."""
    for key, value in tree.items():
        path = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def write(tree: Mapping[str, Any], path: Path) -> None:
    """Write JSON or TOML, by the suffix. TOML has no null: such keys are left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(tree, indent=2))
    else:
        path.write_text("\n".join(_toml(tree, "")) + "\n")


def _toml(tree: Mapping[str, Any], above: str) -> Iterator[str]:
    tables: list[tuple[str, Mapping[str, Any]]] = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            tables.append((key, value))
        elif value is not None:
            yield f"{json.dumps(key)} = {_inline(value)}"
    for key, table in tables:
        path = f"{above}{json.dumps(key)}"
        yield f"[{path}]"
        yield from _toml(table, f"{path}.")


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = (f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items() if item is not None)
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_inline(item) for item in value)}]"
    return json.dumps(value)
