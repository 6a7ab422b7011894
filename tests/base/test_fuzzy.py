from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.base.fuzzy import LETTERS, PREFIX, SUBSTRING, WORD, folded, matched_positions, query_words, rank


@pytest.mark.parametrize(
    ("typed", "text", "how"),
    [
        ("lr", "trainer.optim.lr", WORD),
        ("optim.lr", "trainer.optim.lr", WORD),
        ("LR", "trainer.optim.lr", WORD),
        ("tr", "trainer.optim.lr", PREFIX),
        ("rain", "trainer.optim.lr", SUBSTRING),
        ("tol", "trainer.optim.lr", LETTERS),
        ("bs", "orchestrator.batch_size", LETTERS),
        ("size", "orchestrator.batch_size", WORD),
        ("lr trainer", "trainer.optim.lr", WORD),
        ("lr tr", "trainer.optim.lr", PREFIX),
    ],
)
def test_rank_says_how_well_a_text_answers(typed: str, text: str, how: int) -> None:
    result = rank(query_words(typed), text)
    assert result is not None
    assert result[0] == how


@pytest.mark.parametrize("typed", ["xyz", "lrx", "lr x", "srl"])
def test_rank_is_none_where_a_word_is_missing(typed: str) -> None:
    assert rank(query_words(typed), "trainer.optim.lr") is None


def test_rank_passes_over_letters_far_apart() -> None:
    assert rank(query_words("ab"), f"a{'x' * 20}b") is None
    assert rank(query_words("ab"), f"a{'x' * 20}a-b") is not None, "the nearest of them count"


def test_rank_prefers_a_later_word_to_an_earlier_part() -> None:
    assert rank(query_words("lr"), "alright.lr") == (WORD, 8)
    assert matched_positions(query_words("lr"), "alright.lr") == (8, 9)


def test_nothing_typed_is_answered_by_everything() -> None:
    assert rank((), "anything") == (WORD, 0)
    assert matched_positions((), "anything") == ()


@given(st.text(), st.text())
def test_places_are_those_of_the_letters_typed(typed: str, text: str) -> None:
    words, text = query_words(typed), folded(text)
    result = matched_positions(words, text)
    assert list(result) == sorted(set(result))
    letters = {letter for word in words for letter in word}
    assert all(text[place] in letters for place in result)
    if rank(words, text) is not None:
        assert letters == {text[place] for place in result}


@given(st.text())
def test_folded_keeps_every_place(text: str) -> None:
    assert len(folded(text)) == len(text)
