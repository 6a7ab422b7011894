from __future__ import annotations

import pytest

from rltui.core.durations import duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (41, "41s"), (100, "1m40s"), (2470, "41m"), (7500, "2h05m"), (273600, "3d04h")],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words
