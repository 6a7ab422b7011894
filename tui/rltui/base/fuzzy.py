"""Fuzzy search: whole words first, then prefixes, substrings, and letters in their order.

Pure. Ranks are plain tuples, the lower the better, and are computed without the positions of the letters:
those are computed for the few lines that are displayed.
"""

from __future__ import annotations

from collections.abc import Sequence

Rank = tuple[int, int]
"""Quality of a match, then its position: `(WORD, 0)` is the best."""

WORD, PREFIX, SUBSTRING, LETTERS = range(4)
"""A whole word, the beginning of one, a part of one, letters in their order."""
_MOST_SCATTERED = 8
"""Letters that stand further apart, in multiples of the query's length, are no match."""


def folded(text: str) -> str:
    """Lower case, letter by letter, so that positions stay valid."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)


def query_words(query: str) -> tuple[str, ...]:
    """The lower-case words of a query: each of them must match, in any order."""
    return tuple(folded(query).split())


def rank(terms: Sequence[str], text: str) -> Rank | None:
    """The worst rank of the lower-case `terms` in the lower-case `text`; `None` if one does not match."""
    worst: Rank = (WORD, 0)
    for term in terms:
        if term in text:
            match_rank = _best_substring(term, text)
        elif (last := _stretch_length(term, text)) is not None:
            match_rank = (LETTERS, last)
        else:
            return None
        worst = max(worst, match_rank)
    return worst


def matched_positions(terms: Sequence[str], text: str) -> tuple[int, ...]:
    """Positions of the letters in the lower-case `text` that match the lower-case `terms`, ascending; as far
    as they do.
    """
    positions: set[int] = set()
    for term in terms:
        if term in text:
            start = _best_substring(term, text)[1]
            positions.update(range(start, start + len(term)))
        elif _stretch_length(term, text) is not None:
            positions.update(_scattered_positions(term, text))
    return tuple(sorted(positions))


def _best_substring(term: str, text: str) -> Rank:
    """Best rank of a substring, and its start."""
    best = (LETTERS, 0)
    start = text.find(term)
    while start >= 0:
        end = start + len(term)
        if start and text[start - 1].isalnum() and term[0].isalnum():
            kind = SUBSTRING
        elif end < len(text) and text[end].isalnum():
            kind = PREFIX
        else:
            return WORD, start
        best = min(best, (kind, start))
        start = text.find(term, start + 1)
    return best


def _stretch_length(term: str, text: str) -> int | None:
    """Cells from the first to the last of the letters in their order; `None` if they do not occur."""
    first = start = text.find(term[0])
    if first < 0:
        return None
    for letter in term[1:]:
        start = text.find(letter, start + 1)
        if start < 0:
            return None
    # From the last letter back: the shortest stretch that ends there.
    back = start
    for letter in reversed(term[:-1]):
        back = text.rfind(letter, first, back)
    spread = start - back + 1
    return spread if spread <= _MOST_SCATTERED * len(term) else None


def _scattered_positions(term: str, text: str) -> list[int]:
    position = -1
    for letter in term:
        position = text.find(letter, position + 1)
    positions = [position]
    for letter in reversed(term[:-1]):
        position = text.rfind(letter, 0, position)
        positions.append(position)
    return positions
