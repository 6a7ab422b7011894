"""The journal as a person looks at it: which entries are listed, and which has the cursor. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rltui.core.annotations import annotation_kind
from rltui.core.events import EventFilter
from rltui.core.journal import JournalEntry
from rltui.core.text import count_text
from rltui.ui.text import clean_line
from rltui.ui.widgets.event_list import EventItem

_ALL, _MARKS = "all", "marks"


class EventListing:
    def __init__(self) -> None:
        self.filter = EventFilter()
        self._only_marks = False
        """Only what the charts mark."""
        self.items: Sequence[EventItem] = ()
        self.listed: Sequence[EventItem] = ()
        """Those that the filter admits, oldest first."""

    def take(self, entries: Sequence[JournalEntry]) -> None:
        """Wrap what is new; all of it where the journal is another one. In a thread: it may be long."""
        count = len(self.items)
        if count > len(entries) or (count and entries[count - 1] is not self.items[-1].entry):
            count = 0
        new = [EventItem.of(entry, number) for number, entry in enumerate(entries[count:], start=count)]
        self.items = [*self.items[:count], *new]

    def show_all(self, component: str | None = None) -> None:
        """All entries, or all of `component`."""
        self.filter = EventFilter(components=frozenset(() if component is None else (component,)))
        self._only_marks = False

    def relist(self, key: str | None, moment: float | None = None) -> str | None:
        """Apply the filter; the cursor was on `key`, and this is where it goes: to the entry nearest to
        `moment`, or it stays; on the newest entry it goes along with what comes.
        """
        previous = self.item(key)
        was_last = previous is not None and previous is self.listed[-1]
        self.listed = [item for item in self.items if self._admits(item.entry)]
        if not self.listed:
            return key
        stays = any(item is previous for item in self.listed)
        if moment is None and previous is not None and not stays:
            moment = previous.entry.at
        if moment is not None:  # the clock may have been set back: all of them are looked at
            return min(self.listed, key=lambda item: abs(item.entry.at - moment)).key
        return self.listed[-1].key if previous is None or was_last else key

    def item(self, key: str | None) -> EventItem | None:
        return next((item for item in self.listed if item.key == key), None)

    def _admits(self, entry: JournalEntry) -> bool:
        if self._only_marks and annotation_kind(entry.kind, entry.data) is None:
            return False
        return self.filter.admits(entry.at, entry.kind, entry.component, entry.text, entry.data)

    @property
    def is_filtered(self) -> bool:
        return self._only_marks or self.filter != EventFilter()

    @property
    def only(self) -> list[str]:
        """The filter in words."""
        filters = [*self.filter.kinds, *self.filter.components, *(["marks"] if self._only_marks else [])]
        texts = [f"only {clean_line(name)}" for name in filters]
        return texts + ([repr(clean_line(self.filter.words))] if self.filter.words else [])

    @property
    def choices(self) -> dict[str, tuple[str, str]]:
        """The keys are what `choose` takes: kinds and components of the journal, the most frequent first."""
        entries = [item.entry for item in self.items]
        mark_count = sum(annotation_kind(entry.kind, entry.data) is not None for entry in entries)
        choices = {
            _ALL: ("everything", f"{len(entries)} events"),
            _MARKS: ("what the charts mark", f"{mark_count}: edits, crashes, alerts, notes, checkpoints …"),
        }
        for kind, count in Counter(item.kind for item in self.items).most_common():
            choices[f"kind {kind}"] = kind, count_text(count, "event")
        for name, count in Counter(entry.component for entry in entries if entry.component).most_common():
            choices[f"of {name}"] = f"of {clean_line(name)}", count_text(count, "event")
        return choices

    def choose(self, choice: str) -> None:
        """A kind and a component narrow the list together."""
        category, _, name = choice.partition(" ")
        if category == "of":
            self.filter = replace(self.filter, components=frozenset((name,)))
        else:
            self._only_marks = category == _MARKS
            self.filter = replace(self.filter, kinds=frozenset((name,) if name else ()))
        if category == _ALL:
            self.filter = replace(self.filter, components=frozenset())
