"""Keys and scalar values as TOML text."""

from __future__ import annotations

import json
import re

from rltui.core.api import KnobScalar
from rltui.errors import ConfigError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PART = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^."']+?))\s*(?:\.|$)""")
_PADDED_EXPONENT = re.compile(r"e([+-]?)0*(?=\d)")


def split_key(dotted: str) -> tuple[str, ...]:
    """`orchestrator.env.0."a.b"` as a path; whole numbers pick array elements.

    Raises:
        ConfigError: if it is not a dotted key.
    """
    path: list[str] = []
    at = 0
    while match := _PART.match(dotted, at):
        path.append(next(group for group in match.groups() if group is not None))
        at = match.end()
        if at == len(dotted):
            break
    if at != len(dotted) or not path or dotted.endswith("."):
        raise ConfigError(f"{dotted!r} is not a dotted key", hint="write it like orchestrator.batch_size")
    return tuple(path)


def format_key(keys: tuple[str, ...]) -> str:
    """A path as a dotted TOML key, quoted where needed."""
    return ".".join(key if _BARE.fullmatch(key) else json.dumps(key) for key in keys)


def format_value(value: KnobScalar, *, replaces: str = "") -> str:
    """A scalar as TOML; a string keeps the quotes of the value that it `replaces` where it can.

    Raises:
        ConfigError: if TOML cannot hold it in one line.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _PADDED_EXPONENT.sub(lambda match: f"e{match[1].replace('+', '')}", repr(value))
    if isinstance(value, str):
        return _format_string(value, replaces)
    raise ConfigError(
        f"cannot write a {type(value).__name__} into a config",
        hint="lists and tables are edited in the file itself",
    )


def _format_string(value: str, replaces: str) -> str:
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfigError(f"{value!r} is not valid text", hint="use UTF-8")
    if replaces.startswith("'") and "'" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
