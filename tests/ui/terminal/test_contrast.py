"""How far colours are apart, and what is done where that is too little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem

from rltui.ui.terminal.contrast import (
    BLACK,
    GRAPHICS,
    TEXT,
    WHITE,
    Rgb,
    displayed_colors,
    displayed_ratio,
    ratio,
    readable,
)

PART = st.integers(0, 255)
COLOR = st.tuples(PART, PART, PART)
DEPTH = st.sampled_from([ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD])


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [(WHITE, BLACK, 21.0), ((119, 119, 119), WHITE, 4.48), ((0, 0, 255), WHITE, 8.59), (BLACK, BLACK, 1.0)],
)
def test_ratio_is_that_of_wcag(one: Rgb, other: Rgb, wanted: float) -> None:
    assert round(ratio(one, other), 2) == round(ratio(other, one), 2) == wanted


def test_few_colours_are_seen_as_what_terminals_make_of_them() -> None:
    orange = (255, 166, 43)
    assert displayed_colors(orange, ColorSystem.TRUECOLOR) == (orange,)
    assert displayed_colors(orange, ColorSystem.EIGHT_BIT) == ((255, 175, 0),)
    assert displayed_colors((250, 80, 80), ColorSystem.STANDARD) == ((255, 85, 85), (255, 0, 0))


@given(COLOR, COLOR, DEPTH)
def test_anything_can_be_made_readable(color: Rgb, surface: Rgb, colors: ColorSystem) -> None:
    best = max(displayed_ratio(pole, surface, colors) for pole in (WHITE, BLACK))
    assert best >= TEXT or colors is ColorSystem.STANDARD
    for least in (TEXT, GRAPHICS):
        found = readable(color, surface, least, colors)
        assert displayed_ratio(found, surface, colors) >= min(least, best)
        assert found == color or displayed_ratio(color, surface, colors) < least
