"""What a pydantic model has against a TOML file: place, key and fault in words, and the likely correction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rltui.core.text import did_you_mean
from rltui.core.toml import edit
from rltui.core.toml.values import format_key
from rltui.services.config.source import Source

Location = tuple[int | str, ...]
"""Keys and list indices from the top of the file to a value."""


def _dotted(location: Location, data: Mapping[str, Any]) -> str:
    """How most files name a place: `alerts.bell: `, or nothing for the whole file."""
    del data
    return f"{'.'.join(map(str, location))}: " if location else ""


def faults(
    source: Source,
    error: ValidationError,
    *,
    root: type[BaseModel],
    tables: Mapping[str, type[BaseModel]],
    name: Callable[[Location, Mapping[str, Any]], str] = _dotted,
) -> list[str]:
    """One line per fault. `tables` has the model of each table, by the key that holds it."""
    return [_fault(source, each, {**tables, "": root}, name) for each in _deepest(error.errors())]


def _deepest(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without those that only follow from another one further inside."""
    places = [error["loc"] for error in errors]
    return [
        error
        for error in errors
        if not any(
            len(loc) > len(error["loc"]) and loc[: len(error["loc"])] == error["loc"] for loc in places
        )
    ]


def _fault(
    source: Source,
    error: ErrorDetails,
    tables: Mapping[str, type[BaseModel]],
    name: Callable[[Location, Mapping[str, Any]], str],
) -> str:
    keys = tuple(str(part) for part in error["loc"])
    place = next(
        (
            found
            for depth in range(len(keys), 0, -1)
            if (found := edit.locate(source.text, format_key(keys[:depth])))
        ),
        None,
    )
    spot = f"{source.path}:{place[0]}:{place[1]}" if place else str(source.path)
    return f"{spot}: {name(error['loc'], source.data)}{_reason(error, tables)}"


def _reason(error: ErrorDetails, tables: Mapping[str, type[BaseModel]]) -> str:
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        guess = did_you_mean(key, _keys_beside(error["loc"], tables))
        return f"unknown key; {guess}" if guess else "unknown key"
    if error["type"] == "missing":
        return "is missing"
    message = error["msg"].removeprefix("Value error, ")
    given = error["input"]
    shown = (
        f" (given: {given!r})"
        if isinstance(given, str | int | float) and error["type"] != "value_error"
        else ""
    )
    return f"{message[0].lower()}{message[1:]}{shown}"


def _keys_beside(location: Location, tables: Mapping[str, type[BaseModel]]) -> Iterator[str]:
    """The keys that the table of an unknown key may have."""
    above = [part for part in location[:-1] if isinstance(part, str)]
    model = tables.get(above[-1] if above else "")
    yield from model.model_fields if model is not None else ()
