"""The events screen: the journal by time, and from each entry to the log or chart of that moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static
from textual.worker import Worker

from rltui.core.annotations import annotation_kind
from rltui.core.events import EventFilter
from rltui.core.journal import JournalEntry
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext
from rltui.ui.background import in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS, BaseScreen
from rltui.ui.key_bindings import bind, keys
from rltui.ui.messages import waiting
from rltui.ui.screens import SCREENS
from rltui.ui.screens.dialogs import ChoiceMenu
from rltui.ui.shared import AppState
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar
from rltui.ui.widgets.event_list import EventItem, EventList
from rltui.ui.widgets.row_list import list_keys

_ALL, _MARKS = "all", "marks"


class EventScreen(BaseScreen):
    """Lies on the overview. Made once: it stays when it is left."""

    place = KeyContext.EVENTS

    CSS_PATH: ClassVar = ["events.tcss"]
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

    def __init__(self, home: AppState) -> None:
        super().__init__(home)
        self.shared.watch("journal", self._read)
        self.shared.watch("connection", self._update_title)
        self._filter = EventFilter()
        self._only_marks = False
        self._entries: tuple[JournalEntry, ...] = ()
        self._items: list[EventItem] = []
        self._item_count = 0
        self._problem = ""
        self._is_behind = False
        self._reader: Worker[object] | None = None
        self._wanted_at: float | None = None
        """A moment to go to, once the journal is read."""
        self._title = Static(id="events-title", markup=False)
        self._search = Input(placeholder="words of an event or its diff", id="events-search", compact=True)
        self._search.cursor_blink = False
        self._list = EventList(home.clock, id="events-list")
        self._empty = Static(id="events-empty", markup=False)

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self._search
        yield self._empty
        yield self._list

    def on_mount(self) -> None:
        self._list.focus()

    def on_screen_resume(self) -> None:
        self._read()

    def go_to(self, moment: float, component: str | None) -> None:
        """The entry nearest to that moment, among all that there are, or among those of `component`."""
        self._filter = EventFilter(components=frozenset(() if component is None else (component,)))
        self._only_marks = False
        self._wanted_at = moment
        self._read()

    # values in

    def _read(self) -> None:
        """Take in what was appended; once more, where more came meanwhile."""
        self._is_behind = True
        if self.is_open and (self._reader is None or self._reader.is_finished):
            self._reader = in_background(self, self._follow, group="journal", exclusive=False)

    async def _follow(self) -> None:
        while self._is_behind:
            self._is_behind = False
            try:
                async with waiting(self.app, "Reading the events"):
                    entries = await self.experiment.journal()
            except RltuiError as error:
                self._problem = clean_line(error.title)
            else:
                self._problem = ""
                await self._take(entries)
            self._show()

    async def _take(self, entries: tuple[JournalEntry, ...]) -> None:
        """Wrap what is new; all of it where the journal is another one. In a thread: it may be long."""
        old_count = len(self._entries)
        if old_count > len(entries) or (old_count and entries[old_count - 1] is not self._entries[-1]):
            old_count = 0
        new = await asyncio.to_thread(lambda: [EventItem.of(entry) for entry in entries[old_count:]])
        self._items = [*self._items[:old_count], *new]
        self._entries = entries

    def _show(self) -> None:
        items = [item for item in self._items if self._admits(item.entry)]
        self._item_count = len(items)
        self._list.show(items)
        if self._wanted_at is not None:
            self._list.go_to(self._wanted_at)
            self._wanted_at = None
        self._empty.set_class(not items, "-shown")
        nothing = "Nothing matches. esc shows all events again." if self._items else "Nothing happened yet."
        self._empty.update(Content.styled(nothing, FAINT))
        self._update_title()
        self.refresh_bindings()

    def _admits(self, entry: JournalEntry) -> bool:
        if self._only_marks and annotation_kind(entry.kind, entry.data) is None:
            return False
        return self._filter.admits(entry.at, entry.kind, entry.component, entry.text, entry.data)

    def _update_title(self) -> None:
        count = len(self._items)
        filters = [*self._filter.kinds, *self._filter.components, *(["marks"] if self._only_marks else [])]
        only = [f"only {clean_line(name)}" for name in filters]
        if self._filter.words:
            only.append(repr(clean_line(self._filter.words)))
        self._title.update(
            self.shared.heading(
                "Events",
                (f"{self._item_count} of {count}" if self._is_filtered else str(count), FAINT),
                *((filter_name, "bold") for filter_name in only),
                problem=self._problem,
            )
        )

    # what is shown

    @property
    def _is_filtered(self) -> bool:
        return self._only_marks or self._filter != EventFilter()

    def action_choose_kind(self) -> None:
        """The choices are kinds and components that occur in the journal."""
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
        self._show()

    def action_fold(self) -> None:
        self._list.fold(not self._list.is_folded)

    def action_search(self) -> None:
        self._search.add_class("-shown")
        self._search.focus()

    @on(Input.Changed, "#events-search")
    def _searched(self, event: Input.Changed) -> None:
        self._filter = replace(self._filter, words=event.value)
        self._show()

    @on(Input.Submitted, "#events-search")
    def _focus_list(self) -> None:
        self._list.focus()

    def action_back(self) -> None:
        """First the search ends, then the filter, then the screen."""
        if self._search.has_class("-shown"):
            self._search.value = ""
            self._search.remove_class("-shown")
            self._list.focus()
        elif self._is_filtered:
            self._filter, self._only_marks = EventFilter(), False
            self._show()
        else:
            self.action_show_overview()

    # keys

    @property
    def moved_list(self) -> EventList:
        return self._list

    @on(EventList.EntryMoved)
    def _look_at_entry(self) -> None:
        self.refresh_bindings()

    def action_jump(self) -> None:
        """The target is the component's log, or else the charts."""
        if (item := self._list.item) is not None:
            names = ["logs", "metrics"] if item.entry.component else ["metrics", "logs"]
            self._jump(next(name for name in names if name in SCREENS))

    def action_jump_to(self, name: str) -> None:
        self._jump(name)

    def _jump(self, name: str) -> None:
        if (item := self._list.item) is not None:
            self.show_screen(name, moment=item.entry.at, component=item.entry.component)

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "jump":
                return self._list.item is not None and bool({"logs", "metrics"} & SCREENS.keys())
            case "jump_to":
                return self._list.item is not None and str(arguments[0]) in SCREENS
            case "choose_kind" | "fold" | "search":
                return bool(self._items)
            case _:
                return super().enabled(command, *arguments)


def _times(count: int) -> str:
    return "1 event" if count == 1 else f"{count} events"
