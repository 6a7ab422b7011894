from __future__ import annotations

import re

from rltui.core.levels import Level
from rltui.core.line_filter import LineFilter

LINES = [
    "banner",
    "12:00:00    INFO fine",
    "12:00:01   ERROR broken",
    "Traceback (most recent call last):",
    '  File "x.py", line 3',
    "ValueError: no",
    "12:00:02 SUCCESS fine again",
    "  detail",
]


def test_continuations_keep_the_level_of_their_line() -> None:
    line_filter = LineFilter(level=Level.WARNING)
    assert [line for line in LINES if line_filter.accepts(line)] == LINES[2:6]


def test_pattern_and_level_both_have_to_hold() -> None:
    line_filter = LineFilter(re.compile("fine"), Level.SUCCESS)
    assert [line for line in LINES if line_filter.accepts(line)] == [LINES[6]]


def test_open_filter_accepts_all() -> None:
    line_filter = LineFilter()
    assert line_filter.is_open
    assert all(line_filter.accepts(line) for line in LINES)
