"""The arithmetic of charts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rltui.ui.charts.axes import value_ticks, x_ticks
from rltui.ui.charts.curves import (
    bad_columns,
    braille,
    extents,
    logarithms,
    smooth,
    value_span,
    widen,
)

NAN = math.nan


def drawn(x: list[float], y: list[float], span: tuple[float, float], cells: int, rows: int) -> list[str]:
    shape = extents(np.array(x), np.array(y), span, cells * 2)
    codes = braille(shape, (0.0, 1.0), rows)
    return ["".join(chr(0x2800 + code) if code else " " for code in row) for row in codes.tolist()]


def test_points_are_joined() -> None:
    assert drawn([0, 5, 10], [0, 1, 0], (0, 10), 10, 3) == ["   ⣠⠞⠳⣄   ", " ⢀⡼⠁  ⠈⢧⡀ ", "⡴⠋      ⠙⢦"]


def test_a_spike_of_one_step_among_many_is_seen() -> None:
    y = [0.0] * 10_000
    y[7321] = 1.0
    shape = extents(np.arange(10_000.0), np.array(y), (0, 9999), 80)
    assert np.flatnonzero(shape.high == 1).tolist() == [7321 * 80 // 9999]
    assert shape.low.tolist() == [0.0] * 80


def test_what_is_not_finite_is_a_gap_with_a_mark() -> None:
    x, y = np.arange(5.0), np.array([0.0, 0.0, NAN, 0.0, math.inf])
    shape = extents(x, y, (0, 4), 40)
    assert np.isnan(shape.low[11:29]).all()
    assert not np.isnan(shape.low[:10]).any()
    assert bad_columns(x, y, (0, 4), 20) == [10, 19]


def test_only_what_is_in_sight_is_drawn_and_lines_come_in_from_outside() -> None:
    shape = extents(np.array([0.0, 10.0]), np.array([0.0, 1.0]), (4, 6), 10)
    assert shape.low[0] == pytest.approx(0.4)
    assert shape.high[-1] == pytest.approx(0.6)
    outside = extents(np.array([0.0, 1.0]), np.array([0.0, 1.0]), (4, 6), 10)
    assert np.isnan(outside.low).all()


def test_a_mean_passes_over_gaps() -> None:
    values = np.array([1.0, 3.0, NAN, 5.0, 7.0])
    assert smooth(values, 2).tolist() == pytest.approx([1, 2, NAN, 5, 6], nan_ok=True)
    assert smooth(values, 1) is values
    assert smooth(np.empty(0), 5).tolist() == []


def test_outliers_may_be_cut_off() -> None:
    x, y = np.arange(1000.0), np.sin(np.arange(1000.0))
    y[500] = 1e6
    shape = extents(x, y, (0, 999), 400)
    assert value_span([shape], robust=False) == pytest.approx((-1, 1e6), abs=0.01)
    span = value_span([shape], robust=True)
    assert span is not None
    assert span[1] < 2
    assert value_span([], robust=True) is None


def test_logarithms_leave_out_what_has_none() -> None:
    found = logarithms(np.array([100.0, 0.0, -1.0, NAN]))
    assert found.tolist() == pytest.approx([2, NAN, NAN, NAN], nan_ok=True)


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        (value_ticks((0.03, 1.07), 4), ["0.5", "1"]),
        (value_ticks((0, 70 * 2**30), 4, unit="bytes"), ["0", "20", "40", "60"]),
        (value_ticks((0, 1), 4, unit="frac"), ["0", "50", "100"]),
        (value_ticks((-6.2, -3.9), 8, log=True), ["1e-06", "1e-05", "0.0001"]),
        (value_ticks((-0.1, 1.1), 8, log=True), ["1", "2", "5", "10"]),
        (x_ticks((1, 4), 8), ["1", "2", "3", "4"]),
        (x_ticks((1, 60_000), 4), ["20k", "40k", "60k"]),
        (x_ticks((0, 2470), 5, by_time=True), ["0", "10m", "20m", "30m", "40m"]),
        (x_ticks((0, 400), 5, by_time=True), ["0", "2m", "4m", "6m"]),
    ],
)
def test_ticks_are_round_and_few(ticks: list[tuple[float, str]], labels: list[str]) -> None:
    assert [label for _, label in ticks] == labels


_numbers = st.floats(allow_nan=True, allow_infinity=True)


@example([(0.0, 1.5297273018070884e24), (8.509390574739271e-285, 0.0)], 1, 1, False, False)  # too steep
@example([(0.0, 1.5297273018070884e24), (8.509390574739271e-285, 0.0)], 1, 1, False, True)
@example([(0.0, 5e-324)], 1, 1, False, False)  # a margin of it is 0
@example([(0.0, 1.7120886998688722e308)], 1, 1, False, False)  # a margin above is no number any more
@given(
    st.lists(st.tuples(st.floats(-1e15, 1e15), _numbers), max_size=40),
    st.integers(1, 30),
    st.integers(1, 6),
    st.booleans(),
    st.booleans(),
)
def test_any_numbers_can_be_drawn(
    points: list[tuple[float, float]], cells: int, rows: int, log: bool, robust: bool
) -> None:
    points.sort(key=lambda point: point[0])
    x, y = np.array([x for x, _ in points]), np.array([y for _, y in points])
    y = logarithms(y) if log else y
    span = widen((x[0], x[-1])) if points else (0.0, 1.0)
    shape = extents(x, y, span, cells * 2)
    low, high = widen(value_span([shape], robust=robust) or (0.0, 1.0))
    assert low < high
    assert braille(shape, (low, high), rows).shape == (rows, cells)
    unit = "" if log else "bytes"
    for ticks in (
        value_ticks((low, high), 5, unit=unit, log=log), x_ticks(span, 5), x_ticks(span, 5, by_time=True)
    ):  # fmt: skip
        assert len(ticks) <= 40
