from __future__ import annotations

import math
import struct
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.client.laptop.columns import (
    decode_columns,
    downsample,
    encode_columns,
    series_columns,
)
from rltui.core.metrics.series import Series


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.floats()), st.lists(st.integers(-128, 127)))
def test_columns_come_back_bit_by_bit(whole: list[int], real: list[float], small: list[int]) -> None:
    columns: list[array[Any]] = [array("q", whole), array("d", real), array("b", small)]
    back = decode_columns("qdb", [len(column) for column in columns], encode_columns(columns))
    assert [column.tobytes() for column in back] == [column.tobytes() for column in columns]


def test_a_wrong_length_is_refused() -> None:
    data = encode_columns([array("q", [1, 2])])
    for length, title in ((1, "wrong number of values"), (3, "too few values")):
        with pytest.raises(ValueError, match=title):
            decode_columns("q", [length], data)


def series(values: list[float]) -> Series:
    made = Series()
    for step, value in enumerate(values, 1):
        made.add(step, 1.8e9 + step / 3, value)
    return made


def test_a_long_series_keeps_its_ends_and_extremes() -> None:
    values = [math.sin(step / 50) for step in range(30_000)]
    values[12_345], values[23_456] = 40.0, -40.0
    values[100:130] = [math.nan] * 30
    few = downsample(series(values), 1000)
    assert 500 < len(few) <= 1000
    assert (few.steps[0], few.steps[-1]) == (1, 30_000)
    assert (12_346, 40.0) in zip(few.steps, few.values, strict=True)
    assert (23_457, -40.0) in zip(few.steps, few.values, strict=True)
    assert list(few.steps) == sorted(few.steps)
    assert any(map(math.isnan, few.values))
    assert downsample(few, 1000) is few


def test_figures_that_look_alike_take_little_room() -> None:
    import zstandard

    values = [struct.unpack("f", struct.pack("f", math.sin(step / 7)))[0] for step in range(1000)]
    data = encode_columns(series_columns(series(values)))
    assert len(zstandard.compress(data)) < 0.4 * len(data)
