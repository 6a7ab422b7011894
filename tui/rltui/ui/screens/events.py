"""The events screen: the journal by time, and from each entry to the log or chart of that moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from textual import on

from rltui.core.annotations import annotation_kind
from rltui.core.events import EventFilter, first_line
from rltui.core.journal import JournalEntry
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext
from rltui.ui.base_screen import EXPERIMENT_KEYS
from rltui.ui.copying import CopyRequested
from rltui.ui.dialogs.base import ChoiceMenu
from rltui.ui.key_bindings import bind, keys
from rltui.ui.screens import SCREENS
from rltui.ui.screens.resource_screen import ResourceScreen, note_row
from rltui.ui.state import AppState
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.event_list import EventItem, EventRows
from rltui.ui.widgets.row_list import Row, list_keys
from rltui.ui.widgets.search_line import SearchLine

_ALL, _MARKS = "all", "marks"


class EventScreen(ResourceScreen):
    place = KeyContext.EVENTS

    BINDINGS = keys(
        KeyContext.EVENTS, *EXPERIMENT_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "jump", "go there", "To that moment: in the log of the component, or on the charts",
             footer=Footer.YES),
        bind(verbs.COMPONENT_FULL_LOG, "jump_to('logs')", "log", "To that moment in the log",
             footer=Footer.YES),
        bind(verbs.FILTER, "choose_kind", "kind",
             "Only events of one kind or component, only what the charts mark, or all again",
             footer=Footer.YES),
        bind(verbs.SEARCH, help="Only events with some words, also in the diffs of edits", footer=Footer.YES),
        bind(verbs.GROUP, "fold", "fold",
             "Hide what stands below the events, diffs and stacks, and show it again",
             footer=Footer.FIRST_TO_GO),
        bind(verbs.MARK_GO, "jump_to('metrics')", "chart",
             "To that moment on the charts, where it is a mark", footer=Footer.YES),
        bind(verbs.COPY),
        bind(verbs.NOTE, "commands.note", footer=Footer.YES),
        bind(verbs.CURSOR_LAST, "moved_list.move_to_end(True)",
             help="To the newest event, and those to come"),
        bind(verbs.BACK, label="overview", help="End the search, show all again; back to the overview",
             footer=Footer.YES),
    )  # fmt: skip

    part = "events"
    reading = "Reading the events"

    def __init__(self, app_state: AppState) -> None:
        super().__init__(app_state)
        self.state.watch("journal", self.hurry.set)
        self._filter = EventFilter()
        self._only_marks = False
        self._entries: tuple[JournalEntry, ...] = ()
        self._items: list[EventItem] = []
        self._listed: list[EventItem] = []
        self._is_folded = False
        self._sought_time: float | None = None
        """A moment to go to, once the journal is read."""
        self._search = SearchLine("words of an event or its diff", id="events-search")
        self.above = (self._search,)
        self.notes.display = False

    def go_to(self, moment: float, component: str | None) -> None:
        """The entry nearest to that moment, among all that there are, or among those of `component`."""
        self._filter = EventFilter(components=frozenset(() if component is None else (component,)))
        self._only_marks = False
        self._sought_time = moment
        self.hurry.set()

    # values in

    async def ask(self) -> None:
        """Wrap what is new; all of it where the journal is another one. In a thread: it may be long."""
        entries = await self.experiment.journal()
        old_count = len(self._entries)
        if old_count > len(entries) or (old_count and entries[old_count - 1] is not self._entries[-1]):
            old_count = 0
        new = enumerate(entries[old_count:], start=old_count)
        items = await asyncio.to_thread(lambda: [EventItem.of(entry, number) for number, entry in new])
        self._items = [*self._items[:old_count], *items]
        self._entries, self.problem = entries, ""
        self._list(self._sought_time)
        self._sought_time = None

    def _list(self, moment: float | None = None) -> None:
        """The cursor goes to `moment`, or stays on its entry; on the newest it goes along with what comes."""
        previous = self.selected
        was_last = previous is not None and previous is self._listed[-1]
        self._listed = [item for item in self._items if self._admits(item.entry)]
        stays = any(item is previous for item in self._listed)
        if moment is None and previous is not None and not stays:
            moment = previous.entry.at
        if self._listed and moment is not None:  # the clock may have been set back: all of them are looked at
            self.rows.key = min(self._listed, key=lambda item: abs(item.entry.at - moment)).key
        elif self._listed and (previous is None or was_last):
            self.rows.key = self._listed[-1].key

    def _admits(self, entry: JournalEntry) -> bool:
        if self._only_marks and annotation_kind(entry.kind, entry.data) is None:
            return False
        return self._filter.admits(entry.at, entry.kind, entry.component, entry.text, entry.data)

    def update_title(self) -> None:
        count = len(self._items)
        filters = [*self._filter.kinds, *self._filter.components, *(["marks"] if self._only_marks else [])]
        only = [f"only {clean_line(name)}" for name in filters]
        if self._filter.words:
            only.append(repr(clean_line(self._filter.words)))
        self.title_line.update(
            self.state.heading(
                "Events",
                (f"{len(self._listed)} of {count}" if self._is_filtered else str(count), FAINT),
                *((filter_name, "bold") for filter_name in only),
                problem=self.problem,
            )
        )

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...] | EventRows:
        if not self._listed:
            nothing = (
                "Nothing matches. esc shows all events again." if self._items else "Nothing happened yet."
            )
            return (note_row(nothing, width),)
        return EventRows(self._listed, width, selected, self.state.clock(), is_folded=self._is_folded)

    # what is shown

    @property
    def _is_filtered(self) -> bool:
        return self._only_marks or self._filter != EventFilter()

    def action_choose_kind(self) -> None:
        counts = Counter(item.kind for item in self._items)
        mark_count = sum(annotation_kind(entry.kind, entry.data) is not None for entry in self._entries)
        choices = {
            _ALL: ("everything", f"{len(self._items)} events"),
            _MARKS: ("what the charts mark", f"{mark_count}: edits, crashes, alerts, notes, checkpoints …"),
        }
        choices |= {f"kind {kind}": (kind, _times(count)) for kind, count in counts.most_common()}
        owners = Counter(entry.component for entry in self._entries if entry.component)
        choices |= {
            f"of {name}": (f"of {clean_line(name)}", _times(count)) for name, count in owners.most_common()
        }
        self.app.push_screen(ChoiceMenu("Which events?", choices), self._take_choice)

    def _take_choice(self, choice: str | None) -> None:
        """A kind and a component narrow the list together."""
        if choice is None:
            return
        category, _, name = choice.partition(" ")
        if category == "of":
            self._filter = replace(self._filter, components=frozenset((name,)))
        else:
            self._only_marks = category == _MARKS
            self._filter = replace(self._filter, kinds=frozenset((name,) if name else ()))
        if category == _ALL:
            self._filter = replace(self._filter, components=frozenset())
        self._list_again()

    def _list_again(self) -> None:
        self._list()
        self.show()

    def action_fold(self) -> None:
        self._is_folded = not self._is_folded
        self.rows.reload()

    def action_search(self) -> None:
        self._search.open()

    @on(SearchLine.Changed)
    def _searched(self, event: SearchLine.Changed) -> None:
        self._filter = replace(self._filter, words=event.value)
        self._list_again()

    @on(SearchLine.Submitted)
    def _focus_list(self) -> None:
        self.rows.focus()

    def action_back(self) -> None:
        if self._search.is_open:
            self._search.close()
            self.rows.focus()
        elif self._is_filtered:
            self._filter, self._only_marks = EventFilter(), False
            self._list_again()
        else:
            self.action_show_overview()

    # keys

    @property
    def selected(self) -> EventItem | None:
        return next((item for item in self._listed if item.key == self.rows.key), None)

    def copied(self) -> CopyRequested | None:
        if (item := self.selected) is None:
            return None
        text = clean_line(first_line(item.entry.text))
        return CopyRequested("\n".join([text, *(line.plain for line in item.below)]), f"the {item.kind}")

    def action_jump(self) -> None:
        if (item := self.selected) is not None:
            names = ["logs", "metrics"] if item.entry.component else ["metrics", "logs"]
            self._jump(next(name for name in names if name in SCREENS))

    def action_jump_to(self, name: str) -> None:
        self._jump(name)

    def _jump(self, name: str) -> None:
        if (item := self.selected) is not None:
            self.show_screen(name, moment=item.entry.at, component=item.entry.component)

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "jump":
                return self.selected is not None and bool({"logs", "metrics"} & SCREENS.keys())
            case "jump_to":
                return self.selected is not None and str(arguments[0]) in SCREENS
            case "choose_kind" | "fold" | "search":
                return bool(self._items)
            case _:
                return super().enabled(command, *arguments)


def _times(count: int) -> str:
    return "1 event" if count == 1 else f"{count} events"
