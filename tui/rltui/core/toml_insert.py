"""Find a fitting place in a TOML text for a key that it does not set yet."""

from __future__ import annotations

import re

from rltui.core.knobs import TomlValue
from rltui.core.toml_scan import BOM, Entry, KeyPath, Section
from rltui.core.toml_values import format_key, format_value
from rltui.errors import ConfigError

_LEADING_COMMENT = re.compile(r"(?:[ \t]*#[^\n]*\n)+[ \t]*\r?\n")
"""A comment that opens a file, set off by a blank line."""
_OWN_COMMENT = re.compile(r"[^\n]*\n(?:[ \t]*#[^\n]*\n)*[ \t]*#[^\n]*(?=\n[ \t]*\r?(?:\n|\Z)|\Z)")
"""From behind a header: its line, and the comment right below it where a blank line or the end follows. What
stands right above the next header belongs to that.
"""


def insert(text: str, sections: list[Section], path: KeyPath, value: TomlValue) -> str:
    """Set an absent key: in its inline table, beside dotted siblings, below its header, or in a new table.

    Raises:
        ConfigError: if the key lies below something that is not a table.
    """
    parent = path[:-1]
    holder = _deepest_value_above(sections, path)
    if holder is not None:
        return _into_inline(text, holder, path, value)
    home = _deepest_section_above(sections, path)
    if home.path == parent:
        return _into_section(text, home, path, value)
    sibling = _dotted_sibling(home, parent)
    if sibling is not None:
        return _after_entry(text, sibling, path[len(home.path) :], value)
    return _new_table(text, sections, path, value)


def _deepest_value_above(sections: list[Section], path: KeyPath) -> Entry | None:
    """The `key = value` with the longest path that `path` lies below."""
    above = [
        entry
        for section in sections
        for entry in section.entries
        if len(entry.path) < len(path) and path[: len(entry.path)] == entry.path
    ]
    return max(above, key=lambda entry: len(entry.path), default=None)


def _deepest_section_above(sections: list[Section], path: KeyPath) -> Section:
    above = [section for section in sections if path[: len(section.path)] == section.path]
    return max(above, key=lambda section: len(section.path))


def _dotted_sibling(section: Section, parent: KeyPath) -> Entry | None:
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
            hint="edit it in the file itself",
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


def _into_section(text: str, section: Section, path: KeyPath, value: TomlValue) -> str:
    own = [entry for entry in section.entries if not entry.inline]
    if own:
        return _after_entry(text, own[-1], path[-1:], value)
    line = f"{format_key(path[-1:])} = {format_value(value)}"
    if section.path:
        own_comment = _OWN_COMMENT.match(text, section.end)
        return _insert_line(text, own_comment.end() - 1 if own_comment else section.end, line)
    opening = _LEADING_COMMENT.match(text, section.end)
    at = opening.end() if opening else section.end
    newline = _newline(text)
    gap = newline if text[at:].strip() else ""
    return text[:at] + line + newline + gap + text[at:]


def _new_table(text: str, sections: list[Section], path: KeyPath, value: TomlValue) -> str:
    parent, newline = path[:-1], _newline(text)
    element, header = _element_and_header(sections, path)
    block = f"[{format_key(header)}]{newline}{format_key(path[-1:])} = {format_value(value)}"
    inside = [section for section in sections if section.path[: len(element)] == element]
    nearest = max(_common(section.path, parent) for section in inside)
    if nearest:
        related = [section for section in inside if _common(section.path, parent) == nearest][-1]
        end = max((entry.value_end for entry in related.entries), default=related.end)
        return _insert_line(text, end, newline + block)
    if not text.strip(BOM + " \t\r\n"):
        return text + block + newline
    return _insert_line(text, len(text.rstrip()), newline + block)


def _element_and_header(sections: list[Section], path: KeyPath) -> tuple[KeyPath, KeyPath]:
    """The deepest element of an array of tables that `path` lies in, and the keys of its table's header,
    which name the arrays without their elements: they mean the newest one above.

    Raises:
        ConfigError: if `path` names no element, or one that there is not.
    """
    elements = [section.path for section in sections if section.is_element]
    arrays = {element[:-1] for element in elements}
    parent: KeyPath = path[:-1]
    found: KeyPath = ()
    header: list[str] = []
    for depth, key in enumerate(parent, start=1):
        if parent[: depth - 1] not in arrays:
            header.append(key)
        elif parent[:depth] in elements:
            found = parent[:depth]
        else:
            raise _no_element(elements, path, parent[: depth - 1])
    if parent in arrays:
        raise _no_element(elements, path, parent)
    return found, tuple(header)


def _no_element(elements: list[KeyPath], path: KeyPath, array: KeyPath) -> ConfigError:
    count = sum(element[:-1] == array for element in elements)
    name = format_key(array)
    return ConfigError(
        f"cannot set {format_key(path)}: {name} is an array of {count} table{'' if count == 1 else 's'}",
        hint=f"name one of them, {name}.0" + (f" to {name}.{count - 1}" if count > 1 else ""),
    )


def _common(one: KeyPath, other: KeyPath) -> int:
    """How many leading keys agree."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _insert_line(text: str, behind: int, line: str) -> str:
    """Put a line behind the one that `behind` lies in."""
    newline = _newline(text)
    end = text.find("\n", behind)
    if end < 0:
        return text + newline + line
    return text[: end + 1] + line + newline + text[end + 1 :]


def _newline(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
