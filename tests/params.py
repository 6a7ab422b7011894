"""Parameters of which the default run takes a few: the others add little, and take long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest


def slow_but(every: Mapping[str, object] | Iterable[object], *always: str) -> list[object]:
    """All of them, by their names; those that are not `always` run with `-m slow` only."""
    named = every if isinstance(every, Mapping) else {str(value): value for value in every}
    assert named.keys() >= {*always}, always
    return [
        pytest.param(value, id=name, marks=() if name in always else pytest.mark.slow)
        for name, value in named.items()
    ]
