"""The screen as cells: what it is to display, what the terminal displays, and the bytes that make up for it.

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

from rltui.base.text import ascii_cell
from rltui.core.logs.lines import plain_text
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
"""Codes that turn an attribute on and off, in the order of the bits of a Rich style."""
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
def _cell_style(style: Style | None, colors: ColorSystem, min_ratio: float) -> CellStyle:
    """A Rich style on a terminal of so many colours. The text has the contrast `min_ratio`, as far as the
    colours are known.
    """
    if style is None:
        return PLAIN
    fg, bg = style.color, style.bgcolor
    if fg and bg and fg.triplet and bg.triplet:
        fg = Color.from_rgb(*readable(fg.triplet, bg.triplet, min_ratio, colors))
    return CellStyle(
        ";".join(fg.downgrade(colors).get_ansi_codes()) if fg else "",
        ";".join(bg.downgrade(colors).get_ansi_codes(foreground=False)) if bg else "",
        style._attributes & style._set_attributes,  # noqa: SLF001 - thirteen public properties say the same
    )


def _style_of_blank(before: CellStyle, target: CellStyle) -> CellStyle:
    """The style nearest to `before` in which a blank looks as in `target`."""
    if target.inks_blanks:
        return target
    return CellStyle(before.fg, target.bg, target.attributes if before.inks_blanks else before.attributes)


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
    reset = ";".join(filter(None, ["0", _attribute_codes(0, after.attributes), after.fg, after.bg]))
    reset = "" if reset == "0" else reset
    return f"\x1b[{min(change, reset, key=len)}m"


def _attribute_codes(before: int, after: int) -> str:
    off_codes = {off for bit, (_, off) in enumerate(_ON_OFF) if before & ~after & 1 << bit}
    # Bold and dim, for example, are turned off together: what is to stay is turned on again.
    on_codes = [
        code
        for bit, (code, off) in enumerate(_ON_OFF)
        if after & 1 << bit and (off in off_codes or not before & 1 << bit)
    ]
    return ";".join([*sorted(off_codes), *on_codes])


_DRAWN = re.compile("[ \u2500-\u259f\u2800-\u28ff]+")
"""Borders, bars and curves, which need less contrast than text."""
_GAP_CELLS = 4
"""Unchanged cells between two changes that are rather written again than jumped over."""


class CellRow:
    """One line of cells. A wide character has an empty string in its second cell."""

    __slots__ = ("chars", "styles")

    def __init__(self, chars: list[str], styles: list[CellStyle]) -> None:
        self.chars = chars
        self.styles = styles

    def set(self, x: int, cells: list[str], style: CellStyle) -> None:
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

    def differs(self, displayed: CellRow, x: int) -> bool:
        """Whether the cell at `x` looks different in `displayed`."""
        char = self.chars[x]
        if char != displayed.chars[x]:
            return True
        one, other = self.styles[x], displayed.styles[x]
        return one != other and not (char == " " and _same_on_blank(one, other))


class Cells:
    """A screen of `width` × `height`. Strips are put on it; `changes` brings the terminal up to date."""

    def __init__(self, width: int, height: int, *, is_ascii: bool = False) -> None:
        """`is_ascii`: other characters are replaced by those that resemble them most."""
        self.width, self.height = width, height
        self._is_ascii = is_ascii
        self._target = [CellRow([" "] * width, [PLAIN] * width) for _ in range(height)]
        self._displayed: list[CellRow | None] = [None] * height
        """`None` where it is unknown what the terminal shows."""
        self._dirty_rows: set[int] = set(range(height))

    def draw(self, x: int, y: int, strip: Strip, colors: ColorSystem) -> None:
        """Put a strip at column `x` of line `y`; what does not fit is left out."""
        if not 0 <= y < self.height:
            return
        row = self._target[y]
        for text, style, control in strip:
            if control or x >= self.width:
                continue
            cells = _cells(text, is_ascii=self._is_ascii)
            min_ratio = GRAPHICS if _DRAWN.fullmatch(text) else TEXT
            row.set(x, cells, _cell_style(style, colors, min_ratio))
            x += len(cells)
        self._dirty_rows.add(y)

    def invalidate(self) -> None:
        """The terminal may show anything: `changes` paints all."""
        self._displayed = [None] * self.height
        self._dirty_rows = set(range(self.height))

    def changes(self) -> str:
        """The output that brings the terminal to what was drawn; empty if it is there.

        Begins and ends with the default style; the cursor ends anywhere.
        """
        pen = _Pen(self.width)
        for y in sorted(self._dirty_rows):
            target, displayed = self._target[y], self._displayed[y]
            for start, stop in [(0, self.width)] if displayed is None else _runs(target, displayed):
                pen.write(y, start, stop, target)
            self._displayed[y] = target.copy()
        self._dirty_rows.clear()
        return pen.finish()


@lru_cache(maxsize=512)
def _non_ascii_cells(text: str, *, is_ascii: bool) -> tuple[str, ...]:
    """Cells of a text that is not plain ASCII. Equal characters are one object: of those beyond U+00FF Python
    makes a new one each time it takes one out of a string, and the lines of a log filled 40 MB with them.
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
            index = -1 if cells[-1] else -2
            cells[index] = sys.intern(cells[index] + char)  # a combining mark belongs to what it stands on
    width = cell_len(text)  # as Textual counts, whose columns must stay where they are
    return tuple(cells[:width] + [" "] * (width - len(cells)))


