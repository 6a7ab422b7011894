"""ANSI colours as values: what a select-graphic-rendition sequence does to a style."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

Colour = int | tuple[int, int, int]
"""A palette number 0–255 (0–15 are the terminal's own colours) or red, green, blue of 0–255 each."""


@dataclass(frozen=True, slots=True)
class SgrStyle:
    """How a piece of log text wants to look. `None` as a colour means the default one."""

    fg: Colour | None = None
    bg: Colour | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False


PLAIN = SgrStyle()

_FLAGS: dict[int, dict[str, bool]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
}


@lru_cache(maxsize=1024)
def apply_sgr(style: SgrStyle, parameters: str) -> SgrStyle:
    """Return `style` after `ESC [ parameters m`. Unknown or malformed parameters change nothing."""
    groups = [_numbers(group) for group in parameters.split(";")]
    position = 0
    while position < len(groups):
        group = groups[position]
        position += 1
        code = group[0]
        if code in (38, 48):
            if len(group) == 1:
                colour, used = _colour([part[0] for part in groups[position : position + 4]])
                position += used
            else:
                colour, _ = _colour(_without_colour_space(group[1:]))
            if colour is not None:
                style = replace(style, fg=colour) if code == 38 else replace(style, bg=colour)
        elif code == 4 and group[1:] == [0]:
            style = replace(style, underline=False)
        else:
            style = _apply_code(style, code)
    return style


def _apply_code(style: SgrStyle, code: int) -> SgrStyle:
    if code == 0:
        return PLAIN
    if code in _FLAGS:
        return replace(style, **_FLAGS[code])
    tens, units = divmod(code, 10)
    match tens:
        case 3 | 9 if units < 8:
            return replace(style, fg=units + (8 if tens == 9 else 0))
        case 4 | 10 if units < 8:
            return replace(style, bg=units + (8 if tens == 10 else 0))
    if code == 39:
        return replace(style, fg=None)
    return replace(style, bg=None) if code == 49 else style


def _colour(arguments: list[int]) -> tuple[Colour | None, int]:
    """Read what follows 38 or 48: the colour, if it is a valid one, and how many arguments it took."""
    match arguments:
        case [5, index, *_]:
            return (index if index < 256 else None), 2
        case [2, red, green, blue]:
            return ((red, green, blue) if max(red, green, blue) < 256 else None), 4
    return None, len(arguments)


def _without_colour_space(arguments: list[int]) -> list[int]:
    """Drop the colour space of `2:<space>:r:g:b`, the long colon form."""
    return [2, *arguments[2:5]] if arguments[:1] == [2] and len(arguments) > 4 else arguments


def _numbers(group: str) -> list[int]:
    return [int(part) if part.isdecimal() and len(part) < 6 else 0 for part in group.split(":")]
