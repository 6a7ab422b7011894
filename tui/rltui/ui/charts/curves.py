"""The arithmetic of charts, on whole arrays: lines into columns of dots, dots into braille. Imports numpy.

A series is downsampled by this alone: each column of dots (two to a cell) takes the lowest and the highest
value that the line has within it, so that a spike of one step is seen at any zoom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_WEIGHTS = np.array(((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80)))
"""Row and column of a dot in a cell → its bit above U+2800."""


@dataclass(frozen=True, slots=True)
class Points:
    """A line of a run; the arrays are of one length, times and (where there are any) steps ascend."""

    steps: Floats
    """NaN where a point has none."""
    times: Floats
    values: Floats
    """NaN and the infinities are gaps."""

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Extents:
    """Lowest and highest value of a line in each column of dots; NaN in its gaps."""

    low: Floats
    high: Floats


def extents(x: Floats, y: Floats, x_span: tuple[float, float], columns: int) -> Extents:
    """Extents of the line through these points within `x_span`. `x` ascends."""
    start, end = x_span
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    scale = columns / float(end - start) if end > start else math.inf
    if len(x) and math.isfinite(scale):
        y = np.where(np.isfinite(y), y, np.nan)
        edges = np.linspace(start, end, columns + 1)
        first, last = np.searchsorted(x, (start, end))
        inside = slice(first, last + 1)
        column = np.minimum(((x[inside] - start) * scale).astype(int), columns - 1)
        value = y[inside]
        is_visible = (column >= 0) & ~np.isnan(value) & (x[inside] <= end)
        np.minimum.at(low, column[is_visible], value[is_visible])
        np.maximum.at(high, column[is_visible], value[is_visible])
        with np.errstate(over="ignore", invalid="ignore"):
            crossing = np.interp(edges, x, y, left=np.nan, right=np.nan)
        crossing[np.isinf(crossing)] = np.nan  # too steep for a float
        for side in (crossing[:-1], crossing[1:]):
            low, high = np.fmin(low, side), np.fmax(high, side)
    gap = low > high
    return Extents(np.where(gap, np.nan, low), np.where(gap, np.nan, high))


def bad_columns(x: Floats, y: Floats, x_span: tuple[float, float], cells: int) -> list[int]:
    """Cells in which a value is not finite, so that the gap can be told from a pause."""
    start, end = x_span
    if end <= start:
        return []
    bad = ~np.isfinite(y) & (x >= start) & (x <= end)
    columns = np.minimum(((x[bad] - start) * (cells / (end - start))).astype(int), cells - 1)
    return [int(column) for column in np.unique(columns)]


def braille(shape: Extents, y_span: tuple[float, float], rows: int) -> NDArray[np.int64]:
    """The dots of a line as numbers to add to U+2800, `rows` cells high; what is outside is cut off."""
    low, high = y_span
    dots = rows * 4
    scale = (dots - 1) / (high - low) if high > low else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        top = np.round(dots - 1 - (shape.high - low) * scale)
        bottom = np.round(dots - 1 - (shape.low - low) * scale)
        level = np.arange(dots)[:, None]
        lit = (level >= top) & (level <= bottom)
    cells = lit.reshape(rows, 4, -1, 2)
    codes: NDArray[np.int64] = np.einsum("ricj,ij->rc", cells, _WEIGHTS)
    return codes


def smooth(values: Floats, window: int) -> Floats:
    """The mean of the last `window` values, of fewer at the beginning; gaps stay and count for nothing."""
    if window <= 1 or not len(values):
        return values
    finite = np.isfinite(values)
    sums = np.concatenate(((0.0,), np.cumsum(np.where(finite, values, 0.0))))
    counts = np.concatenate(((0,), np.cumsum(finite)))
    start = np.maximum(np.arange(len(values)) + 1 - window, 0)
    end = np.arange(len(values)) + 1
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (sums[end] - sums[start]) / (counts[end] - counts[start])
    return np.where(finite, mean, np.nan)


def value_span(shapes: list[Extents], *, robust: bool) -> tuple[float, float] | None:
    """From the lowest value to the highest; without outliers if `robust`; `None` where there is none."""
    lows = np.concatenate([shape.low for shape in shapes]) if shapes else np.empty(0)
    highs = np.concatenate([shape.high for shape in shapes]) if shapes else np.empty(0)
    lows, highs = lows[~np.isnan(lows)], highs[~np.isnan(highs)]
    if not len(lows):
        return None
    if robust:
        low, high = float(np.percentile(lows, 2)), float(np.percentile(highs, 98))
    else:
        low, high = float(lows.min()), float(highs.max())
    return low, high


def logarithms(values: Floats) -> Floats:
    """Logarithms to base ten; NaN, a gap, for values that are not above zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.log10(np.where(values > 0, values, np.nan)))


_MAX_VALUE = 1e300


def widen(span: tuple[float, float]) -> tuple[float, float]:
    """A span that is never empty, and whose width is a number; what lies beyond is drawn at the edge."""
    low, high = (min(max(end, -_MAX_VALUE), _MAX_VALUE) for end in span)
    if high > low:
        return low, high
    margin = abs(low) * 0.05
    if not margin:  # 0, or so small that a twentieth of it is 0
        return 0.0, 1.0
    return low - margin, high + margin
