"""Which knobs a person means by some words, the likeliest first. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

IN_TEXT = 4
"""From this rank on, a word is not in the key."""


def rank(words: Sequence[str], key: str, *texts: str) -> int | None:
    """How well all of `words` fit, 0 the best; `None` where one is nowhere.

    A word that is a part of the key (`lr` of `trainer.optim.lr`) goes before the beginning of a part, before
    the beginning of a word in it, before any place in the key, before a word of the `texts`, before any place
    in these. The worst of them counts.
    """
    ranks = [_rank(word, key, texts) for word in words]
    return None if None in ranks else max((each for each in ranks if each is not None), default=0)


def pattern(words: Sequence[str]) -> re.Pattern[str]:
    """Finds each place of any of `words`, to be marked."""
    return re.compile("|".join(map(re.escape, words)) or r"(?!)", re.IGNORECASE)


def _rank(word: str, key: str, texts: Sequence[str]) -> int | None:
    word, key = word.casefold().replace("-", "_"), key.casefold().replace("-", "_")
    tests = (f".{word}." in f".{key}.", f".{word}" in f".{key}", f"_{word}" in f"_{key}", word in key)
    if any(tests):
        return tests.index(True)
    text = " ".join(texts).casefold()
    if re.search(rf"\b{re.escape(word)}", text):
        return IN_TEXT
    return IN_TEXT + 1 if word in text else None
