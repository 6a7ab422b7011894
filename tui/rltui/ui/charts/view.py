"""How a person looks at the charts: which part of the axis, how smooth, read where. Pure, without numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

Span = tuple[float, float]
_SMOOTHINGS = (1, 5, 20, 100)
"""Points that a mean is of."""
_MIN_SPAN = 2.0
"""Steps or seconds that are seen at least."""


@dataclass(frozen=True, slots=True)
class ChartView:
    """How a person looks at all charts at once."""

    by_time: bool = False
    """Seconds since a run's first point instead of its steps."""
    window: Span | None = None
    """Part of the axis in view; `None`: all of it, also as it grows."""
    smoothing: int = 1
    """Points that a mean is of."""
    robust: bool = False
    """Outliers may be cut off."""
    cursor: float | None = None
    """Position at which the values of all series are read; `None`: at their ends."""
    annotations: bool = True
    """Whether they are drawn."""
    log: frozenset[str] = frozenset()
    """Ids of charts whose scale is not their default one."""

    def toggle(self, switch: str, chart_id: str) -> ChartView:
        """Switch `by_time`, `robust`, `marks`, `smoothing`, or `log` of a chart."""
        match switch:
            case "by_time":
                return replace(self, by_time=not self.by_time, window=None, cursor=None)
            case "robust":
                return replace(self, robust=not self.robust)
            case "marks":
                return replace(self, annotations=not self.annotations)
            case "smoothing":
                index = (_SMOOTHINGS.index(self.smoothing) + 1) % len(_SMOOTHINGS)
                return replace(self, smoothing=_SMOOTHINGS[index])
            case _:
                return replace(self, log=self.log ^ {chart_id})

    def read_at(self, x: float, full_span: Span) -> ChartView:
        """Return the view with the cursor at `x`, within the axis; the window moves until it contains the
        cursor.
        """
        low, high = full_span
        x = min(max(x, low), high)
        window = self.window
        if window is not None and not window[0] <= x <= window[1]:
            window = _inside(x - (window[1] - window[0]) / 2, window[1] - window[0], full_span)
        return replace(self, cursor=x, window=window)

    def move_cursor(self, cells: int, width: int, full_span: Span) -> ChartView:
        """Return the view with the cursor moved by cells of a window of `width` cells, each a step at least.

        It begins at the window's end.
        """
        low, high = self.window or full_span
        per_cell = (high - low) / width
        if not self.by_time:
            per_cell = max(1.0, round(per_cell))
        return self.read_at(high if self.cursor is None else self.cursor + cells * per_cell, full_span)

    def read_adjacent(self, direction: int, positions: Sequence[float], full_span: Span) -> ChartView:
        """Return the view with the cursor at the next of `positions`, which are in order; none: as it is."""
        inside = [x for x in positions if full_span[0] <= x <= full_span[1]]
        if direction > 0:
            ahead = [x for x in inside if self.cursor is not None and x > self.cursor]
        else:
            ahead = [x for x in reversed(inside) if self.cursor is None or x < self.cursor]
        return self.read_at(ahead[0], full_span) if ahead else self

    def pan(self, share: float, full_span: Span) -> ChartView:
        """Return the view with its window moved by a share of its width."""
        if self.window is None:
            return self
        width = self.window[1] - self.window[0]
        return replace(self, window=_inside(self.window[0] + share * width, width, full_span))

    def scale(self, factor: float, full_span: Span) -> ChartView:
        """Return the view with a window `factor` times as wide, around the cursor or else up to the same
        end.
        """
        low, high = self.window or full_span
        width = (high - low) * factor
        if width >= full_span[1] - full_span[0]:
            return replace(self, window=None)
        if width < _MIN_SPAN:
            return self
        middle = high if self.cursor is None else self.cursor
        return replace(self, window=_inside(middle - (middle - low) / (high - low) * width, width, full_span))


def _inside(start: float, width: float, full_span: Span) -> Span:
    start = min(max(start, full_span[0]), full_span[1] - width)
    return start, start + width
