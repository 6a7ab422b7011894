"""How a person looks at the charts: which part of the axis, how smooth, read where. Pure, without numpy."""

from __future__ import annotations

from dataclasses import dataclass, replace

Span = tuple[float, float]
_SMOOTHINGS = (1, 5, 20, 100)
"""Points that a mean is of."""
_NARROWEST = 2.0
"""Steps or seconds that are seen at least."""


@dataclass(frozen=True, slots=True)
class View:
    """How a person looks at all charts at once."""

    by_time: bool = False
    """Seconds since a run's first point instead of its steps."""
    window: Span | None = None
    """What is seen of the axis; `None`: all, also what comes."""
    smoothing: int = 1
    """Points that a mean is of."""
    robust: bool = False
    """Outliers may be cut off."""
    cursor: float | None = None
    """Where all series are read; `None`: at their ends."""
    marks: bool = True
    log: frozenset[str] = frozenset()
    """Charts whose scale is the other one than usual."""

    def switched(self, what: str, chart: str) -> View:
        """With one of them the other way: `by_time`, `robust`, `marks`, `smoothing`, or `log` of a chart."""
        match what:
            case "by_time":
                return replace(self, by_time=not self.by_time, window=None, cursor=None)
            case "robust":
                return replace(self, robust=not self.robust)
            case "marks":
                return replace(self, marks=not self.marks)
            case "smoothing":
                at = (_SMOOTHINGS.index(self.smoothing) + 1) % len(_SMOOTHINGS)
                return replace(self, smoothing=_SMOOTHINGS[at])
            case _:
                return replace(self, log=self.log ^ {chart})

    def reading(self, x: float, whole: Span) -> View:
        """With the cursor there, or at the end of the axis, and what is seen moved so that it is seen."""
        low, high = whole
        x = min(max(x, low), high)
        window = self.window
        if window is not None and not window[0] <= x <= window[1]:
            window = _inside(x - (window[1] - window[0]) / 2, window[1] - window[0], whole)
        return replace(self, cursor=x, window=window)

    def panned(self, share: float, whole: Span) -> View:
        """Seeing what is `share` of the width further on."""
        if self.window is None:
            return self
        width = self.window[1] - self.window[0]
        return replace(self, window=_inside(self.window[0] + share * width, width, whole))

    def scaled(self, factor: float, whole: Span) -> View:
        """Seeing `factor` times as much of the axis, around the cursor or else up to the same end."""
        low, high = self.window or whole
        width = (high - low) * factor
        if width >= whole[1] - whole[0]:
            return replace(self, window=None)
        if width < _NARROWEST:
            return self
        middle = high if self.cursor is None else self.cursor
        return replace(self, window=_inside(middle - (middle - low) / (high - low) * width, width, whole))


def _inside(start: float, width: float, whole: Span) -> Span:
    start = min(max(start, whole[0]), whole[1] - width)
    return start, start + width
