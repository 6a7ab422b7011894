"""Ticks and labels of axes, as formatters of textual-plot. Imports numpy."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from textual_plot import AxisFormatter

from rltui.core.text import duration, format_number

_TIME_STEPS = (1, 2, 5, 10, 15, 30, *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
               *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 96, 240, 720)))  # fmt: skip
"""Seconds between ticks that people can count with."""
_NEXT_TICK = 1 + 1e-9


def _ticks(low: float, high: float, step: float) -> list[float]:
    first, last = math.ceil(low / step / _NEXT_TICK), math.floor(high / step * _NEXT_TICK)
    return [number * step for number in range(first, last + 1)]


def _round_step(least: float) -> float:
    """The next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * _NEXT_TICK >= least)


class ValueAxis(AxisFormatter):
    """Values in few characters, at round figures of the unit that people read them in."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._scale = 1024.0**3 if unit == "bytes" else 1.0

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        low, high = min_ / self._scale, max_ / self._scale
        step = _round_step(max((high - low) / max_ticks, abs(high) * 1e-12, 1e-300))
        return [tick * self._scale for tick in _ticks(low, high, step)]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [format_number(tick, self._unit) for tick in ticks]


class StepAxis(AxisFormatter):
    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        return _ticks(min_, max_, max(1.0, _round_step(max((max_ - min_) / max_ticks, 1.0))))

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Label steps, with thousands as `k` from ten thousand on."""
        return [format_number(tick) if abs(tick) >= 1e4 else f"{tick:.0f}" for tick in ticks]


class TimeAxis(AxisFormatter):
    """An axis of seconds since the run began."""

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        least = (max_ - min_) / max_ticks
        step = next((step for step in _TIME_STEPS if step >= least), None)
        return _ticks(min_, max_, float(step) if step is not None else 86400 * _round_step(least / 86400))

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """`0`, `10m`, `1h30m`."""
        return [duration(tick).removesuffix("00s").removesuffix("00m") if tick else "0" for tick in ticks]


class LogAxis(AxisFormatter):
    """Powers of ten; the axis itself is the exponent."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """Whole powers, or also twice and five times where there are few."""
        low, high = math.floor(min_), math.ceil(max_)
        factors = (1, 2, 5) if max_ - min_ < 2 else (1,)
        every = max(1, math.ceil((high - low) / max_ticks))
        exponents = [
            power + math.log10(factor) for power in range(low, high + 1, every) for factor in factors
        ]
        highest = min(max_, sys.float_info.max_10_exp)
        return [exponent for exponent in exponents if min_ <= exponent <= highest]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [format_number(10.0**tick, self._unit) for tick in ticks]
