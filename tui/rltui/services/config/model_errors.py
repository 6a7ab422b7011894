"""Errors of a pydantic model about a TOML file as text: position, key, message, and a likely correction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rltui.base.text import did_you_mean
from rltui.base.toml import edit
from rltui.base.toml.values import format_key
from rltui.frameworks.inputs import ConfigFile

Location = tuple[int | str, ...]
"""Keys and list indices from the top of the file to a value."""


def _dotted(location: Location, data: Mapping[str, Any]) -> str:
    """Default label of a location: `alerts.bell: `, or nothing for the complete file."""
    del data
    return f"{'.'.join(map(str, location))}: " if location else ""


def error_lines(
    file: ConfigFile,
    error: ValidationError,
    *,
    root: type[BaseModel],
    tables: Mapping[str, type[BaseModel]],
    name: Callable[[Location, Mapping[str, Any]], str] = _dotted,
) -> list[str]:
    """One line per error. `tables`: key of a table → its model."""
    return [_error_line(file, detail, {**tables, "": root}, name) for detail in _deepest(error.errors())]


def _deepest(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """The errors without those that only follow from another one further inside."""
    locations = [error["loc"] for error in errors]
    return [
        error
        for error in errors
        if not any(
            len(loc) > len(error["loc"]) and loc[: len(error["loc"])] == error["loc"] for loc in locations
        )
    ]


def _error_line(
    file: ConfigFile,
    error: ErrorDetails,
    tables: Mapping[str, type[BaseModel]],
    name: Callable[[Location, Mapping[str, Any]], str],
) -> str:
    keys = tuple(str(segment) for segment in error["loc"])
    position = next(
        (
            located
            for depth in range(len(keys), 0, -1)
            if (located := edit.locate(file.text, format_key(keys[:depth])))
        ),
        None,
    )
    position_text = f"{file.path}:{position[0]}:{position[1]}" if position else file.path
    return f"{position_text}: {name(error['loc'], file.data)}{_reason(error, tables)}"


def _reason(error: ErrorDetails, tables: Mapping[str, type[BaseModel]]) -> str:
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        parents = [segment for segment in error["loc"][:-1] if isinstance(segment, str)]
        model = tables.get(parents[-1] if parents else "")
        guess = did_you_mean(key, model.model_fields if model is not None else ())
        return f"unknown key; {guess}" if guess else "unknown key"
    if error["type"] == "missing":
        return "is missing"
    message = error["msg"].removeprefix("Value error, ")
    value = error["input"]
    value_text = (
        f" (given: {value!r})"
        if isinstance(value, str | int | float) and error["type"] != "value_error"
        else ""
    )
    return f"{message[0].lower()}{message[1:]}{value_text}"
