"""Knobs of which only the value is known: keys that files set and no schema lists, of all frameworks."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence

from rltui.base.toml.values import TomlValue
from rltui.core.config.data import deep_leaves
from rltui.core.config.knobs import Knob, KnobKind
from rltui.errors import ConfigError
from rltui.frameworks.inputs import ConfigFiles

ANY_COMPONENT = "*"
"""Reader of a knob whose readers are unknown: every component may read it."""


def other_knobs(files: ConfigFiles, knobs: Sequence[Knob]) -> Iterator[Knob]:
    """A knob for each key that the files set and that is not among `knobs`, in the order of the files."""
    for role, file in files.items():
        known_keys = {knob.key for knob in knobs if knob.file == role}
        readers: dict[str, tuple[str, ...]] = {}
        for key, value in deep_leaves(file.data).items():
            kind = kind_of(value)
            if kind is None or not known_keys.isdisjoint(above(key)):
                continue
            table = key.rpartition(".")[0]
            if table not in readers:
                readers[table] = _readers_nearby(table, role, knobs)
            yield plain_knob(key, kind, role, _namespace(role, files, knobs), readers[table])


def added_knob(name: str, value: TomlValue, files: ConfigFiles, knobs: Sequence[Knob]) -> Knob:
    """A knob for a key that does not exist yet, of the kind of its first `value`.

    Raises:
        ConfigError: if the file or the kind is not clear.
    """
    kind = kind_of(value)
    if kind is None:
        raise ConfigError(f"{name} cannot be set to a table", hint="edit the file itself")
    by_namespace = {_namespace(role, files, knobs): role for role in files}
    namespace, _, key = name.partition(".")
    if not key or not namespace or namespace not in by_namespace:
        namespace, key = "", name
    if namespace not in by_namespace:
        choices = " or ".join(sorted(f"{space}.{name}" for space in by_namespace))
        raise ConfigError(f"ambiguous knob {name}: in several files", hint=f"use {choices}")
    role = by_namespace[namespace]
    return plain_knob(key, kind, role, namespace, _readers_nearby(key.rpartition(".")[0], role, knobs))


def _namespace(role: str, files: ConfigFiles, knobs: Iterable[Knob]) -> str:
    """Prefix of the names of all keys of a file."""
    namespace = next((knob.namespace for knob in knobs if knob.file == role), None)
    if namespace is not None:
        return namespace
    return role if len(files) > 1 else ""


def plain_knob(key: str, kind: KnobKind, role: str, namespace: str, readers: tuple[str, ...]) -> Knob:
    return Knob(key, kind, readers, "", nullable=True, file=role, namespace=namespace)


def _readers_nearby(table: str, role: str, knobs: Sequence[Knob]) -> tuple[str, ...]:
    """Readers of a known knob in the same table, or in the nearest enclosing table that has one; else all
    readers of the file.
    """
    of_file = [knob for knob in knobs if knob.file == role]
    tables = (outer for outer in reversed(above(table)) if outer)
    groups = ([knob for knob in of_file if knob.key.startswith(f"{outer}.")] for outer in tables)
    siblings = next((outer for outer in groups if outer), of_file)
    return tuple(dict.fromkeys(reader for knob in siblings for reader in knob.readers)) or (ANY_COMPONENT,)


def above(key: str) -> tuple[str, ...]:
    """The key itself and those of the enclosing tables, outermost first."""
    return (*(key[:index] for index, character in enumerate(key) if character == "."), key)


def kind_of(value: TomlValue) -> KnobKind | None:
    """The kind that a value is edited as; `None` for a table."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str() | datetime.date() | datetime.time():
            return "str"
        case list():
            return "list"
    return None
