"""Numbers as they travel: columns whose bytes are put together by their place, which zstd makes little of."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from rltui.core.metrics.series import Series

MOST_POINTS = 2000
"""Points of a series that is read for the first time: more than a chart has room for."""
_DIFFERING = frozenset("qil")
"""Type codes of columns whose numbers are near those before."""


def encode_columns(columns: Iterable[array[Any]]) -> bytes:
    return b"".join(map(_encode_column, columns))


def decode_columns(codes: Sequence[str], lengths: Sequence[int], data: bytes) -> list[array[Any]]:
    """Columns of these type codes and lengths.

    Raises:
        ValueError: if the data are of another length.
    """
    columns, start = [], 0
    for code, length in zip(codes, lengths, strict=True):
        end = start + length * array(code).itemsize
        columns.append(_decode_column(code, data[start:end], length))
        start = end
    if start != len(data):
        raise ValueError("wrong number of values")
    return columns


def _encode_column(column: array[Any]) -> bytes:
    if column.typecode in _DIFFERING and column:
        column = _wrapped(
            column.typecode, (column[0], *(after - before for before, after in pairwise(column)))
        )
    data, size = _little(column).tobytes(), column.itemsize
    return b"".join(data[offset::size] for offset in range(size))


def _decode_column(code: str, data: bytes, length: int) -> array[Any]:
    column = array(code)
    size = column.itemsize
    if len(data) != length * size:
        raise ValueError("too few values")
    shuffled = bytearray(len(data))
    for offset in range(size):
        shuffled[offset::size] = data[offset * length : (offset + 1) * length]
    column.frombytes(bytes(shuffled))
    column = _little(column)
    return _wrapped(code, accumulate(column)) if code in _DIFFERING else column


def _wrapped(code: str, numbers: Iterable[int]) -> array[Any]:
    """Wrap the differences into the range of the column's type; decoding wraps them back."""
    bits = 8 * array(code).itemsize
    half, modulus = 1 << (bits - 1), 1 << bits
    return array(code, [(number + half) % modulus - half for number in numbers])


def _little(column: array[Any]) -> array[Any]:
    """The column in little-endian order, whatever machine it is on."""
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column


def series_columns(series: Series) -> tuple[array[Any], ...]:
    """The columns of a series: steps, the bits of its times (near each other, too), values."""
    times = array("q")
    times.frombytes(series.times.tobytes())
    return series.steps, times, series.values


SERIES_CODES = ("q", "q", "d")


def series_from_columns(columns: Sequence[array[Any]]) -> Series:
    """The series whose columns `series_columns` gave."""
    steps, bits, values = columns
    times = array("d")
    times.frombytes(bits.tobytes())
    return Series(steps, times, values)


def downsample(series: Series, most: int = MOST_POINTS) -> Series:
    """About so many of its points at most, in their order: the first and the last, and of each of equal parts
    the lowest, the highest, and one that is no number where there is one.
    """
    count, values = len(series), series.values
    if count <= most:
        return series
    size = -(-count // max(1, most // 2 - 1))
    indices = {0, count - 1}
    for begin in range(0, count, size):
        bucket = range(begin, min(begin + size, count))
        numbers = [index for index in bucket if not math.isnan(values[index])]
        if numbers:
            indices |= {min(numbers, key=values.__getitem__), max(numbers, key=values.__getitem__)}
        if len(numbers) < len(bucket):
            indices.add(next(index for index in bucket if math.isnan(values[index])))
    places = sorted(indices)
    return Series(
        array("q", [series.steps[index] for index in places]),
        array("d", [series.times[index] for index in places]),
        array("d", [values[index] for index in places]),
    )
