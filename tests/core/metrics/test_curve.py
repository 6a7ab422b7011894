"""Curves in characters."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from rltui.base.text import display_unit, format_measured, format_number
from rltui.core.metrics.curve import curve_rows


def test_points_are_joined() -> None:
    assert curve_rows([0, 5, 10], [0, 1, 0], 10, 3, x_span=(0, 10), y_span=(0, 1)) == [
        "   ⣠⠞⠳⣄   ",
        " ⢀⡞⠁  ⠘⢦⡀ ",
        "⡴⠋      ⠙⢦",
    ]


def test_what_is_not_finite_is_a_gap() -> None:
    (row,) = curve_rows([0, 1, 2, 3, 4], [0, 0, math.nan, 0, 0], 10, 1, x_span=(0, 4), y_span=(0, 1))
    assert row.strip("⣀⡀⢀ ") == ""
    assert "  " in row
    assert curve_rows([], [], 3, 2, x_span=(0, 1), y_span=(0, 1)) == ["   ", "   "]
    assert curve_rows([1], [math.inf], 3, 1, x_span=(0, 1), y_span=(0, 1)) == ["   "]


def test_a_single_point_is_a_dot() -> None:
    (row,) = curve_rows([5], [0.5], 4, 1, x_span=(5, 5), y_span=(0, 1))
    assert row.strip()


def test_without_braille_it_is_ascii() -> None:
    rows = curve_rows(
        range(40), [x / 40 for x in range(40)], 20, 4, x_span=(0, 39), y_span=(0, 1), braille=False
    )
    assert all(row.isascii() for row in rows)
    assert [bool(row.strip()) for row in rows] == [True] * 4


@given(
    st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats()), max_size=30),
    st.integers(1, 20),
    st.integers(1, 5),
    st.booleans(),
)
def test_any_points_fill_the_rectangle(
    points: list[tuple[float, float]], width: int, height: int, braille: bool
) -> None:
    points.sort(key=lambda point: point[0])
    xs, ys = [x for x, _ in points], [y for _, y in points]
    span = (xs[0], xs[-1]) if xs else (0.0, 1.0)
    rows = curve_rows(xs, ys, width, height, x_span=span, y_span=(0, 1), braille=braille)
    assert [len(row) for row in rows] == [width] * height


def test_figures_are_short() -> None:
    values = {
        0.93421: "0.934",
        1.23e-6: "1.23e-06",
        412.0: "412",
        1234.5: "1234",
        82134.0: "82.1k",
        -3e7: "-30M",
    }
    assert {value: format_number(value) for value in values} == values
    assert format_number(math.nan) == "NaN"
    assert format_number(-math.inf) == "-∞"
    measured = [(1.0, "steps"), (0.5, "steps"), (1.0, "s"), (1.0, "tokens/s"), (0.4123, "frac"), (1.0, "")]
    texts = [format_measured(value, unit) for value, unit in measured]
    assert texts == ["1 step", "0.5 steps", "1 s", "1 token/s", "41.2 %", "1"]
    assert (format_number(0.4123, "frac"), display_unit("frac")) == ("41.2", "%")
    assert (format_number(64.5 * 1024**3, "bytes"), display_unit("bytes")) == ("64.5", "GiB")
    assert display_unit("s") == "s"
