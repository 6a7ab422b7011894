"""A terminal's screen, as far as programs of these tests write to one: cells, a cursor and a pen."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from dataclasses import dataclass, field, replace

from rich.cells import cell_len

_TOKEN = re.compile(
    r"\x1b\[(?P<parameters>[0-9;]*)(?P<final>[A-Za-z])"
    r"|(?P<other>\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|P[^\x1b]*\x1b\\|[ -/]*[0-OQ-Z\\^-~]))"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f-\x9f])"
    r"|(?P<char>[^\x1b])"
)
_OFF = {22: {1, 2}, 23: {3}, 24: {4, 21}, 25: {5, 6}, 27: {7}, 28: {8}, 29: {9}, 54: {51, 52}, 55: {53}}
_INK = {4, 7, 9, 21, 51, 52, 53}
"""Attributes that show on a blank."""


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours and attributes that a cell is written with."""

    fg: tuple[int, ...] = ()
    bg: tuple[int, ...] = ()
    attributes: frozenset[int] = field(default_factory=frozenset)

    def after(self, codes: list[int]) -> Paint:
        """The paint after `ESC [ codes m`."""
        paint = self
        while codes:
            code, *codes = codes
            if code in (38, 48):
                size = 2 if codes[0] == 5 else 4
                colour, codes = (code, *codes[:size]), codes[size:]
                paint = replace(paint, fg=colour) if code == 38 else replace(paint, bg=colour)
            elif code == 0:
                paint = Paint()
            elif code in _OFF:
                paint = replace(paint, attributes=paint.attributes - _OFF[code])
            elif 30 <= code <= 39 or 90 <= code <= 97:
                paint = replace(paint, fg=() if code == 39 else (code,))
            elif 40 <= code <= 49 or 100 <= code <= 107:
                paint = replace(paint, bg=() if code == 49 else (code,))
            else:
                paint = replace(paint, attributes=paint.attributes | {code})
        return paint


class ScreenModel:
    """The content is unknown at first. `unknown` collects sequences that the model ignores."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.rows = [[("?", Paint((1,)))] * width for _ in range(height)]
        self.x = self.y = 0
        self.paint = Paint()
        self.cursor_requests = 0
        """Number of requests for the position of the cursor."""
        self.unknown: list[str] = []
        self._rest = ""
        self._decode = getincrementaldecoder("utf-8")("replace").decode

    @property
    def text(self) -> str:
        """The text on the screen, without colours."""
        return "\n".join("".join(char for char, _ in row) for row in self.rows)

    def seen(self) -> list[list[tuple[str, object]]]:
        """The cells as far as an eye can tell them apart."""
        return [[(char, _seen(char, paint)) for char, paint in row] for row in self.rows]

    def feed(self, data: bytes) -> None:
        """Carry out what a program wrote; it may end within a sequence."""
        text = self._rest + self._decode(data)
        position = 0
        while position < len(text) and (token := _TOKEN.match(text, position)):
            position = token.end()
            if (char := token["char"]) is not None:
                self._put(char)
            elif token["final"]:
                self._carry_out(token["final"], [int(n or 0) for n in token["parameters"].split(";")])
            elif token["control"] in ("\r", "\n", "\b"):
                self._move(token["control"])
            else:
                self.unknown.append(token[0])
        self._rest = text[position:]

    def _carry_out(self, final: str, numbers: list[int]) -> None:
        step = max(1, numbers[0])
        match final:
            case "H":
                self.y, self.x = max(1, numbers[0]) - 1, max(1, *numbers[1:2], 0) - 1
            case "A" | "B":
                self.y += step if final == "B" else -step
            case "C" | "D":
                self.x += step if final == "C" else -step
            case "G" | "d":
                if final == "G":
                    self.x = step - 1
                else:
                    self.y = step - 1
            case "K" | "J" if numbers[0] in (0, 2):
                self._erase(final, whole=numbers[0] == 2)
            case "m":
                self.paint = self.paint.after(numbers)
            case "n":
                self.cursor_requests += 1
            case _:
                self.unknown.append(final)
        self.x, self.y = min(max(0, self.x), self.width), min(max(0, self.y), self.height - 1)

    def _erase(self, final: str, *, whole: bool) -> None:
        blank = (" ", replace(self.paint, attributes=frozenset()))
        start = 0 if whole else self.x
        self.rows[self.y][start:] = [blank] * (self.width - start)
        if final == "J":
            for y in range(0 if whole else self.y + 1, self.height):
                self.rows[y] = [blank] * self.width

    def _move(self, control: str) -> None:
        match control:
            case "\r":
                self.x = 0
            case "\b":
                self.x = max(0, self.x - 1)
            case "\n" if self.y + 1 == self.height:
                self.rows = [*self.rows[1:], [(" ", self.paint)] * self.width]
            case "\n":
                self.y += 1

    def _put(self, char: str) -> None:
        row = self.rows[self.y]
        width = cell_len(char)
        if not width:
            column = self.x - 1 if row[self.x - 1][0] else self.x - 2
            row[column] = (row[column][0] + char, row[column][1])
            return
        if self.x + width > self.width:
            self.x = self.width - width
        if row[self.x][0] == "" and self.x:
            row[self.x - 1] = (" ", row[self.x - 1][1])
        end = self.x + width
        if end < self.width and row[end][0] == "":
            row[end] = (" ", row[end][1])
        row[self.x : end] = [(char, self.paint), *[("", self.paint)] * (width - 1)]
        self.x = end


def _seen(char: str, paint: Paint) -> object:
    return paint.bg if char == " " and not paint.attributes & _INK else paint
