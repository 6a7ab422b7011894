"""Documents as others may write them: of any shape, or like a good one with something changed in it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

HUGE = [10**400, -(10**400), 2**63, -(2**63) - 1, 2**64, 10**30, 1e308, -1e308, 5e-324]
numbers = st.one_of(st.sampled_from(HUGE), st.integers(), st.floats(), st.booleans())
scalars = st.one_of(numbers, st.none(), st.text(max_size=8))
values = st.recursive(
    scalars,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=4), some),
)
names = st.sampled_from(
    [
        "../../../../x",
        "/etc/passwd",
        "a\0b",
        "-x",
        "--help",
        "a\nb",
        "\x1b]0;x\x07",
        ".",
        "..",
        "~/x",
        "a" * 5000,
    ]
)
"""Texts that do harm where they are taken for a path, an option or a line."""


def example_counts(few: int, many: int) -> list[Any]:
    """Numbers of examples for `parametrize`: a few by default, many among the `faults`."""
    return [few, pytest.param(many, marks=[pytest.mark.faults, pytest.mark.timeout(1200)])]


def examples(count: int) -> settings:
    """Settings for `count` examples, generated alone and without health checks."""
    return settings(
        max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )


def places(document: object, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything in a document, itself included: keys and indices that lead there."""
    yield above
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places(value, (*above, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from places(value, (*above, index))


@st.composite
def changed(draw: st.DrawFn, document: object) -> Any:
    """The document with one to three things in it replaced, or left out."""
    holder = [copy.deepcopy(document)]
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from([(0, *path) for path in places(holder[0])]))
        inside: Any = holder
        for step in place[:-1]:
            inside = inside[step]
        if len(place) > 1 and draw(st.integers(0, 4)) == 0:
            del inside[place[-1]]
        else:
            inside[place[-1]] = draw(values | names)
    return holder[0]
