"""Reading parsed config files by dotted key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rltui.core.config_copy import edited
from rltui.core.knobs import Knob, TomlValue
from rltui.core.toml_values import format_key, split_key
from rltui.frameworks.base import ConfigFiles, Framework


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


def values_of(knobs: Iterable[Knob], files: ConfigFiles, framework: Framework) -> dict[str, Any]:
    """By name, what each of `knobs` amounts to in `files`; `None` for one that these files cannot have."""
    here = {knob.name: knob for knob in framework.knobs(files)}
    defaults = framework.defaults(files)
    values: dict[str, Any] = {}
    for knob in knobs:
        held = value_at(files[knob.file].data, knob.key) if knob.file in files else None
        default = here[knob.name].default if knob.name in here else None
        values[knob.name] = held if held is not None else defaults.get(knob.name, default)
    return values


def as_passed(files: ConfigFiles) -> ConfigFiles:
    """What a component got: its copies of the files with what was passed in place of their values."""
    return {
        role: replace(file, data=edited(file.data, file.passed)) if file.passed else file
        for role, file in files.items()
    }


def tables(files: ConfigFiles, namespaces: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """Every table by name, also those without a key; names as those of the knobs.

    A whole file goes by its namespace.
    """

    def below(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for key, value in table.items():
            if isinstance(value, Mapping):
                yield format_key((*path, key)), value
                yield from below(value, (*path, key))

    found: dict[str, Mapping[str, Any]] = {}
    for role, file in files.items():
        namespace = namespaces.get(role, "")
        found[namespace] = file.data
        found.update(below(file.data, (namespace,) if namespace else ()))
    return found
