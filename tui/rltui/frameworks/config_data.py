"""Reading parsed config files by dotted key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core.knobs import TomlValue
from rltui.core.toml_values import format_key, split_key


def value_at(data: Mapping[str, Any], dotted: str) -> TomlValue:
    """What a dotted key holds; `None` where it is not set or lies below something that is no table.

    A whole number picks an element of a list.
    """
    at: TomlValue = data
    for key in split_key(dotted):
        if isinstance(at, Mapping) and key in at:
            at = at[key]
        elif isinstance(at, list) and key.isdecimal() and int(key) < len(at):
            at = at[int(key)]
        else:
            return None
    return at


def leaves(data: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything in the tables that is no table; an empty table is a leaf too."""
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, key))
        else:
            yield format_key((*path, key)), value
