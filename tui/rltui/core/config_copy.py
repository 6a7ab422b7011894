"""Copies of a config for a program rather than for people: edited as data, comments are lost. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from rltui.core.knobs import TomlValue
from rltui.core.toml_values import split_key


def edited(data: Mapping[str, Any], edits: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with dotted keys set to values; `None` removes a key or a whole table, and comes first.

    A table that a key needs is made, also in place of a value that is none.
    """
    result: dict[str, Any] = copy.deepcopy(dict(data))
    for key, value in sorted(edits.items(), key=lambda item: item[1] is not None):
        *parents, last = split_key(key)
        if value is None:
            _remove(result, parents, last)
        else:
            table = result
            for parent in parents:
                if not isinstance(table.get(parent), dict):
                    table[parent] = {}
                table = table[parent]
            table[last] = value
    return result


def replaced(value: TomlValue, texts: Mapping[str, str]) -> TomlValue:
    """`value` with each of `texts` put in place of its key in every string below it, longest key first."""
    match value:
        case str():
            for old in sorted(texts, key=len, reverse=True):
                value = value.replace(old, texts[old])
            return value
        case list():
            return [replaced(item, texts) for item in value]
        case dict():
            return {key: replaced(item, texts) for key, item in value.items()}
        case _:
            return value


def _remove(data: dict[str, Any], parents: list[str], last: str) -> None:
    table: TomlValue = data
    for parent in parents:
        table = table.get(parent)
        if not isinstance(table, dict):
            return
    table.pop(last, None)
