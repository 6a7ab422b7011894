"""The level of a metric over some steps: the value of one step is that of one batch. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rltui.base.text import format_number

LEVEL_STEPS = 10
"""Steps of a level: the last ones that have a finite value, or all if there are fewer."""


@dataclass(frozen=True, slots=True)
class MetricLevel:
    """The mean over some steps, and the deviation of single steps from it."""

    mean: float
    std: float | None
    """Standard deviation of the single steps; `None` if there is but one, or no float holds it."""
    steps: int

    def text(self, unit: str = "") -> str:
        """`0.958 ± 0.012`."""
        deviation = "" if self.std is None else f" ± {format_number(self.std, unit)}"
        return f"{format_number(self.mean, unit)}{deviation}"


def level_of(values: Sequence[float]) -> MetricLevel | None:
    """The level of the last `LEVEL_STEPS` finite values; `None` if there is none."""
    newest = [value for value in values if math.isfinite(value)][-LEVEL_STEPS:]
    if not newest:
        return None
    mean = _mean(newest)
    squares = sum((value - mean) * (value - mean) for value in newest)  # may be infinite, where `**` raises
    std = math.sqrt(squares / (len(newest) - 1)) if len(newest) > 1 else math.inf
    return MetricLevel(mean, std if math.isfinite(std) else None, len(newest))


def late_mean(values: Sequence[float]) -> float | None:
    """The mean of the last quarter of the finite values, at least of `LEVEL_STEPS`: with less noise than the
    level; `None` if there is none.
    """
    finite = [value for value in values if math.isfinite(value)]
    return _mean(finite[-max(LEVEL_STEPS, len(finite) // 4) :]) if finite else None


def block_means(values: Sequence[float]) -> list[float]:
    """The mean of each `LEVEL_STEPS` successive values; a remainder at the end is no block yet."""
    ends = range(LEVEL_STEPS, len(values) + 1, LEVEL_STEPS)
    return [_mean(values[end - LEVEL_STEPS : end]) for end in ends]


def best_level(values: Sequence[float], better: str) -> float | None:
    """The best mean of `LEVEL_STEPS` successive steps, and of the last ones; `None` if there is none."""
    level = level_of(values)
    if level is None or not better:
        return None
    means = [*block_means([value for value in values if math.isfinite(value)]), level.mean]
    return max(means) if better == "higher" else min(means)


def _mean(values: Sequence[float]) -> float:
    """Divides first, so that the largest floats have a mean, too."""
    return math.fsum(value / len(values) for value in values)
