"""The journal as a person looks at it: which entries are listed, and which has the cursor. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rltui.base.text import count_text, steps_text
from rltui.core.experiment.events import EventFilter
from rltui.core.experiment.journal import JournalEntry
from rltui.core.metrics.annotations import annotation_kind
from rltui.ui.text import clean_line
from rltui.ui.widgets.event_list import EventItem

_USUAL, _ALL, _MARKS = "usual", "all", "marks"
"""Selections: without checkpoints, which come every few seconds in a small run; all; what the charts mark."""
_CHECKPOINT = "checkpoint"


class EventListing:
    def __init__(self) -> None:
        self.filter = EventFilter()
        self._selection = _USUAL
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
        self._selection = _ALL

    def show_usual(self) -> None:
        """All entries but those of checkpoints."""
        self.filter, self._selection = EventFilter(), _USUAL

    def relist(self, key: str | None, moment: float | None = None) -> str | None:
        """Apply the filter; the cursor was on `key`, and this is where it goes: to the entry nearest to
        `moment`, or it stays; on the newest entry it goes along with what comes.
        """
        previous = self.item(key)
        was_last = previous is not None and previous is self.listed[-1]
        self.listed = [item for item in self._without_bursts() if self._admits(item)]
        if not self.listed:
            return key
        stays = any(item.key == key for item in self.listed)
        if moment is None and previous is not None and not stays:
            moment = previous.entry.at
        if moment is not None:  # the clock may have been set back: all of them are looked at
            return min(self.listed, key=lambda item: abs(item.entry.at - moment)).key
        return self.listed[-1].key if previous is None or was_last else key

    def item(self, key: str | None) -> EventItem | None:
        return next((item for item in self.listed if item.key == key), None)

    def _without_bursts(self) -> Iterator[EventItem]:
        """Checkpoints in a row have one line, but where only they are listed."""
        for is_checkpoint, group in groupby(self.items, key=lambda item: item.kind == _CHECKPOINT):
            items = list(group)
            steps = [item.entry.step for item in items if item.entry.step is not None]
            if not is_checkpoint or len(steps) < 2 or _CHECKPOINT in self.filter.kinds:
                yield from items
            else:
                text = f"checkpoints {steps_text(steps)} are complete"
                yield replace(items[-1], entry=items[-1].entry.replace(text=text))

    def _admits(self, item: EventItem) -> bool:
        entry = item.entry
        if self._selection == _MARKS and annotation_kind(entry.kind, entry.data) is None:
            return False
        if item.kind == _CHECKPOINT and self._selection == _USUAL and self.filter == EventFilter():
            return False
        return self.filter.admits(entry.kind, entry.component, entry.text, entry.data, item.authors)

    @property
    def is_filtered(self) -> bool:
        return self._selection != _USUAL or self.filter != EventFilter()

    @property
    def only(self) -> list[str]:
        """The filter in words."""
        filters = [*self.filter.kinds, *self.filter.components, *self.filter.authors]
        filters += ["marks"] if self._selection == _MARKS else []
        texts = [f"only {clean_line(name)}" for name in filters]
        texts += [repr(clean_line(self.filter.words))] if self.filter.words else []
        has_checkpoints = any(item.kind == _CHECKPOINT for item in self.items)
        return ["without checkpoints"] if not self.is_filtered and has_checkpoints else texts

    @property
    def choices(self) -> dict[str, tuple[str, str]]:
        """The keys are what `choose` takes: kinds and components of the journal, the most frequent first."""
        entries = [item.entry for item in self.items]
        mark_count = sum(annotation_kind(entry.kind, entry.data) is not None for entry in entries)
        checkpoints = sum(item.kind == _CHECKPOINT for item in self.items)
        choices = {
            _USUAL: ("without checkpoints", f"{len(entries) - checkpoints} events"),
            _ALL: ("all", f"{len(entries)} events"),
            _MARKS: ("marked on the charts", f"{mark_count}: edits, crashes, alerts, notes, checkpoints …"),
        }
        for kind, count in Counter(item.kind for item in self.items).most_common():
            choices[f"kind {kind}"] = kind, count_text(count, "event")
        for name, count in Counter(entry.component for entry in entries if entry.component).most_common():
            choices[f"of {name}"] = f"from {clean_line(name)}", count_text(count, "event")
        for name, count in Counter(
            entry.by.name or entry.by.user for entry in entries if entry.by
        ).most_common():
            choices[f"by {name}"] = f"by {clean_line(name)}", count_text(count, "event")
        return choices

    def choose(self, choice: str) -> None:
        """A kind and a component narrow the list together."""
        category, _, name = choice.partition(" ")
        if category == "of":
            self.filter = replace(self.filter, components=frozenset((name,)))
        elif category == "by":
            self.filter = replace(self.filter, authors=frozenset((name,)))
        else:
            self._selection = category
            self.filter = replace(self.filter, kinds=frozenset((name,) if name else ()))
        if category in (_USUAL, _ALL):
            self.filter = replace(self.filter, components=frozenset(), authors=frozenset())
