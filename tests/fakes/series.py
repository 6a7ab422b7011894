"""Series that tests write themselves."""

from __future__ import annotations

from collections.abc import Iterable

from rltui.core.lines import LogChange
from rltui.core.series import Rewind, Series, SeriesKey


def made_series(points: Iterable[tuple[int, float, float]]) -> Series:
    """Of (step, time, value)."""
    series = Series()
    for step, at, value in points:
        series.add(step, at, value)
    return series


class FakeSeries:
    """Implements `rltui.core.series.SeriesSource`."""

    def __init__(self, series: dict[SeriesKey, Series] | None = None, *rewinds: Rewind) -> None:
        self.series = series or {}
        self.rewound = rewinds
        self.change = LogChange.NONE
        """What the next look says."""

    def look(self) -> LogChange:
        change, self.change = self.change, LogChange.NONE
        return change

    def keys(self) -> tuple[SeriesKey, ...]:
        return tuple(sorted(self.series))

    def rewinds(self) -> tuple[Rewind, ...]:
        return self.rewound

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        return self.series.get(key, Series()).tail(start)
