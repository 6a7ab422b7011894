"""Views: columns by their names, orders and filters."""

from __future__ import annotations

import pytest

from rltui.views.table import Arranged, Cell, Column, Filter, Order, View

WORDS: View[str] = View(
    key=lambda word: word,
    columns=(
        Column("word", lambda word, _: word),
        Column("length", lambda word, _: Cell(str(len(word)), "faint"), heading="n", is_right=True, goes=1),
    ),
    orders={"usual": Order("as they come", lambda _: 0), "short": Order("shortest first", len)},
    filters={"all": Filter("", lambda _: True), "long": Filter("only long ones", lambda word: len(word) > 2)},
)


def test_columns_are_chosen_by_name_in_the_order_in_which_a_face_lists_them() -> None:
    length, word = WORDS.named(["length", "word"])
    assert (length.title, word.title) == ("n", "word")
    assert length.cell("abc", 0.0) == Cell("3", "faint")
    assert word.cell("abc", 0.0) == Cell("abc", None)
    with pytest.raises(KeyError):
        WORDS.named(["colour"])


def test_a_face_may_say_what_goes_first() -> None:
    assert [column.goes for column in WORDS.named(["word", "length"])] == [0, 1]
    assert [column.goes for column in WORDS.named(["word", "length"], first_to_go=["word"])] == [1, 0]


def test_rows_are_sorted_and_narrowed_and_equal_ones_stay_as_they_are() -> None:
    arranged = Arranged(WORDS)
    words = ["four", "two", "six", "a"]
    assert arranged.listed(words) == words
    arranged.sort(-1)
    assert arranged.order_title == "shortest first"
    assert arranged.listed(words) == ["a", "two", "six", "four"]
    arranged.narrow()
    assert arranged.filter_title == "only long ones"
    assert arranged.listed(words) == ["two", "six", "four"]
    arranged.narrow()
    assert arranged.filter_title == ""
