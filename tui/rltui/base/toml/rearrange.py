"""Moves keys and tables of a TOML text to other places, with their comments; the rest keeps its bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from rltui.base.toml import edit
from rltui.base.toml.scan import Entry, KeyPath, TomlSection, scan
from rltui.base.toml.values import TomlValue, format_key, format_value, read_value
from rltui.errors import ConfigError

_COMMENTS_ABOVE = re.compile(r"(?:^[ \t]*#[^\n]*\n)+[ \t]*\Z", re.MULTILINE)
_REST_OF_LINE = re.compile(r"[ \t]*(#[^\n]*?)?[ \t]*\r?(?:\n|\Z)")
_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*")


def rearranged(text: str, moves: Mapping[KeyPath, KeyPath | None]) -> str:
    """Give keys and tables of a valid TOML text other paths; `None` removes one. A path that is not in
    `moves` stays.

    A header is renamed where it stands. A key stays in its table if that has moved as well; else it goes to
    the end of its new one, with the comment above it and the one behind it. A table that loses its last key
    keeps its header.

    Raises:
        ConfigError: if the text cannot be rearranged without loss.
    """
    text, pending = _with_headers(text, moves)
    for path in [path for path, new in pending.items() if new is None]:
        text = _without(text, path, keeps_heading=True)[0]
    for path, new in pending.items():
        if new is not None:
            text = _moved(text, path, new)
    for section, is_last in _empty(text):
        if not (is_last or section.is_element) and section.path in {path[:-1] for path in pending}:
            text = without_header(text, section.path)
    return text


def without_header(text: str, path: KeyPath) -> str:
    """Remove the header of a table that has no keys, and the comment above it."""
    section = next(section for section in scan(text) if section.path == path)
    start, end, _, _ = _lines(text, section.start, section.end)
    following = _BLANK_LINES.match(text, end)
    return text[:start] + text[following.end() if following else end :]


def empty_headers(text: str) -> Iterator[KeyPath]:
    """Tables with a header and no keys, nor a table below."""
    return (section.path for section, is_last in _empty(text) if is_last)


def _empty(text: str) -> list[tuple[TomlSection, bool]]:
    """Tables with a header and no keys, and whether there is no table below either."""
    sections = scan(text)

    def is_last(section: TomlSection) -> bool:
        others = (other for other in sections if other is not section)
        return not any(other.path[: len(section.path)] == section.path for other in others)

    return [(section, is_last(section)) for section in sections if section.path and not section.entries]


def with_inline_tables(text: str, wanted: Callable[[KeyPath], TomlValue]) -> str:
    """Give inline tables, and lists of them, the content that is `wanted` at their paths, if there is any."""
    for section in reversed(scan(text)):
        for entry in reversed(section.entries):
            old, new = text[entry.value_start : entry.value_end], wanted(entry.path)
            has_tables = new and isinstance(new[0] if isinstance(new, list) else new, Mapping)
            if not entry.inline and has_tables and old[0] in "{[" and read_value(old) != new:
                text = text[: entry.value_start] + format_value(new) + text[entry.value_end :]
    return text


def nested(text: str, table: str) -> str:
    """The same content below a table: a file that is to be a part of another."""
    sections = scan(text)
    out, offset, newline = [], 0, edit.newline_of(text)
    first = min((entry.start for entry in sections[0].entries), default=None)
    if first is not None:
        start = _lines(text, first, first)[0]
        out.append(f"{text[:start]}[{table}]{newline}")
        offset = start
    for section in sections[1:]:
        keys = text[section.start : section.end].strip("[] \t")
        out.append(text[offset : section.start] + _header(f"{table}.{keys}", section))
        offset = section.end
    out.append(text[offset:])
    return "".join(out) if len(out) > 1 else f"{text.rstrip()}{newline}[{table}]{newline}".lstrip("\r\n")


def unnested(text: str, table: str) -> str:
    """The opposite: the file of a part by itself."""
    out, offset = [], 0
    for section in scan(text)[1:]:
        out.append(text[offset : section.start])
        if section.path == (table,):
            offset = text.find("\n", section.end) + 1 or len(text)
        else:
            keys = text[section.start : section.end].strip("[] \t").partition(".")[2]
            out.append(_header(keys, section))
            offset = section.end
    return "".join((*out, text[offset:]))


def _header(keys: str, section: TomlSection) -> str:
    return f"[[{keys}]]" if section.is_element else f"[{keys}]"


def _with_headers(
    text: str, moves: Mapping[KeyPath, KeyPath | None]
) -> tuple[str, dict[KeyPath, KeyPath | None]]:
    """The text with its headers renamed, and the keys that have yet to move, by their paths there."""
    sections = scan(text)
    arrays = {section.path[:-1] for section in sections if section.is_element}
    renamed: dict[KeyPath, KeyPath] = {}
    for section in sections:
        new = moves.get(section.path) or _common(section, moves)
        taken = {*renamed.values(), *(other.path for other in sections if other.path not in moves)}
        if new != section.path and new and new not in taken:
            renamed[section.path] = new
    pending: dict[KeyPath, KeyPath | None] = {}
    inline: set[KeyPath] = set()
    for section in reversed(sections):
        here = renamed.get(section.path, section.path)
        for entry in reversed(section.entries):
            if entry.inline:
                continue
            path = here + entry.path[len(section.path) :]
            new = _destination(entry, moves)
            if new != path:
                pending[path] = new
                if text[entry.value_start] == "{":
                    inline.add(path)
        if here != section.path:
            keys = _header_keys(here, {renamed.get(array, array) for array in arrays} | _arrays_of(renamed))
            text = text[: section.start] + _header(format_key(keys), section) + text[section.end :]
    items = list(reversed(pending.items()))  # a table goes before keys that belong into it
    return text, {**dict(item for item in items if item[0] in inline), **dict(items)}


def _common(section: TomlSection, moves: Mapping[KeyPath, KeyPath | None]) -> KeyPath | None:
    """The table that all its keys go to that stay, under names of their own depth."""
    depth = len(section.path)
    if section.path in moves or section.is_element or not depth:
        return None
    destinations = ((entry, _destination(entry, moves)) for entry in section.entries if not entry.inline)
    tables = {new[: len(new) - len(entry.path) + depth] for entry, new in destinations if new is not None}
    return tables.pop() if len(tables) == 1 else None


def _arrays_of(renamed: Mapping[KeyPath, KeyPath]) -> set[KeyPath]:
    return {new[:-1] for old, new in renamed.items() if old[-1].isdecimal() and new[-1].isdecimal()}


def _header_keys(path: KeyPath, arrays: set[KeyPath]) -> KeyPath:
    return tuple(key for depth, key in enumerate(path) if not (key.isdecimal() and path[:depth] in arrays))


def _destination(entry: Entry, moves: Mapping[KeyPath, KeyPath | None]) -> KeyPath | None:
    """Where a `key = value` goes: what is in an inline table goes with it."""
    if entry.path in moves:
        return moves[entry.path]
    inner = [(old, new) for old, new in moves.items() if old[: len(entry.path)] == entry.path]
    if not inner:
        return entry.path
    tables = Counter(new[: len(new) - len(old) + len(entry.path)] for old, new in inner if new is not None)
    return tables.most_common(1)[0][0] if tables else None


def _moved(text: str, path: KeyPath, new: KeyPath) -> str:
    sections = scan(text)
    section, entry = _entry(sections, path)
    home = max((other.path for other in sections if other.path == new[: len(other.path)]), key=len)
    if new[:-1] == path[:-1] or (home == section.path and len(path) > len(home) + 1):
        key = format_key(new[len(section.path) :])
        return text[: entry.start] + key + text[entry.key_end :]
    value = text[entry.value_start : entry.value_end]
    text, above, behind = _without(text, path, keeps_heading=False)
    text = _with_table(text, section.path, new) or edit.edit(text, {format_key(new): "?"})
    _, placed = _entry(scan(text), new)
    if placed.inline:
        return text[: placed.value_start] + value + text[placed.value_end :]
    start = text.rfind("\n", 0, placed.start) + 1
    end = f"  {behind}" if behind else ""
    return text[:start] + above + text[start : placed.value_start] + value + end + text[placed.value_end :]


def _with_table(text: str, beside: KeyPath, path: KeyPath) -> str | None:
    """The text with `path` in a new table right behind the one that it comes from; `None` if it has to go
    elsewhere: its table exists, or lies in no table there.
    """
    sections, parent = scan(text), path[:-1]
    known = {other.path for other in sections} | {
        entry.path[:depth]
        for other in sections
        for entry in other.entries
        for depth in range(len(entry.path))
        if depth > len(other.path)
    }
    inside = parent[: len(beside)] == beside and not any(key.isdecimal() for key in parent[len(beside) :])
    if not beside or parent in known or not inside:
        return None
    section = next(section for section in sections if section.path == beside)
    end = _lines(text, section.start, max([section.end, *(entry.value_end for entry in section.entries)]))[1]
    arrays = {other.path[:-1] for other in sections if other.is_element}
    header = format_key(_header_keys(parent, arrays))
    newline = edit.newline_of(text)
    start = text[:end] if text[:end].endswith("\n") else f"{text[:end]}{newline}"
    lines = ("", f"[{header}]", f'{format_key(path[-1:])} = "?"', text[end:])
    return start + newline.join(lines)


def _without(text: str, path: KeyPath, *, keeps_heading: bool) -> tuple[str, str, str]:
    """The text without a key, and its comments: those above it and the one behind it. With `keeps_heading`,
    a comment above it stays if another key follows at once, which it may be about as well.
    """
    _, entry = _entry(scan(text), path)
    start, end, above, behind = _lines(text, entry.start, entry.value_end)
    follows = bool(text[end:].split("\n", 1)[0].strip()) and text[end:].lstrip(" \t")[0] not in "#["
    if keeps_heading and follows:
        start += len(above)
    return text[:start] + text[end:], above, behind


def _lines(text: str, start: int, end: int) -> tuple[int, int, str, str]:
    """Offsets of the lines that something takes with the comment above, that comment, and the one behind."""
    line = text.rfind("\n", 0, start) + 1
    above = _COMMENTS_ABOVE.search(text, 0, line)
    rest = _REST_OF_LINE.match(text, end)
    begin = above.start() if above else line
    return begin, rest.end() if rest else end, text[begin:line], (rest and rest[1]) or ""


def _entry(sections: list[TomlSection], path: KeyPath) -> tuple[TomlSection, Entry]:
    for section in sections:
        for entry in section.entries:
            if entry.path == path:
                return section, entry
    raise ConfigError(f"cannot move {format_key(path)}", hint="edit the file itself")
