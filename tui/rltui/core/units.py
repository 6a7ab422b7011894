"""Sizes and figures for people. Imports nothing: `rltui status` uses it."""

from __future__ import annotations

GIB = 1 << 30


def gib(size_bytes: float) -> str:
    """`71.2`, or `141` from a hundred on."""
    value = size_bytes / GIB
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def grouped(figure: float) -> str:
    """`262,144`, `12,610`, `0.394`: thousands apart, below a thousand four digits that say something."""
    if isinstance(figure, int) or figure >= 1000:
        return f"{round(figure):,}"
    return f"{figure:.4g}"
