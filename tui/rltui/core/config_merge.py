"""Two or three readings of a config side by side, key by key. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core.config_report import KeyConflict
from rltui.core.knobs import TomlValue
from rltui.core.toml_values import format_key, same_value

Leaves = Mapping[str, Any]
"""Dotted key → value."""


def deep_leaves(data: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that can be set by itself, by dotted key, in the order of the file.

    Tables are gone into, and arrays of tables: there, a whole number in the key picks the element. A table
    without keys is a value of its own: to have it may mean something.
    """
    return {format_key(path): value for path, value in _leaves(data, ())}


def _leaves(value: TomlValue, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, str(index)))
    else:
        yield path, value


def changed_keys(before: Leaves, after: Leaves) -> dict[str, tuple[Any, Any]]:
    """Keys that get another value → (before, after), `None` where absent; new keys last."""
    return {
        key: (before.get(key), after.get(key))
        for key in (*before, *(key for key in after if key not in before))
        if not same_value(before.get(key), after.get(key))
        and not (before.get(key) == {} and _has_below(after, key))
        and not (after.get(key) == {} and _has_below(before, key))
    }


def _has_below(leaves: Leaves, table: str) -> bool:
    return any(key.startswith(f"{table}.") for key in leaves)


def key_conflicts(base: Leaves | None, theirs: Leaves, yours: Leaves) -> tuple[KeyConflict, ...]:
    """Keys that `yours` sets to something else than is there now, where that is not what `base` held.

    Where `base` is not known, any difference counts. `None` in `yours` removes the key.
    """
    return tuple(
        KeyConflict(key=key, base=(base or {}).get(key), theirs=theirs.get(key), yours=wanted)
        for key, wanted in yours.items()
        if not same_value(theirs.get(key), wanted)
        and (base is None or not same_value(base.get(key), theirs.get(key)))
    )
