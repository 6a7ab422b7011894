"""Change a list in a TOML text item by item, so that comments, lines and trailing commas stay."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rltui.core.toml_values import format_value, parse_value, same_value

_AFTER_ITEM = re.compile(r"[ \t\r\n]*(,?)")
_LINE_END = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n)")
_GAP = re.compile(r"[ \t]*,?[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list, as offsets into the text of the list."""

    start: int
    end: int


def replace_list(text: str, items: Sequence[Item], value: Sequence[Any]) -> str:
    """The text of a list with the given `items`, `text` from bracket to bracket, changed to hold `value`.

    Items that are equal at both ends stay as they are. Of the others, as many as possible are replaced in
    place; the rest is added behind them, or taken out.
    """
    old = [parse_value(text[item.start : item.end]) for item in items]
    first = _common(old, value)
    last = _common(old[first:][::-1], value[first:][::-1])
    going, coming = list(items[first : len(items) - last]), list(value[first : len(value) - last])
    both = min(len(going), len(coming))
    if len(going) > both:
        text = _without(text, items, first + both, len(items) - last)
    elif len(coming) > both:
        text = _with(text, items, first + both, coming[both:])
    for item, new in reversed(list(zip(going[:both], coming[:both], strict=True))):
        spelled = format_value(new, replaces=text[item.start : item.end])
        text = text[: item.start] + spelled + text[item.end :]
    return text


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items agree from the start."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if not same_value(left, right):
            break
        count += 1
    return count


def _without(text: str, items: Sequence[Item], start: int, end: int) -> str:
    """Take out the items from `start` to before `end`, last first."""
    if (start, end) == (0, len(items)) and "#" not in text:
        return "[]"
    for index in range(end - 1, start - 1, -1):
        text = _without_one(text, items, index)
    return text


def _without_one(text: str, items: Sequence[Item], index: int) -> str:
    item = items[index]
    after = _comma_end(text, item)
    line_start = text.rfind("\n", 0, item.start) + 1
    line_end = _LINE_END.match(text, after)
    if line_start and line_end and not text[line_start : item.start].strip():
        return text[:line_start] + text[line_end.end() :]
    if text[after - 1] == ",":
        behind = _GAP.match(text, after)
        keep_from = behind.end() if behind and "\n" not in behind[0] else after
        return text[: item.start] + text[keep_from:]
    if index and _GAP.fullmatch(text, items[index - 1].end, item.start):
        return text[: items[index - 1].end] + text[item.end :]
    return text[: item.start] + text[item.end :]


def _with(text: str, items: Sequence[Item], index: int, values: Sequence[Any]) -> str:
    """Add `values` before the item at `index`, or behind the last one."""
    spelled = [format_value(value) for value in values]
    if not items:
        return _filled(text, spelled)
    beside = items[index - 1] if index else items[0]
    line_start = text.rfind("\n", 0, beside.start) + 1
    indent = text[line_start : beside.start]
    if not line_start or indent.strip():
        if index:
            return text[: beside.end] + "".join(f", {each}" for each in spelled) + text[beside.end :]
        return text[: beside.start] + "".join(f"{each}, " for each in spelled) + text[beside.start :]
    newline = "\r\n" if text[line_start - 2 : line_start] == "\r\n" else "\n"
    lines = [f"{indent}{each},{newline}" for each in spelled]
    if not index:
        return text[:line_start] + "".join(lines) + text[line_start:]
    comma_end = _comma_end(text, beside)
    if text[comma_end - 1] != ",":
        lines[-1] = f"{indent}{spelled[-1]}{newline}"
        text = f"{text[: beside.end]},{text[beside.end :]}"
        comma_end = beside.end + 1
    end_of_line = _LINE_END.match(text, comma_end)
    if end_of_line is None:  # more follows on this line
        return text[:comma_end] + "".join(f" {each}," for each in spelled) + text[comma_end:]
    return text[: end_of_line.end()] + "".join(lines) + text[end_of_line.end() :]


def _filled(text: str, spelled: Sequence[str]) -> str:
    """An empty list, which may hold comments."""
    if "#" not in text:
        return f"[{', '.join(spelled)}]"
    return f"[{''.join(f'{each}, ' for each in spelled)}{text[1:]}"


def _comma_end(text: str, item: Item) -> int:
    """Behind the item's comma; its own end where it has none right behind it."""
    match = _AFTER_ITEM.match(text, item.end)
    return match.end() if match and match[1] else item.end