def _cells(text: str, *, is_ascii: bool) -> list[str]:
    if text.isascii() and text.isprintable():
        return list(text)
    return list(_non_ascii_cells(text, is_ascii=is_ascii))


def _runs(target: CellRow, displayed: CellRow) -> Iterator[tuple[int, int]]:
    """Ranges of cells (end exclusive) that have to be written, from left to right."""
    if target.chars == displayed.chars and target.styles == displayed.styles:
        return
    start = stop = -1
    for x in range(len(target.chars)):
        if not target.differs(displayed, x):
            continue
        # Half a wide character cannot be written, nor can one half of it be overwritten alone.
        first = x - 1 if x and "" in (target.chars[x], displayed.chars[x]) else x
        last = x
        while last + 1 < len(target.chars) and "" in (target.chars[last + 1], displayed.chars[last + 1]):
            last += 1
        if start >= 0 and first - stop <= _GAP_CELLS and len(set(target.styles[stop - 1 : first])) <= 1:
            stop = max(stop, last + 1)
            continue
        if start >= 0:
            yield start, stop
        start, stop = first, last + 1
    if start >= 0:
        yield start, stop


class _Pen:
    """Writes runs of cells; remembers where the cursor is, and in which style it writes."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._pieces: list[str] = []
        self._style = PLAIN
        self._cursor: tuple[int, int] | None = None

    def write(self, y: int, start: int, stop: int, row: CellRow) -> None:
        """The cells of `row` from `start` up to `stop`, in line `y`."""
        self._move(start, y)
        x = start
        while x < stop:
            char, style = row.chars[x], row.styles[x]
            if char == " ":
                style = _style_of_blank(self._style, style)
            if style != self._style:
                self._pieces.append(transition(self._style, style))
                self._style = style
            if not _has_certain_width(char):
                self._pieces.append(char)
                x += 1
                while x < self._width and row.chars[x] == "":
                    x += 1
                if x < stop and _has_certain_width(row.chars[x]):
                    self._pieces.append(f"\x1b[{x + 1}G")
                continue
            self._pieces.append(char)
            x += 1
        # At the right edge a terminal may count itself in the next line.
        self._cursor = (stop, y) if stop < self._width and _has_certain_width(row.chars[stop - 1]) else None

    def finish(self) -> str:
        self._pieces.append(transition(self._style, PLAIN))
        return "".join(self._pieces)

    def _move(self, x: int, y: int) -> None:
        if self._cursor == (x, y):
            return
        if self._cursor is not None and self._cursor[1] == y and self._cursor[0] < x:
            self._pieces.append(f"\x1b[{x - self._cursor[0]}C")
        else:
            self._pieces.append(f"\x1b[{y + 1};{x + 1}H")


_CERTAIN_WIDTH = re.compile(r"[ -~\u2500-\u259f\u25b0\u25b1\u00a1-\u024f\u2800-\u28ff]")
"""Characters that take one cell on every terminal."""


def _has_certain_width(char: str) -> bool:
    """Whether terminals agree with us how wide it is."""
    return len(char) == 1 and (char.isascii() or _CERTAIN_WIDTH.match(char) is not None)
