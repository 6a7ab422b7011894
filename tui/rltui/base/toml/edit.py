"""Read and edit TOML text. An edit touches nothing but the bytes of the value it changes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltui.base.kinds import is_number
from rltui.base.secrets import mask_text
from rltui.base.text import count_text
from rltui.base.toml.scan import BOM, Entry, KeyPath, TomlSection, line_and_column, scan
from rltui.base.toml.values import (
    TomlValue,
    format_key,
    format_value,
    read_value,
    same_value,
    split_key,
)
from rltui.errors import ConfigError

_MAX_SEGMENTS = 100
_SEGMENT = r"""(?:[\w-]{1,200}|"[^"\n]{0,200}"|'[^'\n]{0,200}')"""
_LONG_KEY = re.compile(rf"""(?<![\w."'-])(?:{_SEGMENT}[ \t]*\.[ \t]*){{{_MAX_SEGMENTS}}}""")
"""A key with too many segments: reading a dotted key takes time by the square of their number."""
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_UNQUOTED = re.compile(r"=\s*([A-Za-z][\w./-]*)\s*(?:#.*)?$")
_VISIBLE_COLUMNS = 96
_LEADING_COMMENT = re.compile(r"(?:[ \t]*#[^\n]*\n)+[ \t]*\r?\n")
"""A comment that opens a file, set off by a blank line."""
_OWN_COMMENT = re.compile(r"[^\n]*\n(?:[ \t]*#[^\n]*\n)*[ \t]*#[^\n]*(?=\n[ \t]*\r?(?:\n|\Z)|\Z)")
"""The rest of a header's line, and the comment right below it if a blank line or the end follows. A comment
right above the next header belongs to that header.
"""
_AFTER_ITEM = re.compile(r"[ \t\r\n]*(,?)")
_LINE_END = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n)")
_GAP = re.compile(r"[ \t]*,?[ \t\r\n]*")


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
        if (long := _LONG_KEY.search(plain)) is not None:
            line, column = line_and_column(plain, long.start())
            raise ValueError(f"a key with more than {_MAX_SEGMENTS} parts (at line {line}, column {column})")
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


