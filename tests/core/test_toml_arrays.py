from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rltui.core import tomldoc

LINES = """\
x = [
    1, # one
    2,

    # about three
    3  # no comma
] # end
"""


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("x = [1, 2]\n", [1, 3], "x = [1, 3]\n"),
        ("x = [ 1,2 ] # c\n", [1, 2, 3], "x = [ 1,2, 3 ] # c\n"),
        ("x = [1, 2, 3]\n", [1, 3], "x = [1, 3]\n"),
        ("x = [1, 2, 3]\n", [1, 2], "x = [1, 2]\n"),
        ("x = [1, 2]\n", [0, 1, 2], "x = [0, 1, 2]\n"),
        ("x = [1]\n", [], "x = []\n"),
        ("x = []\n", ["a", True], 'x = ["a", true]\n'),
        ("x = ['a', 'b']\n", ["a", "c"], "x = ['a', 'c']\n"),
        ("x = [1.0, 2.0]\n", [1.0, 3e-6], "x = [1.0, 3e-6]\n"),
        ("x = [[1, 2], [3]]\n", [[1, 2], [4]], "x = [[1, 2], [4]]\n"),
        (LINES, [1, 5, 3], LINES.replace("2,", "5,")),
        (LINES, [1, 3], LINES.replace("    2,\n", "")),
        (LINES, [1, 2], LINES.replace("    3  # no comma\n", "")),
        (LINES, [1, 2, 3, 4], LINES.replace("3  # no comma\n", "3,  # no comma\n    4\n")),
        (LINES, [0, 1, 2, 3], LINES.replace("    1, #", "    0,\n    1, #")),
        (LINES, [1, 2, 9, 3], LINES.replace("    2,\n", "    2,\n    9,\n")),
        ("x = [\r\n  1,\r\n]\r\n", [1, 2], "x = [\r\n  1,\r\n  2,\r\n]\r\n"),
        ("x = [ # none yet\n]\n", [1], "x = [1,  # none yet\n]\n"),
    ],
)
def test_a_list_keeps_what_is_equal(before: str, value: list[Any], after: str) -> None:
    assert tomldoc.edit(before, {"x": value}) == after
    assert tomllib.loads(after)["x"] == value


ITEMS = st.lists(st.integers(0, 4), max_size=6)
GAPS = st.sampled_from(["", " ", "\n  ", " # c\n", "\n  # c, ]\n  ", "\n\n"])


@settings(max_examples=150)
@given(ITEMS, ITEMS, st.data())
def test_any_list_becomes_any_other(old: list[int], new: list[int], data: st.DataObject) -> None:
    gaps = [data.draw(GAPS) for _ in range(len(old) + 1)]
    tail = data.draw(st.sampled_from(["", ","])) if old else ""
    text = (
        f"x = [{gaps[0]}{','.join(f'{gap}{item}' for gap, item in zip(gaps[1:], old, strict=True))}{tail}\n]"
    )
    assert tomllib.loads(text)["x"] == old
    edited = tomldoc.edit(text, {"x": new})
    assert tomllib.loads(edited)["x"] == new
    assert all(edited.count(word) <= text.count(word) for word in ("#", "c"))


def test_removing_an_element_minds_comments() -> None:
    assert tomldoc.edit("x = [1, # c\n 2]\n", {"x.1": None}) == "x = [1, # c\n ]\n"
