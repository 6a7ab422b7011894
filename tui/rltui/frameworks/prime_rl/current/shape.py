"""What a list of known keys cannot say: members of unions, keys that must be there, where `None` may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rltui.core.config_report import Problem
from rltui.core.knobs import TomlValue, shown
from rltui.core.toml_values import format_key
from rltui.frameworks.base import ConfigFile
from rltui.frameworks.prime_rl.current.schema_table import Table, Union, keys

_ONE_OF = "must be one of "
NONE = "None"
"""Text that means: no value."""


def shape_problems(file: ConfigFile, shape: Table, namespace: str = "", *, as_of: str) -> Iterator[Problem]:
    """In the order of the shape; unknown keys and tables that are none are told elsewhere.

    `as_of`: when the members of the unions were read. A member that is unknown here is a warning.
    """
    for path, message in _table(file.data, shape, (namespace,) if namespace else ()):
        key, is_new = format_key(path), message.startswith(_ONE_OF)
        yield Problem(
            severity="warning" if is_new else "error",
            key=key,
            message=f"{key} {message}" + (f" (rltui knows those of {as_of})" if is_new else ""),
            file=file.path,
        )


Found = Iterator[tuple[tuple[str, ...], str]]


def _table(data: Mapping[str, Any], shape: Table, path: tuple[str, ...]) -> Found:
    for name in sorted(shape.required):
        if data.get(name) is None:
            yield (*path, name), "is missing, and has no default"
    for name in sorted(shape.values - shape.nullable):
        if data.get(name) == NONE:
            yield (*path, name), f'must have a value: "{NONE}" stands for none'
    for name, below in shape.tables.items():
        if name in data:
            yield from _below(data[name], below, (*path, name))
        elif below.must:
            yield (*path, name), "is missing: its table must be there, be it empty"


def _below(value: TomlValue, shape: Table | Union, path: tuple[str, ...]) -> Found:
    if isinstance(value, Mapping):
        yield from _member(value, shape, path) if isinstance(shape, Union) else _table(value, shape, path)
    elif isinstance(value, list) and isinstance(shape, Table) and shape.entries:
        for index, entry in enumerate(value):
            if isinstance(entry, Mapping):
                yield from _table(entry, shape, (*path, str(index)))
    elif value == NONE and not shape.optional:
        yield path, f'must be a table: "{NONE}" stands for none'


def _member(value: Mapping[str, Any], shape: Union, path: tuple[str, ...]) -> Found:
    tag = value.get(shape.tag, shape.default)
    names = ", ".join(shape.members)
    if tag is None:
        yield (*path, shape.tag), f"is missing: one of {names}"
        return
    if not isinstance(tag, str) or tag not in shape.members:
        yield (*path, shape.tag), f"{_ONE_OF}{names}, not {shown(tag)}"
        return
    member = shape.members[tag]
    for name in value:
        if name in member.values | member.free or name in member.tables:
            continue
        others = [other for other, kind in shape.members.items() if name in {key for key, _ in keys(kind)}]
        if others:
            meant = f"{shape.tag} {' or '.join(others)}"
            yield (*path, name), f"belongs to {meant}, but {format_key((*path, shape.tag))} is {shown(tag)}"
    yield from _table(value, member, path)
