"""Parsed config files as data: read by dotted key, edited, compared key by key. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rltui.base.text import parse_whole_number
from rltui.base.toml.values import TomlValue, format_key, same_value, split_key

if TYPE_CHECKING:
    from rltui.core.config.report import KeyConflict

Leaves = Mapping[str, Any]
"""Dotted key → value of every leaf."""


def value_at(data: Mapping[str, Any], dotted: str) -> TomlValue:
    """The value of a dotted key; `None` if it is not set or lies below something that is no table.

    A whole number picks an element of a list.
    """
    value: TomlValue = data
    for key in split_key(dotted):
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif (
            isinstance(value, list) and (index := parse_whole_number(key)) is not None and index < len(value)
        ):
            value = value[index]
        else:
            return None
    return value


def leaves(data: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything in the tables that is no table; an empty table is a leaf too."""
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, key))
        else:
            yield format_key((*path, key)), value


def deep_leaves(data: Mapping[str, Any]) -> dict[str, Any]:
    """Every value that can be set by itself, by dotted key, in the order of the file.

    Tables are entered, and arrays of tables: there, a whole number in the key picks the element. A table
    without keys is a value of its own: its presence may mean something.
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
    """Keys that `yours` sets to a value other than the present one, if that is not the one of `base`.

    If `base` is unknown, any difference counts. `None` in `yours` removes the key.
    """
    from rltui.core.config.report import KeyConflict  # 10 ms, which `rltui runs` need not pay

    return tuple(
        KeyConflict(key=key, base=(base or {}).get(key), theirs=theirs.get(key), yours=value)
        for key, value in yours.items()
        if not same_value(theirs.get(key), value)
        and (base is None or not same_value(base.get(key), theirs.get(key)))
    )


def apply_edits(data: Mapping[str, Any], edits: Mapping[str, Any]) -> dict[str, Any]:
    """Set dotted keys of `data` to values; `None` removes a key or a whole table, and comes first.

    A missing table is created, also in place of a value that is no table.
    """
    result: dict[str, Any] = copy.deepcopy(dict(data))
    for key, value in sorted(edits.items(), key=lambda item: item[1] is not None):
        *parents, last = split_key(key)
        if value is None:
            _remove_key(result, parents, last)
        else:
            table = result
            for parent in parents:
                if not isinstance(table.get(parent), dict):
                    table[parent] = {}
                table = table[parent]
            table[last] = value
    return result


def replaced(value: TomlValue, replacements: Mapping[str, str]) -> TomlValue:
    """Replace each key of `replacements` in every string below `value`, the longest key first."""
    match value:
        case str():
            for old in sorted(replacements, key=len, reverse=True):
                value = value.replace(old, replacements[old])
            return value
        case list():
            return [replaced(item, replacements) for item in value]
        case dict():
            return {key: replaced(item, replacements) for key, item in value.items()}
        case _:
            return value


def _remove_key(data: dict[str, Any], parents: list[str], last: str) -> None:
    table: TomlValue = data
    for parent in parents:
        table = table.get(parent)
        if not isinstance(table, dict):
            return
    table.pop(last, None)


# --- keys by their last segments ----------------------------------------------------------------------------


def config_value(config: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - of any type
    """The value of the key that is called so, or ends so after a dot; `None` where none or several are."""
    if name in config:
        return config[name]
    matches = matching_keys(tuple(config), name)
    if not matches:
        return None
    value = config[matches[0]]
    return value if all(config[key] == value for key in matches[1:]) else None


_BESIDE = "sft."
"""Begins the keys of the warm-up, as `find_knob` has them behind those of the run as well."""


@lru_cache(maxsize=512)
def matching_keys(keys: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Keys that end in `name` with the fewest tables around; several where that does not decide. Those of a
    file beside the run's own are meant where there is no other.
    """
    if name in keys:
        return (name,)
    ending = f".{name}"
    matches = [key for key in keys if key.endswith(ending)]
    matches = [key for key in matches if not key.startswith(_BESIDE)] or matches
    fewest = min((key.count(".") for key in matches), default=0)
    return tuple(key for key in matches if key.count(".") == fewest)


@lru_cache(maxsize=512)
def short_names(keys: tuple[str, ...]) -> dict[str, str]:
    """Config key → its last segment, or as many as distinguish it from the others."""
    names = {}
    for key in keys:
        segments = key.split(".")
        endings = (".".join(segments[-count:]) for count in range(1, len(segments) + 1))
        names[key] = next(
            (end for end in endings if sum(f".{other_key}".endswith(f".{end}") for other_key in keys) == 1),
            key,
        )
    return names
