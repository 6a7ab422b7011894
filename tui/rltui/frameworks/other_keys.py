"""Keys that the files set and that no knob table lists: of those, no more is known than their value."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence

from rltui.core.config_data import deep_leaves
from rltui.core.knobs import Knob, KnobKind
from rltui.core.toml.values import TomlValue
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFiles
from rltui.frameworks.generic import ANY_COMPONENT


def other_knobs(files: ConfigFiles, knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """A knob for each of these keys, in the order of the files."""
    return tuple(_others(files, knobs))


def _others(files: ConfigFiles, knobs: Sequence[Knob]) -> Iterator[Knob]:
    for role, file in files.items():
        known = {knob.key for knob in knobs if knob.file == role}
        readers: dict[str, tuple[str, ...]] = {}
        for key, value in deep_leaves(file.data).items():
            kind = kind_of(value)
            if kind is None or not known.isdisjoint(above(key)):
                continue
            table = key.rpartition(".")[0]
            if table not in readers:
                readers[table] = _readers(table, role, knobs)
            yield _knob(key, kind, role, namespace(role, files, knobs), readers[table])


def added_knob(name: str, value: TomlValue, files: ConfigFiles, knobs: Sequence[Knob]) -> Knob:
    """A knob for a key that is nowhere yet, of the kind of its first `value`.

    Raises:
        ConfigError: if the file or the kind is not clear.
    """
    kind = kind_of(value)
    if kind is None:
        raise ConfigError(f"{name} cannot be set to a table", hint="edit it in the file itself")
    by_namespace = {namespace(role, files, knobs): role for role in files}
    first, _, rest = name.partition(".")
    if rest and first in by_namespace and first:
        role = by_namespace[first]
        return _knob(rest, kind, role, first, _readers(rest.rpartition(".")[0], role, knobs))
    if "" not in by_namespace:
        known = " or ".join(sorted(f"{each}.{name}" for each in by_namespace))
        raise ConfigError(f"{name} could be in several files", hint=f"write {known}")
    role = by_namespace[""]
    return _knob(name, kind, role, "", _readers(name.rpartition(".")[0], role, knobs))


def namespace(role: str, files: ConfigFiles, knobs: Iterable[Knob]) -> str:
    """What the names of all keys of a file begin with."""
    known = next((knob.namespace for knob in knobs if knob.file == role), None)
    if known is not None:
        return known
    return role if len(files) > 1 else ""


def _knob(key: str, kind: KnobKind, role: str, prefix: str, readers: tuple[str, ...]) -> Knob:
    return Knob(key, kind, readers, "", nullable=True, file=role, namespace=prefix)


def _readers(table: str, role: str, knobs: Sequence[Knob]) -> tuple[str, ...]:
    """Whoever reads a known knob of the same table, or of the nearest around it that has one; else whoever
    reads the file at all.
    """
    of_file = [knob for knob in knobs if knob.file == role]
    tables = (each for each in reversed(above(table)) if each)
    beside = ([knob for knob in of_file if knob.key.startswith(f"{each}.")] for each in tables)
    found = next((each for each in beside if each), of_file)
    return tuple(dict.fromkeys(reader for knob in found for reader in knob.readers)) or (ANY_COMPONENT,)


def above(key: str) -> tuple[str, ...]:
    """The key itself and those of the tables around it."""
    return (*(key[:at] for at, character in enumerate(key) if character == "."), key)


def kind_of(value: TomlValue) -> KnobKind | None:
    """As what a value is edited; `None` for a table."""
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
