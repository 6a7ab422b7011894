"""What a metric comes to over some steps: the value of one step is that of one batch. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rltui.core.text import figure

LEVEL_STEPS = 10
"""Steps of a level: the last ones that have a finite value, or all where there are fewer."""


@dataclass(frozen=True, slots=True)
class Level:
    """The mean over some steps, and how far single steps lie from it."""

    mean: float
    std: float | None
    """Of the single steps; `None` where there is but one, or no float holds it."""
    steps: int

    def text(self, unit: str = "") -> str:
        """`0.958 ± 0.012`."""
        spread = "" if self.std is None else f" ± {figure(self.std, unit)}"
        return f"{figure(self.mean, unit)}{spread}"


def level_of(values: Sequence[float]) -> Level | None:
    """Of the last `LEVEL_STEPS` finite values; `None` where there is none."""
    last = [value for value in values if math.isfinite(value)][-LEVEL_STEPS:]
    if not last:
        return None
    mean = _mean(last)
    squares = sum((value - mean) * (value - mean) for value in last)  # may be infinite, where `**` raises
    std = math.sqrt(squares / (len(last) - 1)) if len(last) > 1 else math.inf
    return Level(mean, std if math.isfinite(std) else None, len(last))


def block_means(values: Sequence[float]) -> list[float]:
    """Of each `LEVEL_STEPS` successive values; what is left over at the end is no block yet."""
    ends = range(LEVEL_STEPS, len(values) + 1, LEVEL_STEPS)
    return [_mean(values[end - LEVEL_STEPS : end]) for end in ends]


def best_level(values: Sequence[float], better: str) -> float | None:
    """The best mean of `LEVEL_STEPS` successive steps, and of the last ones; `None` where there is none."""
    level = level_of(values)
    if level is None or not better:
        return None
    means = [*block_means([value for value in values if math.isfinite(value)]), level.mean]
    return max(means) if better == "higher" else min(means)


def _mean(values: Sequence[float]) -> float:
    """Divided first: the largest floats have a mean, too."""
    return math.fsum(value / len(values) for value in values)
