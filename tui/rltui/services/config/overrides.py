"""The meaning of a command line's options for the files of a config."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from rltui.base.toml.values import TomlValue
from rltui.core.config import merge
from rltui.core.config.knobs import Knob, display, find_knob, parse_untyped
from rltui.core.experiment.request import ConfigLine, Override
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.services.config.config_file import with_key
from rltui.services.config.document import ConfigDocument
from rltui.services.own_files import write_atomically

_NEGATED = re.compile(r"^no_(?P<all>.+)$|(?P<table>^.*\.)no_(?P<last>[^.]+)$")
"""Older releases negate the last segment of a key, newer ones the complete key."""
_SWITCH_VALUES = {"true": True, "false": False, "none": False}


def override(files: Sequence[Path], framework: Framework, line: ConfigLine, *, force: bool) -> None:
    """Write the overrides and edits of `line` into these files; `force` as for `ConfigDocument.with_edits`.

    Raises:
        ConfigError: for an unknown key or an invalid value.
    """
    edits: dict[str, TomlValue] = dict(line.edits)
    document = ConfigDocument(files, framework)
    for option in line.overrides:
        key, values = _without_negation(option, document.knobs)
        if tables := _tables(key, document.knobs):
            _switch_tables(document.files, tables, key, values)
            document.load()
            continue
        selected = _selected_knobs(key, document.knobs)
        for knob in selected:
            if values == ("None",) and knob.nullable and knob.default is not None:
                _write_none(knob, document.files[knob.file], framework)
                document.load()
            else:
                edits[knob.name] = _value(option, knob, values)
        if not selected:  # the files may have it, or the edit says what is wrong
            edits[key] = values[0] if len(values) == 1 else [*map(parse_untyped, values)] or "true"
    for change in document.with_edits(edits, force=force).changes.values():
        write_atomically(change.path, change.after.content)


def _without_negation(option: Override, knobs: Sequence[Knob]) -> tuple[str, tuple[str, ...]]:
    """Split an option into key and values; a negation is the value `false`."""
    key, values = option.key, option.values
    if not values and (match := _NEGATED.search(key)) and not _named_exactly(key, knobs):
        return match["all"] or match["table"] + match["last"], ("false",)
    return key, values


def _switch_tables(
    files: ConfigFiles, tables: Iterable[tuple[str, str]], key: str, values: Sequence[str]
) -> None:
    """Add or remove complete tables, as `_tables` names them.

    Raises:
        ConfigError: if the values say neither.
    """
    text = values[0].lower() if len(values) == 1 else "" if values else "true"
    if text not in _SWITCH_VALUES:
        raise ConfigError(
            f"{key} is a table, not a value", hint=f"set a key of the table: --{key}.NAME VALUE"
        )
    change = merge.with_table if _SWITCH_VALUES[text] else merge.without_key
    for role, inner in tables:
        write_atomically(Path(files[role].path), change(files[role].text, inner).encode())


def _write_none(knob: Knob, file: ConfigFile, framework: Framework) -> None:
    """Set the knob to none. Raises ConfigError if the format of the file cannot express that."""
    none = framework.config.none_text(file)
    if none is None:
        default = display(knob.default, key=knob.key)
        raise ConfigError(f"{knob.name} cannot be none: without a value, its default {default} applies")
    write_atomically(Path(file.path), with_key(file, knob.key, none).content)


def _selected_knobs(key: str, knobs: Sequence[Knob]) -> list[Knob]:
    """The knobs that a key stands for: several if programs with a file each share it. Empty if the framework
    has none.
    """
    shared = [knob for knob in knobs if knob.key == key and knob.name != key]
    if selected := _named_exactly(key, knobs) or shared or _shared_default(key, knobs):
        return selected
    with suppress(ConfigError):
        return [find_knob(knobs, key)]
    return []


def _named_exactly(key: str, knobs: Iterable[Knob]) -> list[Knob]:
    return [knob for knob in knobs if knob.name == key]


def _shared_default(key: str, knobs: Iterable[Knob]) -> list[Knob]:
    """The one knob with that ending that is the default of all others, such as `monitors.wandb.project`."""
    matches = sorted(
        (knob for knob in knobs if knob.name.endswith(f".{key}")), key=lambda knob: len(knob.name)
    )
    return [
        default
        for default in matches[:1]
        if all(knob.name.endswith(f".{default.name}") for knob in matches[1:])
    ]


def _tables(key: str, knobs: Sequence[Knob]) -> list[tuple[str, str]]:
    """Role and key of the tables that a name stands for."""
    if _named_exactly(key, knobs):
        return []
    inside = [knob for knob in knobs if knob.name.startswith(f"{key}.")]
    inside = inside or [knob for knob in knobs if knob.key.startswith(f"{key}.")]
    tables = {
        (knob.file, key.removeprefix(f"{knob.namespace}.") if knob.namespace else key)
        for knob in inside
        if key != knob.namespace
    }
    return sorted(tables)


def _value(option: Override, knob: Knob, values: Sequence[str]) -> TomlValue:
    if not values:
        if knob.kind != "bool":
            raise ConfigError(f"{option.option} needs a value: {knob.name} is {knob.expected}")
        return "true"
    if knob.kind == "list" and not (len(values) == 1 and values[0].lstrip().startswith("[")):
        items = values[0].split(",") if len(values) == 1 else values
        return None if list(items) == ["None"] else [parse_untyped(item.strip()) for item in items]
    if len(values) > 1:
        raise ConfigError(f"{option.option} takes one value, not {len(values)}: {' '.join(values)}")
    return values[0]
