"""Ticks of axes, each with its label."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable

from rltui.base.text import duration, format_number
from rltui.ui.charts.view import Span

Ticks = list[tuple[float, str]]
"""Position and label, ascending. Some may be just outside of the axis."""

_TIME_STEPS = (1, 2, 5, 10, 15, 30, *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
               *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 96, 240, 720)))  # fmt: skip
"""Seconds between ticks that people can count with."""
_NEXT_TICK = 1 + 1e-9


def value_ticks(span: Span, most: int = 8, *, unit: str = "", log: bool = False) -> Ticks:
    """At round values of the unit that people read them in. `log`: the axis is the exponent of ten."""
    low, high = span
    if log:
        return _labelled(_exponents(low, high, most), lambda tick: format_number(10.0**tick, unit))
    scale = 1024.0**3 if unit == "bytes" else 1.0
    low, high = low / scale, high / scale
    step = _round_step(max((high - low) / most, abs(high) * 1e-12, 1e-300))
    ticks = (tick * scale for tick in _multiples(low, high, step))
    return _labelled(ticks, lambda tick: format_number(tick, unit))


def x_ticks(span: Span, most: int = 8, *, by_time: bool = False) -> Ticks:
    """At round steps (`500`, `20k`), or times since the run began (`0`, `10m`, `1h30m`)."""
    low, high = span
    least = (high - low) / most
    if not by_time:
        step = max(1.0, _round_step(max(least, 1.0)))
        ticks = _multiples(low, high, step)
        return _labelled(ticks, lambda tick: format_number(tick) if abs(tick) >= 1e4 else f"{tick:.0f}")
    time_step = next((float(seconds) for seconds in _TIME_STEPS if seconds >= least), None)
    if time_step is None:
        time_step = 86400 * _round_step(least / 86400)
    return _labelled(
        _multiples(low, high, time_step),
        lambda tick: duration(tick).removesuffix("00s").removesuffix("00m") if tick else "0",
    )


def _labelled(ticks: Iterable[float], label: Callable[[float], str]) -> Ticks:
    return [(tick, label(tick)) for tick in ticks]


def _multiples(low: float, high: float, step: float) -> list[float]:
    first, last = math.ceil(low / step / _NEXT_TICK), math.floor(high / step * _NEXT_TICK)
    return [number * step for number in range(first, last + 1)]


def _round_step(least: float) -> float:
    """The next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * _NEXT_TICK >= least)


def _exponents(low: float, high: float, most: int) -> list[float]:
    """Whole powers, or also twice and five times where there are few."""
    first, last = math.floor(low), math.ceil(high)
    factors = (1, 2, 5) if high - low < 2 else (1,)
    every = max(1, math.ceil((last - first) / most))
    exponents = [power + math.log10(factor) for power in range(first, last + 1, every) for factor in factors]
    highest = min(high, sys.float_info.max_10_exp)
    return [exponent for exponent in exponents if low <= exponent <= highest]
