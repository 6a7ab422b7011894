"""Knobs, and the figures that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltui.core.text import grouped, value_text

if TYPE_CHECKING:
    from rltui.core.config_report import DerivedValue


def figure_text(figure: DerivedValue) -> str:
    """`prompts per step: 8  (128 rollouts / 16 per example)`, or the words alone where it varies."""
    if figure.value is None:
        return f"{figure.name}: {figure.text}"
    explained = f"  ({figure.text})" if figure.text else ""
    most = "at most " if figure.text.startswith("at most ") else ""
    return f"{figure.name}: {most}{figure_value(figure.value)}{figure_unit(figure)}{explained}"


def figure_value(value: float | str | None) -> str:
    """`262,144`; `—` where it varies."""
    if value is None:
        return "—"
    return value if isinstance(value, str) else grouped(value)


def figure_unit(figure: DerivedValue) -> str:
    """` tokens`; empty where it is a word of the name: `prompts per step` needs no `prompts` behind it."""
    return "" if figure.unit in figure.name.split() else f" {figure.unit}"


def range_text(bounds: Sequence[float | None]) -> str:
    """`1 to 100`, `1 or more`, `up to 100`; empty where anything goes."""
    low, high = bounds
    if low is not None and high is not None:
        return f"{value_text(low)} to {value_text(high)}"
    if low is not None:
        return f"{value_text(low)} or more"
    return "" if high is None else f"up to {value_text(high)}"
