"""Draws a curve in characters: eight dots to a cell, or one sign if the terminal has no braille. Pure, no
numpy.

For some hundred points; the charts of the metrics screen draw tens of thousands with numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the dots of a cell, by row and column."""
_ASCII_LEVELS = ("_", ".", "-", "'")
"""Signs for the lowest to the highest dot of a cell."""
_HUGE = 1e300
"""Differences of larger values overflow."""

Span = tuple[float, float]


def curve_rows(
    xs: Sequence[float],
    ys: Sequence[float],
    width: int,
    height: int,
    *,
    x_span: Span,
    y_span: Span,
    braille: bool = True,
) -> list[str]:
    """`height` rows of `width` cells, top first, in which the points are joined by lines.

    `xs` ascend. A value that is not finite is a gap; a point outside the spans is drawn on their edge.
    """
    columns = width * 2 if braille else width
    lows, highs = _extents(xs, ys, columns, x_span)
    rows = height * 4
    cells = [[0] * width for _ in range(height)]
    low, high = y_span
    for column, (lowest, highest) in enumerate(zip(lows, highs, strict=True)):
        if lowest > highest:
            continue
        top, bottom = _dot(highest, low, high, rows), _dot(lowest, low, high, rows)
        for dot in range(top, bottom + 1):
            cell, row = divmod(dot, 4)
            cell_index, side = divmod(column, 2) if braille else (column, 0)
            cells[cell][cell_index] |= _BITS[row][side]
    sign = _braille_sign if braille else _ascii_sign
    return ["".join(map(sign, line)) for line in cells]


def _extents(
    xs: Sequence[float], ys: Sequence[float], columns: int, span: Span
) -> tuple[list[float], list[float]]:
    """The lowest and highest value that the line has in each column; crossed if it has none."""
    lows, highs = [math.inf] * columns, [-math.inf] * columns
    start, end = span
    scale = columns / (end - start) if end > start else 0.0
    if math.isinf(scale):  # the span is next to nothing
        scale = 0.0

    def touch(column: int, value: float) -> None:
        if 0 <= column < columns:
            lows[column] = min(lows[column], value)
            highs[column] = max(highs[column], value)

    previous: tuple[float, float] | None = None
    for x, y in zip(xs, ys, strict=True):
        if not math.isfinite(y):
            previous = None
            continue
        y = min(max(y, -_HUGE), _HUGE)
        position = min((x - start) * scale, columns - 0.5) if x <= end else (x - start) * scale
        if previous is not None:
            x0, y0 = previous
            for edge in range(max(0, math.floor(x0)) + 1, min(columns, math.floor(position)) + 1):
                value = y0 + (y - y0) * (edge - x0) / (position - x0)
                touch(edge - 1, value)
                touch(edge, value)
        touch(math.floor(position), y)
        previous = (position, y)
    return lows, highs


def _dot(value: float, low: float, high: float, rows: int) -> int:
    """Row of the dot, counted from the top."""
    share = min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.5
    return rows - 1 - round(share * (rows - 1))


def _braille_sign(bits: int) -> str:
    return chr(_BRAILLE + bits) if bits else " "


def _ascii_sign(bits: int) -> str:
    """One sign for the dots of one column, by the highest of them; a bar if the line climbs the cell."""
    rows = [row for row in range(4) if bits & _BITS[row][0]]
    if not rows:
        return " "
    return "|" if len(rows) > 2 else _ASCII_LEVELS[3 - rows[0]]
