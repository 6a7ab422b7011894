"""Entries of the palette, and the ranking of those that match a query.

Textual's own matcher takes a query as one run of letters and gives one score: it knows no words in any
order (`lr trainer`), no whole words before parts of others, no equals of which the one used last is first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rltui.base import fuzzy


class EntryKind(StrEnum):
    """The value stands before the entry. Alike in all else, an earlier kind comes first."""

    STEP = "step"
    COMPONENT = "component"
    SCREEN = "screen"
    KNOB = "knob"
    ACTION = "action"
    CHECKPOINT = "checkpoint"
    THEME = "theme"
    SETTING = "setting"
    RUN = "run"
    LOG = "log"


PREFIXES = {
    ">": EntryKind.ACTION,
    "@": EntryKind.COMPONENT,
    "=": EntryKind.KNOB,
    "~": EntryKind.RUN,
    "#": EntryKind.CHECKPOINT,
    "*": EntryKind.THEME,
    ",": EntryKind.SETTING,
    "/": EntryKind.LOG,
}
"""Typed first, only that kind is offered."""
_ORDER = {kind: index for index, kind in enumerate(EntryKind)}
_DETAIL_PENALTY = 8
"""Added to the rank of what answers only by its description."""
_MIN_KIND_LETTERS = 3
"""Letters of a word that may mean a kind."""


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    kind: EntryKind
    target: str
    """An action's id, a knob's key, a run's id …; unique among its kind."""
    label: str
    """The main text that a query is matched with."""
    choose: Callable[[], object] = field(compare=False)
    """Enter calls it, once the palette is closed."""
    detail: str = ""
    keys: str = ""
    """The keys that do the same."""
    folded: str = field(init=False)
    """The label as it is searched."""
    folded_detail: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folded", fuzzy.folded(self.label))
        object.__setattr__(self, "folded_detail", fuzzy.folded(self.detail))

    @property
    def name(self) -> str:
        """A use of the entry is remembered under it."""
        return f"{self.kind}:{self.target}"


def split_prefix(query: str) -> tuple[EntryKind | None, str]:
    """The only kind that is to be offered, and the text to search."""
    kind = PREFIXES.get(query[:1])
    return (None, query) if kind is None else (kind, query[1:])


def ranked(
    entries: Sequence[PaletteEntry], query: str, recent: Sequence[str] = ()
) -> tuple[PaletteEntry, ...]:
    """Entries that match the query, the best first; all of them for an empty one.

    A label that equals the query comes before all; of equals the one used last comes first, then by their
    kinds, then in the order they came in.
    """
    kind, text = split_prefix(query)
    tokens, phrase = fuzzy.query_words(text), fuzzy.folded(text).strip()
    positions = {name: index for index, name in enumerate(recent)}
    keyed = []
    for index, entry in enumerate(entries):
        if (kind is None or entry.kind is kind) and (rank := _rank(entry, tokens)) is not None:
            quality, position = rank
            position = 0 if quality == fuzzy.WORD else position
            last_used = positions.get(entry.name, len(positions))
            order = (entry.folded != phrase, quality, last_used, _ORDER[entry.kind], position, index)
            keyed.append((order, entry))
    keyed.sort(key=lambda pair: pair[0])
    return tuple(entry for _, entry in keyed)


def _rank(entry: PaletteEntry, tokens: Sequence[str]) -> fuzzy.Rank | None:
    """A word may also name the kind, or many of that kind: `theme nord`, `settings`."""
    label_tokens = [
        token for token in tokens if len(token) < _MIN_KIND_LETTERS or not f"{entry.kind}s".startswith(token)
    ]
    if len(label_tokens) < len(tokens) and (rank := fuzzy.rank(label_tokens, entry.folded)) is not None:
        return max(rank, (fuzzy.PREFIX, 0))
    rank = fuzzy.rank(tokens, entry.folded)
    if rank is not None or not entry.detail:
        return rank
    if all(token in entry.folded_detail or token in entry.folded for token in tokens):
        rank = fuzzy.rank(tokens, f"{entry.folded} {entry.folded_detail}")
    return None if rank is None else (rank[0] + _DETAIL_PENALTY, rank[1])
