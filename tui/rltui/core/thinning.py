"""A line of any length in so few points that it still looks the same: what stands out is kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

Points = Sequence[tuple[int, float]]
"""Step and value; the steps ascend."""

_MOST_KEPT = 4096


def thinned(points: Points, most: int) -> list[tuple[int, float]]:
    """At most `most` (4 or more) of the points: the first, the last, and between them the lowest and the
    highest of each of equal spans of steps.
    """
    if len(points) <= most:
        return list(points)
    first, last = points[0], points[-1]
    spans = (most - 2) // 2
    width = (last[0] - first[0]) / spans
    chosen, bucket, number = [first], [], 0
    for point in points[1:-1]:
        at = min(spans - 1, int((point[0] - first[0]) / width))
        if at != number and bucket:
            chosen += _extremes(bucket)
            bucket = []
        number = at
        bucket.append(point)
    return [*chosen, *_extremes(bucket), last]


def _extremes(points: Points) -> list[tuple[int, float]]:
    return sorted({min(points, key=lambda point: point[1]), max(points, key=lambda point: point[1])})


class ThinnedLine:
    """Takes one point after the other, for as long as a run goes on, and keeps some thousand of them."""

    def __init__(self, most: int) -> None:
        """`most`: as in `thinned`, of what `points` gives."""
        self._most = most
        self._kept: list[tuple[int, float]] = []
        self._given: tuple[tuple[int, float], ...] | None = ()

    def add(self, step: int, value: float) -> None:
        """The next point. One for an earlier step goes in place of all from there on."""
        self.cut(step - 1)
        self._kept.append((step, value))
        if len(self._kept) > _MOST_KEPT:
            self._kept = thinned(self._kept, _MOST_KEPT // 2)

    def cut(self, step: int) -> None:
        """What lies beyond `step` is void."""
        self._given = None
        while self._kept and self._kept[-1][0] > step:
            self._kept.pop()

    def points(self) -> tuple[tuple[int, float], ...]:
        """Of the whole line."""
        if self._given is None:
            self._given = tuple(thinned(self._kept, self._most))
        return self._given
