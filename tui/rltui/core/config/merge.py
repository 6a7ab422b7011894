"""Merges TOML texts into one, as programs with `@ base.toml @ overlay.toml` do. Comments stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.base.toml.edit import edit, parse
from rltui.base.toml.scan import BOM, KeyPath, TomlSection, scan
from rltui.base.toml.values import TomlValue, format_key, split_key
from rltui.core.config.data import changed_keys, deep_leaves, leaves, value_at
from rltui.errors import ConfigError


def merge_texts(base: str, overlay: str, *, deep: bool) -> str:
    """The text of `base` with all that `overlay` sets. Both are valid TOML.

    `deep`: tables are merged key by key, lists replaced as a whole. Otherwise a table at the top of the
    overlay replaces the whole table of that name.
    """
    expected = _merged_data(parse(base, "base"), parse(overlay, "overlay"), deep=deep)
    text = base
    for path, value in _steps(parse(base, "base"), parse(overlay, "overlay"), (), deep=deep):
        text = _with(text, path, value, overlay)
    return text if _holds(text, expected) else edit("", dict(leaves(expected)))


def nest_in_table(text: str, table: str) -> str:
    """The same config, as a table of a larger one."""
    sections = scan(text)
    for section in reversed(sections[1:]):
        offset = section.start + (2 if section.is_element else 1)
        text = f"{text[:offset]}{table}.{text[offset:]}"
    return f"[{table}]\n{text[sections[0].end :]}"


def with_table(text: str, table: str) -> str:
    """`text` with a table of that name, even if empty: its presence may mean something."""
    if isinstance(value_at(parse(text, table), table), Mapping):
        return text
    return _appended(without_key(text, table), f"[{table}]\n")


def without_key(text: str, key: str) -> str:
    """`text` without a key, or a whole table with all below it."""
    return _without(text, split_key(key))


def _merged_data(base: Mapping[str, Any], overlay: Mapping[str, Any], *, deep: bool) -> dict[str, Any]:
    data = dict(base)
    for key, value in overlay.items():
        current = data.get(key)
        if deep and isinstance(current, Mapping) and isinstance(value, Mapping):
            data[key] = _merged_data(current, value, deep=True)
        else:
            data[key] = value
    return data


def _steps(
    base: Mapping[str, Any], overlay: Mapping[str, Any], path: KeyPath, *, deep: bool
) -> list[tuple[KeyPath, TomlValue]]:
    """The replacements to make, each a path and its new value: a value, or a whole table."""
    steps: list[tuple[KeyPath, TomlValue]] = []
    for key, value in overlay.items():
        current = base.get(key)
        if deep and isinstance(current, Mapping) and isinstance(value, Mapping):
            steps += _steps(current, value, (*path, key), deep=True)
        else:
            steps.append(((*path, key), value))
    return steps


def _with(text: str, path: KeyPath, value: TomlValue, overlay: str) -> str:
    key = format_key(path)
    if own := "".join(overlay[start:end] for start, end in _spans(overlay, path)):
        return _appended(_without(text, path), own)
    if _has_tables(value) or _has_tables(value_at(parse(text, key), key)):
        text = _without(text, path)
    return edit(text, {key: value})


def _has_tables(value: TomlValue) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and any(map(_has_tables, value)))


def _without(text: str, path: KeyPath) -> str:
    for start, end in reversed(_spans(text, path)):
        text = text[:start] + text[end:]
    keys = [
        format_key(entry.path)
        for section in scan(text)
        for entry in section.entries
        if entry.path[: len(path)] == path and (entry.path == path or not entry.inline)
    ]
    return edit(text, dict.fromkeys(keys))


def _spans(text: str, path: KeyPath) -> list[tuple[int, int]]:
    """Start and end of the tables at `path` and below, with the comments right above their headers."""
    sections = scan(text)
    starts = [_begin(text, section) for section in sections]
    return [
        (start, end)
        for section, start, end in zip(sections, starts, [*starts[1:], len(text)], strict=True)
        if section.path and section.path[: len(path)] == path
    ]


def _begin(text: str, section: TomlSection) -> int:
    start = text.rfind("\n", 0, section.start) + 1
    while start > 0:
        above = text.rfind("\n", 0, start - 1) + 1
        if not text[above:start].lstrip(BOM).lstrip().startswith("#"):
            break
        start = above
    return start


def _appended(text: str, lines: str) -> str:
    body = text.rstrip()
    return f"{body}\n\n{lines.lstrip()}" if body.strip(BOM) else f"{body}{lines.lstrip()}"


def _holds(text: str, expected: Mapping[str, Any]) -> bool:
    try:
        data = parse(text, "merged")
    except ConfigError:
        return False
    return not changed_keys(deep_leaves(data), deep_leaves(expected))