def _pointed(source: str, line: int, column: int) -> list[str]:
    """A line of the file with a caret below, cut to what fits, free of control characters. A line with a
    secret has no caret: the mask is of another length.
    """
    masked = mask_text(source)
    if masked != source:
        return [f"{line} | {''.join(c if c.isprintable() else ' ' for c in masked[:_VISIBLE_COLUMNS])}"]
    first_column = max(0, column - _VISIBLE_COLUMNS // 2) if len(source) > _VISIBLE_COLUMNS else 0
    excerpt = "".join(
        c if c.isprintable() else " " for c in source[first_column : first_column + _VISIBLE_COLUMNS]
    )
    margin = f"{line} | "
    return [f"{margin}{excerpt}", " " * (len(margin) + column - 1 - first_column) + "^"]


def locate(text: str, dotted_key: str) -> tuple[int, int] | None:
    """Line and column, from 1, at which a valid TOML text sets a key or opens a table; `None` if nowhere."""
    path = split_key(dotted_key)
    offset = _offset(scan(text), path)
    return None if offset is None else line_and_column(text, offset)


def _offset(sections: list[TomlSection], path: KeyPath) -> int | None:
    """Offset at which `path` is set, else of the first thing below it."""
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


def edit(text: str, changes: Mapping[str, Any]) -> str:
    """Set dotted keys of a valid TOML text; `None` removes the key, and leaves its table, which may mean
    something without keys too.

    A value that already equals the new one keeps its spelling, and so do the equal items of a list. An absent
    key is added to the table it belongs to, which is made if there is none.

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
        raise ConfigError(
            f"{format_key(path)} is a table, not a value", hint="edit the table in the file itself"
        )
    return text if value is None else _insert(text, sections, path, value)


def _replace(text: str, entry: Entry, section: TomlSection, value: TomlValue) -> str:
    old = text[entry.value_start : entry.value_end]
    if old[0] == "{" and not isinstance(value, dict):
        raise ConfigError(
            f"{format_key(entry.path)} is a table, not a value", hint="edit the table in the file itself"
        )
    current = read_value(old)
    if same_value(current, value) or (current == value and is_number(current) and is_number(value)):
        return text
    if old[0] == "[" and isinstance(value, list):
        new = _replace_list(old, _items(entry, section), value)
    else:
        new = format_value(value, replaces=old)
    return text[: entry.value_start] + new + text[entry.value_end :]


# --- removing -------------------------------------------------------------------------------------------


def _remove(text: str, entry: Entry, section: TomlSection) -> str:
    if entry.inline:
        return _remove_inline(text, entry, section)
    start = text.rfind("\n", 0, entry.start) + 1
    if start == 0 and text.startswith(BOM):
        start = len(BOM)
    end = text.find("\n", entry.value_end)
    return text[:start] + (text[end + 1 :] if end >= 0 else "")


def _remove_inline(text: str, entry: Entry, section: TomlSection) -> str:
    enclosing = [
        candidate
        for candidate in section.entries
        if candidate.value_start < entry.start < candidate.value_end
    ]
    holder = max(enclosing, key=lambda candidate: candidate.value_start)
    if text[holder.value_start] == "[":
        items = _items(holder, section)
        remaining = [
            read_value(text[holder.value_start + item.start : holder.value_start + item.end])
            for index, item in enumerate(items)
            if index != int(entry.path[-1])
        ]
        return _replace(text, holder, section, remaining)
    before, after = text[: entry.start].rstrip(" \t"), text[entry.value_end :]
    if before.endswith(","):
        return before[:-1] + after
    rest = after.lstrip(" \t")
    return text[: entry.start] + rest[1:].lstrip(" \t") if rest.startswith(",") else before + rest


# --- adding ---------------------------------------------------------------------------------------------


def _insert(text: str, sections: list[TomlSection], path: KeyPath, value: TomlValue) -> str:
    """Set an absent key: in its inline table, beside dotted siblings, below its header, or in a new table.

    Raises:
        ConfigError: if the key lies below something that is not a table.
    """
    parent = path[:-1]
    holder = _deepest_value_above(sections, path)
    if holder is not None:
        return _into_inline(text, holder, path, value)
    above = [section for section in sections if path[: len(section.path)] == section.path]
    home = max(above, key=lambda section: len(section.path))
    if home.path == parent:
        return _into_section(text, home, path, value)
    sibling = _dotted_sibling(home, parent)
    if sibling is not None:
        return _after_entry(text, sibling, path[len(home.path) :], value)
    return _new_table(text, sections, path, value)


def _deepest_value_above(sections: list[TomlSection], path: KeyPath) -> Entry | None:
    """The `key = value` with the longest path that `path` lies below."""
    above = [
        entry
        for section in sections
        for entry in section.entries
        if len(entry.path) < len(path) and path[: len(entry.path)] == entry.path
    ]
    return max(above, key=lambda entry: len(entry.path), default=None)


def _dotted_sibling(section: TomlSection, parent: KeyPath) -> Entry | None:
    """The last `a.b = …` that makes `a` a table without a header: TOML forbids a header `[a]` beside it."""
    shared = len(section.path) + 1
    for entry in reversed(section.entries):
        if not entry.inline and len(entry.path) > shared and entry.path[:shared] == parent[:shared]:
            return entry
    return None


def _into_inline(text: str, holder: Entry, path: KeyPath, value: TomlValue) -> str:
    if text[holder.value_start] != "{":
        raise ConfigError(
            f"cannot set {format_key(path)}: {format_key(holder.path)} is not a table",
            hint="edit the file itself",
        )
    body = text[holder.value_start + 1 : holder.value_end - 1]
    item = f"{format_key(path[len(holder.path) :])} = {format_value(value)}"
    filled = body.rstrip()
    closing = body[len(filled) :]
    new = f"{filled}, {item}{closing}" if filled else f" {item} "
    return text[: holder.value_start + 1] + new + text[holder.value_end - 1 :]


def _after_entry(text: str, entry: Entry, keys: KeyPath, value: TomlValue) -> str:
    """A line of its own behind the entry's, with the same indentation and the same spaces around `=`."""
    line_start = text.rfind("\n", 0, entry.start) + 1
    indent = text[line_start : entry.start].lstrip(BOM)
    equals = "=" if text[entry.key_end : entry.value_start] == "=" else " = "
    return _insert_line(text, entry.value_end, f"{indent}{format_key(keys)}{equals}{format_value(value)}")


def _into_section(text: str, section: TomlSection, path: KeyPath, value: TomlValue) -> str:
    own = [entry for entry in section.entries if not entry.inline]
    if own:
        return _after_entry(text, own[-1], path[-1:], value)
    line = f"{format_key(path[-1:])} = {format_value(value)}"
    if section.path:
        own_comment = _OWN_COMMENT.match(text, section.end)
        return _insert_line(text, own_comment.end() - 1 if own_comment else section.end, line)
    opening = _LEADING_COMMENT.match(text, section.end)
    offset = opening.end() if opening else section.end
    newline = newline_of(text)
    gap = newline if text[offset:].strip() else ""
    return text[:offset] + line + newline + gap + text[offset:]


def _new_table(text: str, sections: list[TomlSection], path: KeyPath, value: TomlValue) -> str:
    parent, newline = path[:-1], newline_of(text)
    element, header = _element_and_header(sections, path)
    block = f"[{format_key(header)}]{newline}{format_key(path[-1:])} = {format_value(value)}"
    inside = [section for section in sections if section.path[: len(element)] == element]
    nearest = max(_equal_at_start(section.path, parent) for section in inside)
    if nearest:
        related = [section for section in inside if _equal_at_start(section.path, parent) == nearest][-1]
        end = max((entry.value_end for entry in related.entries), default=related.end)
        return _insert_line(text, end, newline + block)
    if not text.strip(BOM + " \t\r\n"):
        return text + block + newline
    return _insert_line(text, len(text.rstrip()), newline + block)


def _element_and_header(sections: list[TomlSection], path: KeyPath) -> tuple[KeyPath, KeyPath]:
    """The deepest element of an array of tables that `path` lies in, and the keys of its table's header,
    which name the arrays without their elements: they mean the newest one above.

    Raises:
        ConfigError: if `path` names no element, or one that does not exist.
    """
    elements = [section.path for section in sections if section.is_element]
    arrays = {element[:-1] for element in elements}
    parent: KeyPath = path[:-1]
    deepest: KeyPath = ()
    header: list[str] = []
    for depth, key in enumerate(parent, start=1):
        if parent[: depth - 1] not in arrays:
            header.append(key)
        elif parent[:depth] in elements:
            deepest = parent[:depth]
        else:
            raise _no_element(elements, path, parent[: depth - 1])
    if parent in arrays:
        raise _no_element(elements, path, parent)
    return deepest, tuple(header)


def _no_element(elements: list[KeyPath], path: KeyPath, array: KeyPath) -> ConfigError:
    count = sum(element[:-1] == array for element in elements)
    name = format_key(array)
    return ConfigError(
        f"cannot set {format_key(path)}: {name} is an array of {count_text(count, 'table')}",
        hint=f"name one table: {name}.0" + (f" to {name}.{count - 1}" if count > 1 else ""),
    )


def _insert_line(text: str, offset: int, line: str) -> str:
    """Insert a line after the one that `offset` lies in."""
    newline = newline_of(text)
    end = text.find("\n", offset)
    if end < 0:
        return text + newline + line
    return text[: end + 1] + line + newline + text[end + 1 :]


def newline_of(text: str) -> str:
    """Return the end of its first line."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


# --- lists: changed item by item, so that comments, lines and trailing commas stay ----------------------


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a list, as offsets into the text of the list."""

    start: int
    end: int


def _items(entry: Entry, section: TomlSection) -> list[_Item]:
    depth = len(entry.path) + 1
    return [
        _Item(inner.value_start - entry.value_start, inner.value_end - entry.value_start)
        for inner in section.entries
        if len(inner.path) == depth and inner.path[:-1] == entry.path and inner.start == inner.key_end
    ]


def _replace_list(text: str, items: Sequence[_Item], value: Sequence[Any]) -> str:
    """The text of a list with the given `items`, `text` from bracket to bracket, changed to hold `value`.

    Equal items at both ends stay as they are. Of the others, as many as possible are replaced in place; the
    rest is added behind them, or removed.
    """
    old = [read_value(text[item.start : item.end]) for item in items]
    first = _equal_at_start(old, value)
    last = _equal_at_start(old[first:][::-1], value[first:][::-1])
    old_items, new_values = list(items[first : len(items) - last]), list(value[first : len(value) - last])
    replaced_count = min(len(old_items), len(new_values))
    if len(old_items) > replaced_count:
        text = _list_without(text, items, first + replaced_count, len(items) - last)
    elif len(new_values) > replaced_count:
        text = _list_with(text, items, first + replaced_count, new_values[replaced_count:])
    for item, new in reversed(
        list(zip(old_items[:replaced_count], new_values[:replaced_count], strict=True))
    ):
        replacement = format_value(new, replaces=text[item.start : item.end])
        text = text[: item.start] + replacement + text[item.end :]
    return text


def _equal_at_start(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Number of keys or items that agree from the start."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if not same_value(first, second):
            break
        count += 1
    return count


def _list_without(text: str, items: Sequence[_Item], start: int, end: int) -> str:
    """Remove the items from `start` to before `end`, last first."""
    if (start, end) == (0, len(items)) and "#" not in text:
        return "[]"
    for index in range(end - 1, start - 1, -1):
        text = _without_one(text, items, index)
    return text


def _without_one(text: str, items: Sequence[_Item], index: int) -> str:
    item = items[index]
    comma_end = _comma_end(text, item)
    line_start = text.rfind("\n", 0, item.start) + 1
    line_end = _LINE_END.match(text, comma_end)
    if line_start and line_end and not text[line_start : item.start].strip():
        return text[:line_start] + text[line_end.end() :]
    if text[comma_end - 1] == ",":
        gap = _GAP.match(text, comma_end)
        keep_from = gap.end() if gap and "\n" not in gap[0] else comma_end
        return text[: item.start] + text[keep_from:]
    if index and _GAP.fullmatch(text, items[index - 1].end, item.start):
        return text[: items[index - 1].end] + text[item.end :]
    return text[: item.start] + text[item.end :]


def _list_with(text: str, items: Sequence[_Item], index: int, values: Sequence[Any]) -> str:
    """Add `values` before the item at `index`, or behind the last one."""
    texts = [format_value(value) for value in values]
    if not items:
        if "#" not in text:
            return f"[{', '.join(texts)}]"
        return f"[{''.join(f'{item}, ' for item in texts)}{text[1:]}"
    neighbor = items[index - 1] if index else items[0]
    line_start = text.rfind("\n", 0, neighbor.start) + 1
    indent = text[line_start : neighbor.start]
    if not line_start or indent.strip():
        if index:
            return text[: neighbor.end] + "".join(f", {item}" for item in texts) + text[neighbor.end :]
        return text[: neighbor.start] + "".join(f"{item}, " for item in texts) + text[neighbor.start :]
    newline = "\r\n" if text[line_start - 2 : line_start] == "\r\n" else "\n"
    lines = [f"{indent}{item},{newline}" for item in texts]
    if not index:
        return text[:line_start] + "".join(lines) + text[line_start:]
    comma_end = _comma_end(text, neighbor)
    if text[comma_end - 1] != ",":
        lines[-1] = f"{indent}{texts[-1]}{newline}"
        text = f"{text[: neighbor.end]},{text[neighbor.end :]}"
        comma_end = neighbor.end + 1
    end_of_line = _LINE_END.match(text, comma_end)
    if end_of_line is None:  # more follows on this line
        return text[:comma_end] + "".join(f" {item}," for item in texts) + text[comma_end:]
    return text[: end_of_line.end()] + "".join(lines) + text[end_of_line.end() :]


def _comma_end(text: str, item: _Item) -> int:
    """Offset behind the item's comma, or the item's own end if it has none right behind it."""
    match = _AFTER_ITEM.match(text, item.end)
    return match.end() if match and match[1] else item.end
