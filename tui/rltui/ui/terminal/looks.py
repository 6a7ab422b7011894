"""How a cell looks, and the shortest way to tell a terminal (SGR)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from rich.color import ColorSystem
from rich.style import Style

_ON_OFF = (
    ("1", "22"),
    ("2", "22"),
    ("3", "23"),
    ("4", "24"),
    ("5", "25"),
    ("6", "25"),
    ("7", "27"),
    ("8", "28"),
    ("9", "29"),
    ("21", "24"),
    ("51", "54"),
    ("52", "54"),
    ("53", "55"),
)
"""What turns each attribute on and off, in the order of the bits of a Rich style."""
_INK = sum(1 << bit for bit in (3, 6, 8, 9, 10, 11, 12))
"""Attributes that show on a blank: lines below, through, around and above it, and reverse."""


class Look(NamedTuple):
    """Colours as SGR codes, empty for the default ones, and attributes as bits. Links are not shown."""

    fg: str = ""
    bg: str = ""
    attributes: int = 0

    @property
    def inks_blanks(self) -> bool:
        """Whether a blank shows more than its background."""
        return bool(self.attributes & _INK)


PLAIN = Look()


@lru_cache(maxsize=4096)
def look_of(style: Style | None, colors: ColorSystem) -> Look:
    """The look that Rich gives a style on a terminal of so many colours."""
    if style is None:
        return PLAIN
    fg, bg = style.color, style.bgcolor
    return Look(
        ";".join(fg.downgrade(colors).get_ansi_codes()) if fg else "",
        ";".join(bg.downgrade(colors).get_ansi_codes(foreground=False)) if bg else "",
        style._attributes & style._set_attributes,  # noqa: SLF001 - thirteen public properties say the same
    )


def on_blank(before: Look, wanted: Look) -> Look:
    """The look a blank may have on the way from `before`: only what shows on it counts."""
    if wanted.inks_blanks:
        return wanted
    return Look(before.fg, wanted.bg, wanted.attributes if before.inks_blanks else before.attributes)


def same_on_blank(one: Look, other: Look) -> bool:
    """Whether two looks of a blank cannot be told apart."""
    return one == other or (one.bg == other.bg and not one.inks_blanks and not other.inks_blanks)


@lru_cache(maxsize=4096)
def transition(before: Look, after: Look) -> str:
    """The shortest sequence that makes `after` out of `before`."""
    if before == after:
        return ""
    codes = [_attribute_codes(before.attributes, after.attributes)]
    codes += [after.fg or "39"] if before.fg != after.fg else []
    codes += [after.bg or "49"] if before.bg != after.bg else []
    change = ";".join(filter(None, codes))
    anew = ";".join(filter(None, ["0", _attribute_codes(0, after.attributes), after.fg, after.bg]))
    anew = "" if anew == "0" else anew
    return f"\x1b[{min(change, anew, key=len)}m"


def _attribute_codes(before: int, after: int) -> str:
    gone = {off for bit, (_, off) in enumerate(_ON_OFF) if before & ~after & 1 << bit}
    # Bold and dim, for example, are turned off together: what is to stay is turned on again.
    on = [
        code
        for bit, (code, off) in enumerate(_ON_OFF)
        if after & 1 << bit and (off in gone or not before & 1 << bit)
    ]
    return ";".join([*sorted(gone), *on])
