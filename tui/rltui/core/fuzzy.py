"""What a few letters mean: whole words first, then beginnings, parts, and letters in their order.

Pure. Ranks are plain tuples, the lower the better, and are reckoned without a look at where the letters are:
that is asked for the few lines that are shown.
"""

from __future__ import annotations

from collections.abc import Sequence

Rank = tuple[int, int]
"""How well a text answers, then at what place: `(WORD, 0)` is the best there is."""

WORD, PREFIX, PART, LETTERS = range(4)
"""A whole word, the beginning of one, a part of one, letters in their order."""
_MOST_SCATTERED = 8
"""Letters that stand further apart, counted in lengths of what was typed, mean something else."""


def folded(text: str) -> str:
    """Without upper case, letter by letter, so that places stay what they are."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(each.lower() if len(each.lower()) == 1 else each for each in text)


def words_of(typed: str) -> tuple[str, ...]:
    """What was typed, folded: each of them must be found, in any order."""
    return tuple(folded(typed).split())


def rank(words: Sequence[str], text: str) -> Rank | None:
    """How well the folded `text` answers all of the folded `words`: as its worst; `None`: not at all."""
    worst: Rank = (WORD, 0)
    for word in words:
        if word in text:
            found = _best_part(word, text)
        elif (last := _spread(word, text)) is not None:
            found = (LETTERS, last)
        else:
            return None
        worst = max(worst, found)
    return worst


def places(words: Sequence[str], text: str) -> tuple[int, ...]:
    """Of the letters in the folded `text` that answer the folded `words`, ascending; as far as they do."""
    found: set[int] = set()
    for word in words:
        if word in text:
            start = _best_part(word, text)[1]
            found.update(range(start, start + len(word)))
        elif _spread(word, text) is not None:
            found.update(_scattered(word, text))
    return tuple(sorted(found))


def _best_part(word: str, text: str) -> Rank:
    """How a part answers best, and where it begins there."""
    best = (LETTERS, 0)
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if start and text[start - 1].isalnum() and word[0].isalnum():
            how = PART
        elif end < len(text) and text[end].isalnum():
            how = PREFIX
        else:
            return WORD, start
        best = min(best, (how, start))
        start = text.find(word, start + 1)
    return best


def _spread(word: str, text: str) -> int | None:
    """Cells from the first to the last of the letters in their order; `None` where they are not there."""
    first = start = text.find(word[0])
    if first < 0:
        return None
    for letter in word[1:]:
        start = text.find(letter, start + 1)
        if start < 0:
            return None
    # From the last letter back: the shortest stretch that ends there.
    back = start
    for letter in reversed(word[:-1]):
        back = text.rfind(letter, first, back)
    spread = start - back + 1
    return spread if spread <= _MOST_SCATTERED * len(word) else None


def _scattered(word: str, text: str) -> list[int]:
    at = -1
    for letter in word:
        at = text.find(letter, at + 1)
    found = [at]
    for letter in reversed(word[:-1]):
        at = text.rfind(letter, 0, at)
        found.append(at)
    return found
