"""Formats and parses single keys and values as TOML text."""

from __future__ import annotations

import datetime
import functools
import json
import math
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from rltui.errors import ConfigError

TomlValue = Any
"""Whatever a TOML file can hold."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SEGMENT = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^."']+?))\s*(?:\.|$)""")
_PADDED_EXPONENT = re.compile(r"e([+-]?)0*(?=\d)")
_NEEDS_ESCAPE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\r\\]")
"""Characters that must be escaped in a multi-line string."""


@functools.lru_cache(maxsize=1 << 12)
def split_key(dotted: str) -> tuple[str, ...]:
    """`orchestrator.env.0."a.b"` as a path; whole numbers pick array elements.

    Raises:
        ConfigError: if it is not a dotted key.
    """
    path: list[str] = []
    offset = 0
    while match := _SEGMENT.match(dotted, offset):
        quoted, literal, bare = match.groups()
        path.append(_unescaped(quoted) if quoted is not None else literal if literal is not None else bare)
        offset = match.end()
        if offset == len(dotted):
            break
    if offset != len(dotted) or not path or dotted.endswith("."):
        raise ConfigError(f"not a dotted key: {dotted}", hint="for example orchestrator.batch_size")
    return tuple(path)


def format_key(keys: tuple[str, ...]) -> str:
    """A path as a dotted TOML key, quoted where needed."""
    return ".".join(key if _BARE.fullmatch(key) else _basic(key) for key in keys)


def typed_values(values: Mapping[str, TomlValue]) -> dict[str, str]:
    """Key → value as a person types it."""
    return {key: value if isinstance(value, str) else format_value(value) for key, value in values.items()}


def format_value(value: TomlValue, *, replaces: str = "") -> str:
    """A value as TOML, in one line; a string keeps the quotes and the line breaks of the value that it
    `replaces` if it can.

    Raises:
        ConfigError: if TOML cannot hold it.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            if not math.isfinite(value):
                return repr(value)  # `inf`, `-inf` and `nan`, as TOML spells them
            return _PADDED_EXPONENT.sub(lambda match: f"e{match[1].replace('+', '')}", repr(value))
        case str():
            if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
                raise ConfigError(f"not UTF-8 text: {value!r}")
            if "\n" in value and replaces.startswith(('"""', "'''")):
                return _in_several_lines(value, replaces)
            if replaces.startswith("'") and "'" not in value and value.isprintable():
                return f"'{value}'"
            return _basic(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case list():
            return f"[{', '.join(format_value(item) for item in value)}]"
        case dict():
            items = (f"{format_key((key,))} = {format_value(item)}" for key, item in value.items())
            return f"{{ {', '.join(items)} }}" if value else "{}"
    raise ConfigError(f"cannot write a value of type {type(value).__name__} to a config file")


def read_value(text: str) -> TomlValue:
    """The value that `format_value` wrote.

    Raises:
        ValueError: if it is not one TOML value.
    """
    data = tomllib.loads(f"value = {text}\n")
    if len(data) > 1:
        raise tomllib.TOMLDecodeError(f"{text!r} is more than one value")
    return data["value"]


def same_value(one: TomlValue, other: TomlValue) -> bool:
    """Equal and of one type: `1`, `1.0` and `true` differ, and NaN equals itself."""
    return repr(one) == repr(other)


def _in_several_lines(value: str, replaces: str) -> str:
    """A multi-line string with the line ends of the replaced one, and a line of its own for the opening
    quotes if that had one.
    """
    newline = "\r\n" if "\r\n" in replaces else "\n"
    starts_on_new_line = replaces[3:].startswith(("\n", "\r\n")) or value.startswith("\n")
    opening = newline if starts_on_new_line else ""
    if replaces.startswith("'''") and _is_literal(value):
        return f"'''{opening}{value.replace(chr(10), newline)}'''"
    plain = _NEEDS_ESCAPE.sub(lambda match: _basic(match[0])[1:-1], value)
    quoted = plain.replace('"""', '""\\"')
    if quoted.endswith('"'):
        quoted = f'{quoted[:-1]}\\"'
    return f'"""{opening}{quoted.replace(chr(10), newline)}"""'


def _is_literal(value: str) -> bool:
    """The value can stand between `'''` as it is."""
    return not (_NEEDS_ESCAPE.search(value.replace("\\", "")) or "'''" in value or value.endswith("'"))


def _basic(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _unescaped(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted
    try:
        return str(tomllib.loads(f'value = "{quoted}"')["value"])
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f'"{quoted}" is not a quoted key') from error
