"""How well one colour stands out from another, by WCAG 2, as terminals of few colours show them too."""

from __future__ import annotations

from functools import lru_cache

from rich._palettes import EIGHT_BIT_PALETTE, STANDARD_PALETTE
from rich.color import Color, ColorSystem
from rich.palette import Palette

Rgb = tuple[int, int, int]

TEXT = 4.5
"""Minimum ratio of text to its background."""
GRAPHICS = 3.0
"""Minimum ratio of borders, bars and curves."""
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
_LINEAR = [
    value / 255 / 12.92 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in range(256)
]
_XTERM = Palette(
    [
        (0, 0, 0),
        (205, 0, 0),
        (0, 205, 0),
        (205, 205, 0),
        (0, 0, 238),
        (205, 0, 205),
        (0, 205, 205),
        (229, 229, 229),
        (127, 127, 127),
        (255, 0, 0),
        (0, 255, 0),
        (255, 255, 0),
        (92, 92, 255),
        (255, 0, 255),
        (0, 255, 255),
        (255, 255, 255),
    ]
)
"""The sixteen colours of xterm; those of the Linux console are Rich's."""
_STEPS = 32


def luminance(color: Rgb) -> float:
    """Relative luminance, from 0 (black) to 1 (white)."""
    red, green, blue = color
    return 0.2126 * _LINEAR[red] + 0.7152 * _LINEAR[green] + 0.0722 * _LINEAR[blue]


def ratio(one: Rgb, other: Rgb) -> float:
    """Contrast ratio, from 1 (the same) to 21 (black and white)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@lru_cache(maxsize=4096)
def displayed_colors(color: Rgb, colors: ColorSystem) -> tuple[Rgb, ...]:
    """The colour as a terminal of so many colours shows it; of 16, as each kind of terminal does."""
    if colors is ColorSystem.TRUECOLOR:
        return (color,)
    number = Color.from_rgb(*color).downgrade(colors).number
    assert number is not None
    palettes = (EIGHT_BIT_PALETTE,) if colors is ColorSystem.EIGHT_BIT else (STANDARD_PALETTE, _XTERM)
    return tuple(palette[number] for palette in palettes)


def displayed_ratio(one: Rgb, other: Rgb, colors: ColorSystem) -> float:
    """Contrast ratio of both as they are displayed; the lowest where terminals differ."""
    return min(map(ratio, displayed_colors(one, colors), displayed_colors(other, colors)))


def blend(below: Rgb, above: Rgb, share: float) -> Rgb:
    """`above` laid over `below` with an opacity of `share`."""
    red, green, blue = (
        round(under + (over - under) * share) for under, over in zip(below, above, strict=True)
    )
    return red, green, blue


def readable(color: Rgb, surface: Rgb, min_ratio: float, colors: ColorSystem) -> Rgb:
    """The colour nearest to `color` whose displayed ratio to `surface` is `min_ratio`, which is at most 4.5.

    From some greys none of sixteen colours stands out so far: then it is the one that does most.
    """
    if displayed_ratio(color, surface, colors) >= min_ratio:
        return color
    poles = sorted((WHITE, BLACK), key=lambda pole: -displayed_ratio(pole, surface, colors))
    for step in range(1, _STEPS + 1):
        for pole in poles:
            candidate = blend(color, pole, step / _STEPS)
            if displayed_ratio(candidate, surface, colors) >= min_ratio:
                return candidate
    return poles[0]
