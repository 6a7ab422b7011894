"""Colours that programs give their own output, as Rich styles."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color
from rich.style import Style

from rltui.core.lines import Colour, SgrStyle


@lru_cache(maxsize=256)
def rich_style(style: SgrStyle) -> Style:
    """Return the style Rich paints with; what is off stays unset, so that it can be laid over another."""
    return Style(color=_colour(style.fg), bgcolor=_colour(style.bg)) + colourless_style(style)


@lru_cache(maxsize=256)
def colourless_style(style: SgrStyle) -> Style:
    """As `rich_style`, without the colours, whose greys may be too dark to read."""
    return Style(
        bold=style.bold or None,
        dim=style.dim or None,
        italic=style.italic or None,
        underline=style.underline or None,
        reverse=style.reverse or None,
    )


def _colour(colour: Colour | None) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)
