"""The screen as cells: what is to be seen, what the terminal shows, and the bytes that make one of the other.

All text that the TUI writes passes here, so nothing in it can act on the terminal or disguise other text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.style import Style
from textual.strip import Strip

from rltui.core.lines import plain_text
from rltui.core.text import ascii_cell
from rltui.ui.terminal.contrast import GRAPHICS, TEXT, readable

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


class CellStyle(NamedTuple):
    """Colours as SGR codes, empty for the default ones, and attributes as bits. Links are not shown."""

    fg: str = ""
    bg: str = ""
    attributes: int = 0

    @property
    def inks_blanks(self) -> bool:
        """Whether a blank shows more than its background."""
        return bool(self.attributes & _INK)


PLAIN = CellStyle()


@lru_cache(maxsize=4096)
def _cell_style(style: Style | None, colors: ColorSystem, least: float) -> CellStyle:
    """The style that Rich gives a style on a terminal of so many colours. What is written stands out by
    `least`, as far as the colours are known.
    """
    if style is None:
        return PLAIN
    fg, bg = style.color, style.bgcolor
    if fg and bg and fg.triplet and bg.triplet:
        fg = Color.from_rgb(*readable(fg.triplet, bg.triplet, least, colors))
    return CellStyle(
        ";".join(fg.downgrade(colors).get_ansi_codes()) if fg else "",
        ";".join(bg.downgrade(colors).get_ansi_codes(foreground=False)) if bg else "",
        style._attributes & style._set_attributes,  # noqa: SLF001 - thirteen public properties say the same
    )


def _on_blank(before: CellStyle, wanted: CellStyle) -> CellStyle:
    """The style a blank may have on the way from `before`: only what shows on it counts."""
    if wanted.inks_blanks:
        return wanted
    return CellStyle(before.fg, wanted.bg, wanted.attributes if before.inks_blanks else before.attributes)


def _same_on_blank(one: CellStyle, other: CellStyle) -> bool:
    """Whether two styles of a blank cannot be told apart."""
    return one == other or (one.bg == other.bg and not one.inks_blanks and not other.inks_blanks)


@lru_cache(maxsize=4096)
def transition(before: CellStyle, after: CellStyle) -> str:
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


_DRAWN = re.compile("[ \u2500-\u259f\u2800-\u28ff]+")
"""Borders, bars and curves: whoever can tell them from what they stand on has seen them."""
_GAP_CELLS = 4
"""Unchanged cells between two changes that are rather written again than jumped over."""


class CellRow:
    """One line of cells. A wide character has an empty string in its second cell."""

    __slots__ = ("chars", "styles")

    def __init__(self, chars: list[str], styles: list[CellStyle]) -> None:
        self.chars = chars
        self.styles = styles

    def put(self, x: int, cells: list[str], style: CellStyle) -> None:
        """Overwrite from `x`; a wide character that is cut leaves a blank."""
        chars = self.chars
        cells = cells[: len(chars) - x]
        stop = x + len(cells)
        if stop == x:
            return
        if chars[x] == "" and x:
            chars[x - 1] = " "
        if stop < len(chars) and chars[stop] == "":
            chars[stop] = " "
        chars[x:stop] = cells
        self.styles[x:stop] = [style] * len(cells)
        if stop == len(chars) and cell_len(chars[-1]) > 1:
            chars[-1] = " "

    def copy(self) -> CellRow:
        return CellRow(self.chars[:], self.styles[:])

    def differs(self, shown: CellRow, x: int) -> bool:
        """Whether the cell at `x` looks another than in `shown`."""
        char = self.chars[x]
        if char != shown.chars[x]:
            return True
        one, other = self.styles[x], shown.styles[x]
        return one != other and not (char == " " and _same_on_blank(one, other))


class Cells:
    """A screen of `width` × `height`. Strips are put on it; `changes` brings the terminal up to date."""

    def __init__(self, width: int, height: int, *, is_ascii: bool = False) -> None:
        """`is_ascii`: other characters are shown as what resembles them most."""
        self.width, self.height = width, height
        self._is_ascii = is_ascii
        self._wanted = [CellRow([" "] * width, [PLAIN] * width) for _ in range(height)]
        self._shown: list[CellRow | None] = [None] * height
        """`None` where it is unknown what the terminal shows."""
        self._touched: set[int] = set(range(height))

    def put(self, x: int, y: int, strip: Strip, colors: ColorSystem) -> None:
        """Put a strip at column `x` of line `y`; what does not fit is left out."""
        if not 0 <= y < self.height:
            return
        row = self._wanted[y]
        for text, style, control in strip:
            if control or x >= self.width:
                continue
            cells = _cells(text, is_ascii=self._is_ascii)
            least = GRAPHICS if _DRAWN.fullmatch(text) else TEXT
            row.put(x, cells, _cell_style(style, colors, least))
            x += len(cells)
        self._touched.add(y)

    def forget_shown(self) -> None:
        """The terminal may show anything: `changes` paints all."""
        self._shown = [None] * self.height
        self._touched = set(range(self.height))

    def changes(self) -> str:
        """What to write so that the terminal shows what is wanted; empty where it does already.

        Begins and ends with the default style. The cursor stays anywhere.
        """
        pen = _Pen(self.width)
        for y in sorted(self._touched):
            wanted, shown = self._wanted[y], self._shown[y]
            for start, stop in [(0, self.width)] if shown is None else _runs(wanted, shown):
                pen.write(y, start, stop, wanted)
            self._shown[y] = wanted.copy()
        self._touched.clear()
        return pen.finish()


@lru_cache(maxsize=512)
def _unusual_cells(text: str, *, is_ascii: bool) -> tuple[str, ...]:
    """Cells of a text that is not plain ASCII. Equal characters are one object: Python makes a new one of
    each beyond U+00FF that it takes out of a string, and the lines of a log filled 40 MB with them.
    """
    if is_ascii:
        signs = "".join(ascii_cell(char) * cell_len(char) for char in plain_text(text))
        return tuple(signs.ljust(cell_len(text)))
    cells: list[str] = []
    for char in plain_text(text):
        width = cell_len(char)
        if width:
            cells += [sys.intern(char), *[""] * (width - 1)]
        elif cells:
            at = -1 if cells[-1] else -2
            cells[at] = sys.intern(cells[at] + char)  # a combining mark belongs to what it stands on
    taken = cell_len(text)  # in the eyes of Textual, whose columns must stay where they are
    return tuple(cells[:taken] + [" "] * (taken - len(cells)))


def _cells(text: str, *, is_ascii: bool) -> list[str]:
    if text.isascii() and text.isprintable():
        return list(text)
    return list(_unusual_cells(text, is_ascii=is_ascii))


def _runs(wanted: CellRow, shown: CellRow) -> Iterator[tuple[int, int]]:
    """Where cells have to be written, from and up to but not including, from left to right."""
    if wanted.chars == shown.chars and wanted.styles == shown.styles:
        return
    start = stop = -1
    for x in range(len(wanted.chars)):
        if not wanted.differs(shown, x):
            continue
        # Half a wide character cannot be written, nor can one half of it be overwritten alone.
        first = x - 1 if x and "" in (wanted.chars[x], shown.chars[x]) else x
        last = x
        while last + 1 < len(wanted.chars) and "" in (wanted.chars[last + 1], shown.chars[last + 1]):
            last += 1
        if start >= 0 and first - stop <= _GAP_CELLS and len(set(wanted.styles[stop - 1 : first])) <= 1:
            stop = max(stop, last + 1)
            continue
        if start >= 0:
            yield start, stop
        start, stop = first, last + 1
    if start >= 0:
        yield start, stop


class _Pen:
    """Writes runs of cells, and remembers where the cursor is and how it writes."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._pieces: list[str] = []
        self._style = PLAIN
        self._at: tuple[int, int] | None = None

    def write(self, y: int, start: int, stop: int, row: CellRow) -> None:
        """The cells of `row` from `start` up to `stop`, in line `y`."""
        self._move(start, y)
        x = start
        while x < stop:
            char, style = row.chars[x], row.styles[x]
            if char == " ":
                style = _on_blank(self._style, style)
            if style != self._style:
                self._pieces.append(transition(self._style, style))
                self._style = style
            if not _is_certain(char):
                self._pieces.append(char)
                x += 1
                while x < self._width and row.chars[x] == "":
                    x += 1
                if x < stop and _is_certain(row.chars[x]):
                    self._pieces.append(f"\x1b[{x + 1}G")
                continue
            self._pieces.append(char)
            x += 1
        # At the right edge a terminal may count itself in the next line.
        self._at = (stop, y) if stop < self._width and _is_certain(row.chars[stop - 1]) else None

    def finish(self) -> str:
        self._pieces.append(transition(self._style, PLAIN))
        return "".join(self._pieces)

    def _move(self, x: int, y: int) -> None:
        if self._at == (x, y):
            return
        if self._at is not None and self._at[1] == y and self._at[0] < x:
            self._pieces.append(f"\x1b[{x - self._at[0]}C")
        else:
            self._pieces.append(f"\x1b[{y + 1};{x + 1}H")


_CERTAIN = re.compile(r"[ -~\u2500-\u259f\u00a1-\u024f\u2800-\u28ff]")
"""Characters that take one cell on every terminal."""


def _is_certain(char: str) -> bool:
    """Whether terminals agree with us how wide it is."""
    return len(char) == 1 and (char.isascii() or _CERTAIN.match(char) is not None)
