"""Values that a framework takes although they are written oddly: text for numbers, a word for "no value".

Both are what pydantic does outside of its strict mode; the word is prime-rl's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rltui.core.knobs import Knob, TomlValue
from rltui.core.toml_values import format_key
from rltui.frameworks.base import ConfigFiles

_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})
LONGEST_NUMBER = 100
"""Characters; what is longer is no value of any knob."""
_INT = re.compile(r"[+-]?\d+(?:_\d+)*(?:\.0+)?")


def as_read(knob: Knob, value: TomlValue) -> TomlValue:
    """The value that pydantic makes of one with another type; `None` if it refuses it, or bounds do."""
    read = _converted(knob.kind, value)
    return None if read is None or knob.fault(read) is not None else read


def _converted(kind: str, value: TomlValue) -> TomlValue:
    text = value.strip() if isinstance(value, str) else None
    match kind:
        case "bool" if text is not None:
            return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None
        case "bool" if isinstance(value, int | float) and value in (0, 1):
            return bool(value)
        case "int" if text is not None:
            is_one = len(text) < LONGEST_NUMBER and _INT.fullmatch(text)
            return int(text.partition(".")[0]) if is_one else None
        case "int" if isinstance(value, float | bool):
            return int(value) if value - value == 0 and value == int(value) else None
        case "float" if isinstance(value, bool) or text is not None:
            try:
                return float(text if text is not None else value)
            except ValueError:
                return None
        case _:
            return None


def plain(
    files: ConfigFiles, knobs: Iterable[Knob], word: str | None, *, at_top: bool = True
) -> tuple[ConfigFiles, frozenset[str]]:
    """The files with every value as it is read, without those that are `word`: and the names of their knobs.

    `word` stays where a knob must have a value, so that it is found to be wrong, and outside of tables
    unless `at_top`.
    """
    by_place = {(knob.file, knob.key): knob for knob in knobs}
    empty: set[str] = set()

    def kept(role: str, table: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        left: dict[str, Any] = {}
        for key, value in table.items():
            knob = by_place.get((role, format_key((*path, key))))
            if isinstance(value, Mapping):
                left[key] = kept(role, value, (*path, key))
            elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
                left[key] = [
                    kept(role, entry, (*path, key, str(index))) if isinstance(entry, Mapping) else entry
                    for index, entry in enumerate(value)
                ]
            elif value == word and (at_top or path) and (knob is None or knob.nullable):
                empty.update([knob.name] if knob is not None else [])
            else:
                read = as_read(knob, value) if knob is not None and knob.fault(value) else None
                left[key] = value if read is None else read
        return left

    clean = {role: replace(file, data=kept(role, file.data, ())) for role, file in files.items()}
    return clean, frozenset(empty)
