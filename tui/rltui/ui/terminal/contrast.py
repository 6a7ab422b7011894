"""How well one colour stands out from another, by WCAG 2, as terminals of few colours show them too."""

from __future__ import annotations

from functools import lru_cache

from rich._palettes import EIGHT_BIT_PALETTE, STANDARD_PALETTE
from rich.color import Color, ColorSystem
from rich.palette import Palette

Rgb = tuple[int, int, int]

TEXT = 4.5
"""The least ratio of text to what it stands on."""
GRAPHICS = 3.0
"""The same of borders, bars and curves."""
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
"""Of xterm; those of the Linux console, and of a PC before, are Rich's."""
_STEPS = 32


def luminance(color: Rgb) -> float:
    """From 0, black, to 1, white."""
    red, green, blue = color
    return 0.2126 * _LINEAR[red] + 0.7152 * _LINEAR[green] + 0.0722 * _LINEAR[blue]


def ratio(one: Rgb, other: Rgb) -> float:
    """From 1, the same, to 21, black and white."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@lru_cache(maxsize=4096)
def shown(color: Rgb, colors: ColorSystem) -> tuple[Rgb, ...]:
    """What comes of it on a terminal of so many colours; where they are 16, on each kind of terminal."""
    if colors is ColorSystem.TRUECOLOR:
        return (color,)
    number = Color.from_rgb(*color).downgrade(colors).number
    assert number is not None
    palettes = (EIGHT_BIT_PALETTE,) if colors is ColorSystem.EIGHT_BIT else (STANDARD_PALETTE, _XTERM)
    return tuple(palette[number] for palette in palettes)


def ratio_shown(one: Rgb, other: Rgb, colors: ColorSystem) -> float:
    """As `ratio`, of what comes of both; the worst where that is not sure."""
    return min(map(ratio, shown(one, colors), shown(other, colors)))


def blend(below: Rgb, above: Rgb, share: float) -> Rgb:
    """`share` of `above` laid over `below`."""
    red, green, blue = (
        round(under + (over - under) * share) for under, over in zip(below, above, strict=True)
    )
    return red, green, blue


def readable(color: Rgb, surface: Rgb, least: float, colors: ColorSystem) -> Rgb:
    """What is nearest to `color` and stands out from `surface` by `least`, at most 4.5, as both are shown.

    Of sixteen colours there are greys from which none does: then it is the one that does most.
    """
    if ratio_shown(color, surface, colors) >= least:
        return color
    poles = sorted((WHITE, BLACK), key=lambda pole: -ratio_shown(pole, surface, colors))
    for step in range(1, _STEPS + 1):
        for pole in poles:
            candidate = blend(color, pole, step / _STEPS)
            if ratio_shown(candidate, surface, colors) >= least:
                return candidate
    return poles[0]
