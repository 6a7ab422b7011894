"""Times and spans as people and programs write them."""

from __future__ import annotations

import time

import pytest

from rltui.base.times import parse_moment, parse_span

NOW = time.mktime((2026, 11, 22, 15, 0, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("1d12h", 129_600.0), ("1.5m", 90.0), ("2w", 1_209_600.0), ("2", None)],
)
def test_a_span_is_a_number_of_seconds(text: str, seconds: float | None) -> None:
    assert parse_span(text) == seconds


def test_a_moment_is_a_time_or_so_long_ago() -> None:
    assert parse_moment("1h", NOW) == NOW - 3600
    assert parse_moment("2026-11-22", NOW) == NOW - 15 * 3600
    assert parse_moment("2026-11-22 14:30", NOW) == parse_moment("2026-11-22T14:30:00", NOW) == NOW - 1800
    assert parse_moment("14:30", NOW) == NOW - 1800
    assert parse_moment("15:30", NOW) == NOW - 84_600, "of yesterday"
    assert parse_moment("1789000000.25", NOW) == 1789000000.25, "as a document has it"
    assert parse_moment("12", NOW) is parse_moment("soon", NOW) is parse_moment("9999-99-99", NOW) is None
