"""What is wrong with a TOML file as text: position, key, message, and a likely correction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rltui.base.tables import Fault, Location, TableError, TomlTable
from rltui.base.text import did_you_mean
from rltui.base.toml import edit
from rltui.base.toml.values import format_key
from rltui.frameworks.inputs import ConfigFile


def _dotted(location: Location, data: Mapping[str, Any]) -> str:
    """Default label of a location: `alerts.bell: `, or nothing for the complete file."""
    del data
    return f"{'.'.join(map(str, location))}: " if location else ""


def fault_lines(
    file: ConfigFile,
    error: TableError,
    *,
    root: type[TomlTable],
    tables: Mapping[str, type[TomlTable]],
    name: Callable[[Location, Mapping[str, Any]], str] = _dotted,
) -> list[str]:
    """One line per fault. `tables`: key of a table → its class."""
    return [_fault_line(file, fault, {**tables, "": root}, name) for fault in error.faults]


def _fault_line(
    file: ConfigFile,
    fault: Fault,
    tables: Mapping[str, type[TomlTable]],
    name: Callable[[Location, Mapping[str, Any]], str],
) -> str:
    keys = tuple(str(segment) for segment in fault.location)
    position = next(
        (
            located
            for depth in range(len(keys), 0, -1)
            if (located := edit.locate(file.text, format_key(keys[:depth])))
        ),
        None,
    )
    position_text = f"{file.path}:{position[0]}:{position[1]}" if position else file.path
    return f"{position_text}: {name(fault.location, file.data)}{_reason(fault, tables)}"


def _reason(fault: Fault, tables: Mapping[str, type[TomlTable]]) -> str:
    if fault.kind == "unknown":
        key = str(fault.location[-1])
        parents = [segment for segment in fault.location[:-1] if isinstance(segment, str)]
        table = tables.get(parents[-1] if parents else "")
        guess = did_you_mean(key, table.fields() if table is not None else ())
        return f"{fault.text}; {guess}" if guess else fault.text
    value_text = f" (given: {fault.value!r})" if isinstance(fault.value, str | int | float) else ""
    return f"{fault.text[0].lower()}{fault.text[1:]}{value_text}"
