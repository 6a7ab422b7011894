"""Keys of config files as paths, in which numbers pick elements of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rltui.base.toml.values import TomlValue, format_key, split_key

Path = tuple[str | int, ...]
"""Keys from the root down; a number picks an element of an array of tables."""


def leaves(value: TomlValue, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def tables(leaves: Iterable[tuple[Path, Any]]) -> dict[Path, None]:
    """Every table around some leaves, and every array of them, in their order."""
    return dict.fromkeys(
        path[:depth] for path, value in leaves for depth in range(1, len(path) + (value == {}))
    )


def tree(items: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    root: dict[Any, Any] = {}
    for path, value in items:
        table = root
        for key in path[:-1]:
            table = table.setdefault(key, {})
        if not (value == {} and path[-1] in table):
            table[path[-1]] = dict(value) if isinstance(value, Mapping) else value
    result = _with_lists(root)
    assert isinstance(result, dict)
    return result


def _with_lists(value: TomlValue) -> TomlValue:
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_with_lists(value[index]) for index in sorted(value)]
    return {key: _with_lists(item) for key, item in value.items()}


def strings(path: Path) -> tuple[str, ...]:
    return tuple(map(str, path))


def dotted(path: Path) -> str:
    return format_key(strings(path))


def path_of(name: str) -> Path:
    """A dotted key; `[]` and numbers pick elements."""
    return tuple(
        -1 if key == "[]" else int(key) if key.isdecimal() else key
        for key in split_key(name.replace("[]", ".[]"))
    )


def with_indices(path: Path, of: Path) -> Path:
    """The path with the elements that another one picks, in their order."""
    indices = iter([key for key in of if isinstance(key, int)])
    return tuple(next(indices, 0) if key == -1 else key for key in path)


def pattern(path: Path) -> str:
    """The name of a key in a schema, or in the facts."""
    return ".".join("[]" if isinstance(key, int) else format_key((key,)) for key in path).replace(".[]", "[]")


def depth_below(names: Iterable[str], start: str) -> int | None:
    """Number of keys below `start` in one of these names; `None` if it does not begin so."""
    for name in names:
        if name == start:
            return 0
        if name.startswith((f"{start}.", f"{start}[")):
            return len(path_of(name)) - len(path_of(start))
    return None
