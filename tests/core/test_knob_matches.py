"""Finding C2: what a person means comes first, and what matched is marked."""

from __future__ import annotations

import pytest

from rltui.core.knob_matches import IN_TEXT, pattern, rank


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("lr", 0),
        ("optim", 0),
        ("trainer.optim", 0),
        ("op", 1),
        ("optim.l", 1),
        ("decay", 2),
        ("ecay", 3),
        ("learning", IN_TEXT),
        ("earn", IN_TEXT + 1),
        ("lr learning", IN_TEXT),
        ("LR", 0),
        ("weight-d", 1),
        ("lr absent", None),
        ("", 0),
    ],
)
def test_ranks(words: str, expected: int | None) -> None:
    assert rank(words.split(), "trainer.optim.lr.weight_decay", "Learning rate, already scaled.") == expected


def test_help_comes_last() -> None:
    keys = {"orchestrator.async": "What is already there.", "trainer.lr_warmup": "", "trainer.optim.lr": ""}
    ranked = sorted(keys, key=lambda key: rank(["lr"], key, keys[key]) or 0)
    assert ranked == ["trainer.optim.lr", "trainer.lr_warmup", "orchestrator.async"]


def test_places_are_marked() -> None:
    assert pattern(["lr"]).sub(r"[\g<0>]", "a Lr already") == "a [Lr] a[lr]eady"
    assert pattern([]).sub("!", "all") == "all"
