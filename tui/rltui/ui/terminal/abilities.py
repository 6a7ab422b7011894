"""Abilities of a terminal, as far as its environment tells."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass

from rich.color import ColorSystem

_SYSTEMS = {
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
}
"""Values of `$TEXTUAL_COLOR_SYSTEM`, which overrides all else."""
_TRUE_COLORS = 1 << 24
_DARK_NUMBERS = frozenset(map(str, (*range(7), 8)))
"""Numbers of the sixteen colours that are dark."""


@dataclass(frozen=True, slots=True)
class Abilities:
    colors: ColorSystem = ColorSystem.TRUECOLOR
    is_light: bool = False
    """Whether its background is light, as far as the environment tells."""
    is_ascii: bool = False
    """Whether only ASCII can be relied on."""
    is_grey: bool = False
    """Whether the person wants no colours."""


def abilities(environ: Mapping[str, str], *, encoding: str, is_grey: bool = False) -> Abilities:
    """Read from the environment; `encoding` is that of the output."""
    is_ascii = codecs.lookup(encoding).name != "utf-8"
    return Abilities(_colors(environ), _is_light(environ), is_ascii, is_grey)


def _colors(environ: Mapping[str, str]) -> ColorSystem:
    if system := _SYSTEMS.get(environ.get("TEXTUAL_COLOR_SYSTEM", "")):
        return system
    term = environ.get("TERM", "")
    if environ.get("COLORTERM", "") in ("truecolor", "24bit") or term.endswith("-direct"):
        return ColorSystem.TRUECOLOR
    if term.endswith("-256color"):
        return ColorSystem.EIGHT_BIT
    count = _terminfo_colors(term)
    if count < 256:
        return ColorSystem.STANDARD
    return ColorSystem.TRUECOLOR if count >= _TRUE_COLORS else ColorSystem.EIGHT_BIT


def _terminfo_colors(term: str) -> int:
    """Number of colours in the terminal's description; 0 where there is none."""
    import curses  # rarely needed

    try:
        curses.setupterm(term, 1)
    except curses.error:
        return 0
    return curses.tigetnum("colors")


def _is_light(environ: Mapping[str, str]) -> bool:
    """Whether `COLORFGBG` of rxvt, konsole and others (`15;0`, `0;default;15`) names a light background."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return background.isdecimal() and background not in _DARK_NUMBERS
