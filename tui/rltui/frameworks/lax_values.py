"""Values that a framework takes although they are written oddly: text for numbers, a word for "no value".

Both are what pydantic does outside of its strict mode; the word is prime-rl's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rltui.core.knobs import Knob, TomlValue
from rltui.core.toml_values import format_key
from rltui.frameworks.base import ConfigFiles

_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})


def as_read(knob: Knob, value: TomlValue) -> TomlValue:
    """The value that pydantic makes of one with another type; `None` if it refuses it, or bounds do."""
    read = _converted(knob.kind, value)
    return None if read is None or knob.fault(read) is not None else read


def _converted(kind: str, value: TomlValue) -> TomlValue:
    text = value.strip() if isinstance(value, str) else None
    try:
        match kind:
            case "bool" if not isinstance(value, bool):
                word = str(int(value)) if isinstance(value, int | float) else (text or "").lower()
                return True if word in _TRUE else False if word in _FALSE else None
            case "int" if isinstance(value, float | bool) or text is not None:
                number = float(value)
                return int(number) if number == int(number) else None
            case "float" if isinstance(value, bool) or text is not None:
                return float(value)
            case _:
                return None
    except (ValueError, OverflowError):
        return None


def without(files: ConfigFiles, knobs: Iterable[Knob], word: str) -> tuple[ConfigFiles, frozenset[str]]:
    """The files without the values that are `word`, and the names of the knobs that it stood for.

    It stays where a knob must have a value, so that it is found to be wrong.
    """
    by_place = {(knob.file, knob.key): knob for knob in knobs}
    nullable = {place for place, knob in by_place.items() if knob.nullable}
    found: set[str] = set()

    def kept(role: str, table: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        left: dict[str, Any] = {}
        for key, value in table.items():
            place = (role, format_key((*path, key)))
            if isinstance(value, Mapping):
                left[key] = kept(role, value, (*path, key))
            elif value != word or (place in by_place and place not in nullable):
                left[key] = value
            elif place in nullable:
                found.add(by_place[place].name)
        return left

    clean = {role: replace(file, data=kept(role, file.data, ())) for role, file in files.items()}
    return clean, frozenset(found)
