"""Filter and texts of journal entries, for command line and screen alike. `views/event.py` has their kinds.

Kind, text and data are those of `JournalEntry` (`core/experiment/journal.py`), which is too heavy to be
imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rltui.base.text import truncate
from rltui.base.times import date_text
from rltui.core.experiment.actor_names import actor_name, actor_text
from rltui.core.metrics.annotations import annotation_kind
from rltui.errors import UsageError

LONGEST_NOTE = 2000
"""Number of characters."""
_UNFOLDED = ("diff", "stacks")
"""Keys of data of several lines that are displayed with an entry."""


def entry_data(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of an entry as the file has it; empty where that is no table."""
    data = entry.get("data")
    return data if isinstance(data, dict) else {}


def display_kind(kind: str, data: Mapping[str, Any]) -> str:
    """The displayed kind: that of the annotation on a chart, else the entry's own."""
    mark = annotation_kind(kind, data)
    return kind if mark is None else mark.value


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip()


def author(entry: Mapping[str, Any]) -> str:
    """Describe the author of an entry of the file: `ada, pid 4711`, `agent night-1`; empty: unknown."""
    if isinstance(by := entry.get("by"), dict):
        return actor_name(by) if by.get("kind") == "agent" else actor_text(by)
    by = entry_data(entry).get("by")  # entries of earlier versions have a text
    return by if isinstance(by, str) else ""


def author_and_time(entry: Mapping[str, Any], now: float) -> str:
    """Name author and time: `agent night-1, 02:14`, with the date if it is not today's; empty: unknown."""
    name, at = author(entry), entry.get("at")
    if not name or not isinstance(at, int | float):
        return name
    day, _, clock = date_text(at).partition(" ")
    is_today = date_text(now).startswith(day)
    return f"{name}, {clock if is_today else f'{day} {clock}'}"


def author_name(entry: Mapping[str, Any]) -> str:
    """Name the author of an entry in a word or two: `ada`, `agent night-1`."""
    by = entry.get("by")
    return actor_name(by) if isinstance(by, dict) else author(entry).partition(",")[0]


def author_words(entry: Mapping[str, Any]) -> frozenset[str]:
    """Words by which a person selects the author of an entry: kind, name and account."""
    by = entry.get("by")
    words = (
        [by.get(key) for key in ("kind", "name", "user")] if isinstance(by, dict) else [author_name(entry)]
    )
    return frozenset(str(word) for word in words if word)


def author_text(text: str, by: str) -> str:
    """`by ada, pid 4711`; empty if nobody is known, or the text says it."""
    return f"by {by}" if by and by not in text else ""


def detail_lines(text: str, data: Mapping[str, Any]) -> list[str]:
    """Lines after the first: more of the text, the diff of an edit, the stacks of a stall."""
    lines = text.strip().splitlines()[1:]
    for name in _UNFOLDED:
        if isinstance(more := data.get(name), str):
            lines += more.rstrip("\n").splitlines()
    return lines


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A person's selection of entries; empty fields select all."""

    kinds: frozenset[str] = frozenset()
    components: frozenset[str] = frozenset()
    authors: frozenset[str] = frozenset()
    """Kinds, names or accounts."""
    words: str = ""
    """Texts that must all occur in kind, component, text or diff, ignoring case."""

    def admits(
        self,
        kind: str,
        component: str | None,
        text: str,
        data: Mapping[str, Any],
        authors: frozenset[str],
    ) -> bool:
        """`authors`: the words of its author (`author_words`)."""
        if self.authors and self.authors.isdisjoint(authors):
            return False
        if self.components and component not in self.components:
            return False
        if self.kinds and self.kinds.isdisjoint((kind, display_kind(kind, data))):
            return False
        if not self.words:
            return True
        haystack = " ".join(
            (display_kind(kind, data), component or "", text, *detail_lines("", data))
        ).casefold()
        return all(term in haystack for term in self.words.casefold().split())


def note_text(text: str) -> str:
    """A person's note, stripped, as it is stored.

    Raises:
        UsageError: if it is empty, or too long.
    """
    note = text.strip()
    if not note:
        raise UsageError("the note is empty", hint="give its text")
    if len(note) > LONGEST_NOTE:
        title = f"note too long ({len(note)} characters): {truncate(first_line(note), 40)}"
        raise UsageError(
            title, hint=f"at most {LONGEST_NOTE} characters; put the rest in a file, and name the file"
        )
    return note
