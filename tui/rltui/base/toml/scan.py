"""Finds the positions of keys and values in a TOML text. Expects text that `tomllib` accepts; offsets count
characters.

Any other text gives arbitrary positions, or IndexError, ValueError or RecursionError.
"""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass, field

KeyPath = tuple[str, ...]
"""Keys from the root down; a whole number picks an element of an array (of tables)."""

BOM = "\ufeff"

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)+")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_SPACES = re.compile(r"[ \t]*")
_SCALAR = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|\d{4}-\d{2}-\d{2} \d{2}[^\s,\]}#]*"  # a date and a time, separated by a space
    r"|[^\s,\]}#]+",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A `key = value`."""

    path: KeyPath
    start: int
    key_end: int
    value_start: int
    value_end: int
    inline: bool
    """Inside an inline table or an array."""


@dataclass(frozen=True, slots=True)
class TomlSection:
    """A `[header]`, or the root before the first one, with the entries below it."""

    path: KeyPath
    start: int
    end: int
    """End of the header's closing bracket; 0 or behind the BOM for the root."""
    is_element: bool = False
    """Opened by `[[…]]`: one element of an array of tables."""
    entries: list[Entry] = field(default_factory=list)
    """Sorted by position; entries of an inline table come before the entry that holds them."""


@functools.lru_cache(maxsize=4)
def scan(text: str) -> list[TomlSection]:
    """The tables of a valid TOML text, root first. Callers must not change them: the result is cached."""
    return _Scanner(text).sections()


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both counted from 1; a byte order mark does not count."""
    line_start = text.rfind("\n", 0, offset) + 1
    if line_start == 0 and text.startswith(BOM):
        line_start = len(BOM)
    return text.count("\n", 0, offset) + 1, offset - line_start + 1


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._array_lengths: dict[KeyPath, int] = {}

    def sections(self) -> list[TomlSection]:
        text, offset = self._text, len(BOM) if self._text.startswith(BOM) else 0
        tables = [TomlSection((), offset, offset)]
        while (offset := self._skip(_BLANK, offset)) < len(text):
            if text[offset] == "[":
                tables.append(self._header(offset))
                offset = tables[-1].end
            else:
                offset = self._entry(offset, tables[-1].path, tables[-1].entries, inline=False)
        return tables

    def _skip(self, pattern: re.Pattern[str], offset: int) -> int:
        match = pattern.match(self._text, offset)
        return match.end() if match else offset

    def _header(self, start: int) -> TomlSection:
        is_array = self._text.startswith("[[", start)
        offset = self._skip(_SPACES, start + (2 if is_array else 1))
        keys, offset = self._key(offset)
        end = self._skip(_SPACES, offset) + (2 if is_array else 1)
        # put in the index of the newest element wherever a key names an array of tables
        path: KeyPath = ()
        for depth, key in enumerate(keys, start=1):
            path += (key,)
            if is_array and depth == len(keys):
                self._array_lengths[path] = self._array_lengths.get(path, 0) + 1
            if path in self._array_lengths:
                path += (str(self._array_lengths[path] - 1),)
        return TomlSection(path, start, end, is_array)

    def _key(self, offset: int) -> tuple[tuple[str, ...], int]:
        keys: list[str] = []
        while match := _KEY.match(self._text, offset):
            keys.append(_unquoted(match[0]))
            offset = match.end()
            if not (dot := _DOT.match(self._text, offset)):
                break
            offset = dot.end()
        return tuple(keys), offset

    def _entry(self, start: int, table: KeyPath, entries: list[Entry], *, inline: bool) -> int:
        keys, key_end = self._key(start)
        if not keys:
            raise ValueError(f"no key at {start}")
        value_start = self._skip(_EQUALS, key_end)
        path = table + keys
        value_end = self._value(value_start, path, entries)
        entries.append(Entry(path, start, key_end, value_start, value_end, inline))
        return value_end

    def _value(self, offset: int, path: KeyPath, entries: list[Entry]) -> int:
        """The end of the value that begins at `offset`; inner entries are recorded."""
        opening = self._text[offset]
        if opening not in "[{":
            match = _SCALAR.match(self._text, offset)
            if match is None:
                raise ValueError(f"no value at {offset}")
            return match.end()
        closing = "]" if opening == "[" else "}"
        offset, index = self._skip(_BLANK, offset + 1), 0
        while self._text[offset] != closing:
            if opening == "{":
                offset = self._entry(offset, path, entries, inline=True)
            else:
                start, inner_path = offset, (*path, str(index))
                offset = self._value(start, inner_path, entries)
                entries.append(Entry(inner_path, start, start, start, offset, inline=True))
            offset = self._skip(_BLANK, offset)
            if self._text[offset] == ",":
                offset = self._skip(_BLANK, offset + 1)
            index += 1
        return offset + 1


def _unquoted(key: str) -> str:
    if key[0] == '"':
        return str(tomllib.loads(f"key = {key}")["key"])
    return key[1:-1] if key[0] == "'" else key
