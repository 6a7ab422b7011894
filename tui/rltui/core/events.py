"""Entries of the journal as people look for them and read them: command line and screen alike.

Kind, text and data are those of `JournalEntry`, which is too heavy to be imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rltui.core.marks import mark_kind
from rltui.core.text import shortened
from rltui.errors import UsageError

KINDS = (
    "start",
    "ready",
    "stop",
    "exit",
    "crash",
    "plan",
    "restart",
    "resume",
    "checkpoint",
    "prune",
    "restore",
    "promote",
    "eval",
    "edit",
    "config",
    "alert",
    "note",
    "link",
    "health",
    "stall",
    "server",
    "orphan",
    "call",
    "notice",
    "supervisor",
)
"""Kinds of entries, and of the marks that some of them are: in the journal's file a `crash` is an `exit`, a
`restart` a `plan`. Whoever asks gets the word of the mark."""
LONGEST_NOTE = 2000
"""Characters."""
_UNFOLDED = ("diff", "stacks")
"""Data of several lines that belongs to what an entry says."""


def shown_kind(kind: str, data: Mapping[str, Any]) -> str:
    """The word for people and programs: what an entry is on a chart, else its kind."""
    mark = mark_kind(kind, data)
    return kind if mark is None else mark.value


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip()


def by_whom(text: str, data: Mapping[str, Any]) -> str:
    """`by ada, pid 4711`; empty where nobody is known, or the text says it."""
    by = data.get("by")
    return f"by {by}" if isinstance(by, str) and by and by not in text else ""


def unfolded(text: str, data: Mapping[str, Any]) -> list[str]:
    """What stands below the first line: more of the text, the diff of an edit, the stacks of a stall."""
    lines = text.strip().splitlines()[1:]
    for name in _UNFOLDED:
        if isinstance(more := data.get(name), str):
            lines += more.rstrip("\n").splitlines()
    return lines


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which entries a person wants to see; empty: all."""

    kinds: frozenset[str] = frozenset()
    components: frozenset[str] = frozenset()
    since: float = 0.0
    """Seconds since 1970."""
    words: str = ""
    """All of them must be in kind, component, text or diff, in capitals or not."""

    def admits(self, at: float, kind: str, component: str | None, text: str, data: Mapping[str, Any]) -> bool:
        if at < self.since or (self.components and component not in self.components):
            return False
        if self.kinds and self.kinds.isdisjoint((kind, shown_kind(kind, data))):
            return False
        if not self.words:
            return True
        inside = " ".join((shown_kind(kind, data), component or "", text, *unfolded("", data))).casefold()
        return all(word in inside for word in self.words.casefold().split())


def note_text(text: str) -> str:
    """A person's words as they are kept.

    Raises:
        UsageError: if they are none, or too many.
    """
    words = text.strip()
    if not words:
        raise UsageError("an empty note", hint="say what is to be remembered")
    if len(words) > LONGEST_NOTE:
        title = f"a note of {len(words)} characters: {shortened(first_line(words), 40)}"
        raise UsageError(title, hint=f"a note has at most {LONGEST_NOTE}; say where the rest is")
    return words
