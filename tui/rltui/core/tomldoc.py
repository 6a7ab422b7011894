"""Read and edit TOML text. An edit touches nothing but the bytes of the value it changes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from rltui.core.knobs import TomlValue
from rltui.core.secrets import masked_text
from rltui.core.toml_arrays import Item, replace_list
from rltui.core.toml_insert import insert
from rltui.core.toml_scan import BOM, Entry, KeyPath, Section, line_and_column, scan
from rltui.core.toml_values import format_key, format_value, parse_value, same_value, split_key
from rltui.errors import ConfigError

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_UNQUOTED = re.compile(r"=\s*([A-Za-z][\w./-]*)\s*(?:#.*)?$")
_SHOWN_COLUMNS = 96


class TomlSyntaxError(ConfigError):
    """A file is not TOML. `line` and `column` are counted from 1."""

    def __init__(self, path: str, line: int, column: int, what: str, source: str) -> None:
        unquoted = _UNQUOTED.search(source)
        hint = f'text needs quotes: "{unquoted[1]}"' if unquoted else ""
        super().__init__(f"{path}:{line}:{column}: {what}", details=_pointed(source, line, column), hint=hint)
        self.path, self.line, self.column, self.what = path, line, column, what


def parse(text: str, path: str) -> dict[str, Any]:
    """The content of a TOML text; a byte order mark is ignored, `path` is for messages only.

    Raises:
        TomlSyntaxError: if it is not TOML; the details show the line with a caret.
    """
    plain = text.removeprefix(BOM)
    try:
        return tomllib.loads(plain)
    except ValueError as error:  # also of a number with thousands of digits
        message = str(error)
    except RecursionError:
        message = "values are nested too deeply (at end of document)"
    lines = plain.split("\n")
    match = _POSITION.search(message)
    if match and match[1]:
        line, column = int(match[1]), int(match[2])
    else:
        line = next((n for n in range(len(lines), 0, -1) if lines[n - 1].strip()), 1)
        column = len(lines[line - 1].rstrip()) + 1
    what = message[: match.start()] if match else message
    raise TomlSyntaxError(path, line, column, what, lines[line - 1].rstrip("\r"))


def locate(text: str, dotted_key: str) -> tuple[int, int] | None:
    """Line and column, from 1, at which a valid TOML text sets a key or opens a table; `None` if nowhere."""
    path = split_key(dotted_key)
    offset = _offset(scan(text), path)
    return None if offset is None else line_and_column(text, offset)


def edit(text: str, changes: Mapping[str, Any]) -> str:
    """Set dotted keys of a valid TOML text; `None` removes the key, and leaves its table, which may mean
    something without keys too.

    A value that already equals the wanted one keeps its spelling, and so do the equal items of a list. An
    absent key is added to the table it belongs to, which is made where there is none.

    Raises:
        ConfigError: if a key holds a table, or lies below a value that is no table.
    """
    for dotted, value in changes.items():
        text = _edit_one(text, split_key(dotted), value)
    return text


def _edit_one(text: str, path: KeyPath, value: TomlValue) -> str:
    sections = scan(text)
    for section in sections:
        for entry in section.entries:
            if entry.path == path:
                return (
                    _remove(text, entry, section) if value is None else _replace(text, entry, section, value)
                )
    if _offset(sections, path) is not None:
        raise ConfigError(f"{format_key(path)} is a table, not a value", hint="edit it in the file itself")
    return text if value is None else insert(text, sections, path, value)


def _replace(text: str, entry: Entry, section: Section, value: TomlValue) -> str:
    old = text[entry.value_start : entry.value_end]
    if old[0] == "{" and not isinstance(value, dict):
        raise ConfigError(
            f"{format_key(entry.path)} holds a table, not a value", hint="edit it in the file itself"
        )
    current = parse_value(old)
    if same_value(current, value) or (current == value and _is_number(current) and _is_number(value)):
        return text
    if old[0] == "[" and isinstance(value, list):
        new = replace_list(old, _items(entry, section), value)
    else:
        new = format_value(value, replaces=old)
    return text[: entry.value_start] + new + text[entry.value_end :]


def _is_number(value: TomlValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _items(entry: Entry, section: Section) -> list[Item]:
    """The items of a list, placed in its own text."""
    depth = len(entry.path) + 1
    return [
        Item(inner.value_start - entry.value_start, inner.value_end - entry.value_start)
        for inner in section.entries
        if len(inner.path) == depth and inner.path[:-1] == entry.path and inner.start == inner.key_end
    ]


def _remove(text: str, entry: Entry, section: Section) -> str:
    if entry.inline:
        return _remove_inline(text, entry, section)
    start = text.rfind("\n", 0, entry.start) + 1
    if start == 0 and text.startswith(BOM):
        start = len(BOM)
    end = text.find("\n", entry.value_end)
    return text[:start] + (text[end + 1 :] if end >= 0 else "")


def _remove_inline(text: str, entry: Entry, section: Section) -> str:
    around = [each for each in section.entries if each.value_start < entry.start < each.value_end]
    holder = max(around, key=lambda each: each.value_start)
    if text[holder.value_start] == "[":
        items = _items(holder, section)
        kept = [
            parse_value(text[holder.value_start + item.start : holder.value_start + item.end])
            for index, item in enumerate(items)
            if index != int(entry.path[-1])
        ]
        return _replace(text, holder, section, kept)
    before, after = text[: entry.start].rstrip(" \t"), text[entry.value_end :]
    if before.endswith(","):
        return before[:-1] + after
    rest = after.lstrip(" \t")
    return text[: entry.start] + rest[1:].lstrip(" \t") if rest.startswith(",") else before + rest


def _offset(sections: list[Section], path: KeyPath) -> int | None:
    """Where `path` is set; else where the first thing below it is."""
    below: list[int] = []
    for section in sections:
        for entry in section.entries:
            if entry.path == path:
                return entry.start
            if entry.path[: len(path)] == path:
                below.append(entry.start)
        if section.path == path:
            return section.start
        if section.path[: len(path)] == path:
            below.append(section.start)
    return min(below, default=None)


def _pointed(source: str, line: int, column: int) -> list[str]:
    """A line of the file with a caret below, cut to what fits, free of control characters. One that holds
    a secret has none: the mask is of another length.
    """
    told = masked_text(source)
    if told != source:
        return [f"{line} | {''.join(c if c.isprintable() else ' ' for c in told[:_SHOWN_COLUMNS])}"]
    cut = max(0, column - _SHOWN_COLUMNS // 2) if len(source) > _SHOWN_COLUMNS else 0
    shown = "".join(c if c.isprintable() else " " for c in source[cut : cut + _SHOWN_COLUMNS])
    margin = f"{line} | "
    return [f"{margin}{shown}", " " * (len(margin) + column - 1 - cut) + "^"]
