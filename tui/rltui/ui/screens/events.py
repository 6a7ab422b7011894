"""The events screen: the journal by time, and from each entry to the log or chart of that moment."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from rltui.core.experiment.events import first_line
from rltui.ui import verbs
from rltui.ui.actions import Footer, KeyContext, key_of
from rltui.ui.base_screen import EXPERIMENT_KEYS
from rltui.ui.copying import CopyRequested
from rltui.ui.dialogs.base import ChoiceMenu
from rltui.ui.event_listing import EventListing
from rltui.ui.key_bindings import bind, keys
from rltui.ui.screens import SCREENS
from rltui.ui.screens.resource_screen import ResourceScreen
from rltui.ui.state import AppState
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.event_list import EventItem, EventRows
from rltui.ui.widgets.row_list import Row, list_keys, note_row


class EventScreen(ResourceScreen):
    place = KeyContext.EVENTS

    BINDINGS = keys(
        KeyContext.EVENTS, *EXPERIMENT_KEYS, *list_keys("moved_list."),
        bind(verbs.OPEN, "jump", "Open the log or the charts at this event", label="go there",
             footer=Footer.YES),
        bind(verbs.COMPONENT_FULL_LOG, "jump_to('logs')", "Open the log at this event", footer=Footer.YES),
        bind(verbs.FILTER, "choose_kind", "Filter by kind or component",
             footer=Footer.YES),
        bind(verbs.SEARCH, "search", "Search, also in the diffs of edits", footer=Footer.YES),
        bind(verbs.GROUP, "fold", "Fold diffs and stack traces, or show them", footer=Footer.FIRST_TO_GO),
        bind(verbs.CHARTS, "jump_to('metrics')", "Show the charts at this event", footer=Footer.YES),
        bind(verbs.COPY),
        bind(verbs.NOTE, "commands.note", "Add a note to the events and the charts", footer=Footer.YES),
        bind(verbs.BACK, footer=Footer.YES),
    )  # fmt: skip

    part = "events"
    reading = "Reading the events"
    search_labels = ("words from events or diffs", "event")

    def __init__(self, app_state: AppState) -> None:
        super().__init__(app_state)
        self.state.watch("journal", self.hurry.set)
        self._listing = EventListing()
        self._is_folded = False
        self._sought_time: float | None = None
        """A moment to go to, once the journal is read."""
        self.notes.display = False

    def go_to(self, moment: float, component: str | None) -> None:
        """The entry nearest to that moment, among all that there are, or among those of `component`."""
        self._listing.show_all(component)
        self._sought_time = moment
        self.hurry.set()

    def show_step(self, step: int) -> None:
        self.show_moment_of_step(step)

    # values in

    async def ask(self) -> None:
        await asyncio.to_thread(self._listing.take, await self.experiment.journal())
        self.problem = ""
        self.rows.key = self._listing.relist(self.rows.key, self._sought_time)
        self._sought_time = None

    def update_title(self) -> None:
        listing, count = self._listing, len(self._listing.items)
        text = f"{len(listing.listed)} of {count}" if len(listing.listed) < count else str(count)
        only = [(filter_text, "bold" if listing.is_filtered else FAINT) for filter_text in listing.only]
        self.title_line.update(self.state.heading("Events", (text, FAINT), *only, problem=self.problem))

    def make_rows(self, width: int, selected: str | None) -> tuple[Row, ...] | EventRows:
        if not self._listing.listed:
            return (note_row(self._nothing_text(), width),)
        return EventRows(self._listing.listed, width, selected, self.state.clock(), is_folded=self._is_folded)

    def _nothing_text(self) -> str:
        if not self._listing.items:
            return f"No events yet. {key_of('note')} adds a note."
        if self._listing.is_filtered:
            return "No match. esc ends the filter."
        return f"Only checkpoints so far: {key_of('filter')} lists them."

    # what is shown

    def action_choose_kind(self) -> None:
        def take(choice: str | None) -> None:
            if choice is not None:
                self._listing.choose(choice)
                self._list_again()

        self.app.push_screen(ChoiceMenu("Filter events", self._listing.choices), take)

    def _list_again(self) -> None:
        self.rows.key = self._listing.relist(self.rows.key)
        self.show()

    def action_fold(self) -> None:
        self._is_folded = not self._is_folded
        self.rows.reload()

    @property
    def search_text(self) -> str:
        return self._listing.filter.words

    def search_for(self, text: str) -> None:
        self._listing.filter = replace(self._listing.filter, words=text)
        self._list_again()

    def action_back(self) -> None:
        if self.end_search():
            return
        if self._listing.is_filtered:
            self._listing.show_usual()
            self._list_again()
        else:
            self.action_show_overview()

    # keys

    @property
    def selected(self) -> EventItem | None:
        return self._listing.item(self.rows.key)

    def copied(self) -> CopyRequested | None:
        if (item := self.selected) is None:
            return None
        text = clean_line(first_line(item.entry.text))
        return CopyRequested("\n".join([text, *(line.plain for line in item.below)]), f"the {item.kind}")

    def action_jump(self) -> None:
        if (item := self.selected) is not None:
            names = ["logs", "metrics"] if item.entry.component else ["metrics", "logs"]
            self.action_jump_to(next(name for name in names if name in SCREENS))

    def action_jump_to(self, name: str) -> None:
        if (item := self.selected) is not None:
            self.show_screen(name, moment=item.entry.at, component=item.entry.component)

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "jump":
                return self.selected is not None and bool({"logs", "metrics"} & SCREENS.keys())
            case "jump_to":
                return self.selected is not None and str(arguments[0]) in SCREENS
            case "choose_kind" | "fold":
                return bool(self._listing.items)
            case _:
                return super().enabled(command, *arguments)
