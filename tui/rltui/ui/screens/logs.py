"""The log screen: all components merged by time, one log in full width, or what was found in all of them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.events import Resize

from rltui.base.text import count_text
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogEntry, LogScan, LogSource, MergedSource
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext, key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS, SEARCH_AIM, BaseScreen
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.key_bindings import bind, keys
from rltui.ui.logs.search_all import AllLogsSearch
from rltui.ui.logs.tabs import Combined, LogTabs, Tab, newest_logs
from rltui.ui.logs.view import LogView
from rltui.ui.state import AppState
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar, TitleLine

_LIST_INTERVAL_S = 2.0
_PROGRESS_INTERVAL_S = 0.2
_WAIT_INTERVAL_S = 0.05
"""A search for a moment in a log of another machine polls this often."""
_MAX_MERGED_LINES = 50_000
"""A moment is searched for in so many lines of all logs."""


class LogScreen(BaseScreen):
    CSS_PATH: ClassVar = ["logs.tcss"]
    BINDINGS = keys(
        KeyContext.LOGS, *EXPERIMENT_KEYS,
        bind(verbs.OPEN, "open_found", "Open the log at this line", footer=Footer.YES,
             palette=InPalette.NO),
        bind(verbs.COMPONENT_INFERENCE, "focus_role('inference')"),
        bind(verbs.COMPONENT_ORCHESTRATOR, "focus_role('orchestrator')"),
        bind(verbs.COMPONENT_TRAINER, "focus_role('trainer')"),
        bind(verbs.PANE_NEXT, "show_adjacent(1)", footer=Footer.YES),
        bind(verbs.PANE_PREVIOUS, "show_adjacent(-1)"),
        bind(verbs.ALL, "show_merged", "Show all components, merged by time", footer=Footer.YES),
        bind(verbs.BACK, "leave", footer=Footer.YES),
    )  # fmt: skip

    place = KeyContext.LOGS

    def __init__(self, app_state: AppState) -> None:
        super().__init__(app_state)
        self._title = TitleLine(id="logs-title")
        self._pane = LogView(id="logs-pane")
        self._tabs = LogTabs()
        self._source: LogSource | None = None
        self._merged: MergedSource | None = None
        self._goal: tuple[float, str | None] | None = None
        """Moment and component to go to, once it is open."""

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self._pane

    def on_mount(self) -> None:
        self._pane.focus()
        self.set_interval(_LIST_INTERVAL_S, self._refresh_list, name="look for logs")
        self.set_interval(_PROGRESS_INTERVAL_S, self._show_progress, name="progress")

    def on_screen_resume(self) -> None:
        in_background(self, self._list_logs, group="logs")

    def on_resize(self, event: Resize) -> None:
        self._update_title(event.size.width)

    def left(self) -> None:
        self._close()

    def on_unmount(self) -> None:
        self._close()

    def _close(self) -> None:
        self._pane.set_source(None, "")
        if self._source is not None:
            self._source.close()
        self._source = self._merged = None

    # which logs there are

    def _refresh_list(self) -> None:
        is_on_its_way = bool(self.aim) or self._goal is not None
        if self.is_open and self.is_current and self._tabs.shown != Combined.MATCHES and not is_on_its_way:
            in_background(self, self._list_logs, group="logs")

    async def _list_logs(self) -> None:
        try:
            logs = await asyncio.to_thread(self.experiment.logs)
        except RltuiError as error:
            self._pane.set_source(None, clean_line(error.title))
            return
        is_new = newest_logs(logs) != newest_logs(self._tabs.logs)
        self._tabs.logs = logs
        self._update_title(self.size.width)
        aim, goal = self.aim, self._goal  # kept until they are reached: another look may call this one off
        if aim == SEARCH_AIM:
            self.action_search_all()
        elif aim.startswith(SEARCH_AIM):
            self._search_all(aim.removeprefix(SEARCH_AIM))
        elif aim:
            await self._show(self._tabs.of_component(aim) or Combined.MERGED)
        self.aim = "" if self.aim == aim else self.aim
        if goal is not None:
            await self._to_moment(*goal)
            self._goal = None if self._goal is goal else self._goal
        elif self._source is None or (is_new and self._tabs.shown == Combined.MERGED):
            await self._show(self._tabs.shown)

    @property
    def place_aim(self) -> str:
        return log.component if isinstance(log := self._tabs.shown, LogEntry) else ""

    async def _open(self, tab: Tab) -> LogSource:
        if tab == Combined.MATCHES and self._tabs.search is not None:
            return self._tabs.search
        async with self.waiting("Opening the log"):
            if isinstance(tab, LogEntry):
                return await asyncio.to_thread(self.experiment.open_log, tab.path)
            merged = await asyncio.to_thread(self.experiment.open_merged, newest_logs(self._tabs.logs))
            self._merged = merged
            return merged

    async def _show(self, tab: Tab) -> None:
        if tab == Combined.MATCHES and self._tabs.search is None:
            tab = Combined.MERGED
        try:
            source = await self._open(tab)
        except RltuiError as error:
            await self.show_error(error)
            return
        finally:
            if self._tabs.next is tab:
                self._tabs.next = None
        previous, self._source, self._tabs.shown = self._source, source, tab
        if isinstance(tab, LogEntry):
            search = partial(self.experiment.search_log, tab.path, with_text=False)
            self._pane.log_path, self._pane.log_name = tab.path, tab.name
            self._pane.set_source(source, "No output yet.", search=search)
        else:
            self._pane.log_path, self._pane.log_name = None, self.experiment.name
            placeholder = "No output yet." if tab == Combined.MERGED else "Searching…"
            self._pane.set_source(source, placeholder)
            self._pane.model.has_cursor = tab == Combined.MATCHES
            if tab == Combined.MATCHES and self._tabs.search is not None:
                self._pane.mark_matches(self._tabs.search.query)
        if previous is not None and previous is not source:
            previous.close()
        self._update_title(self.size.width)
        self.refresh_bindings()

    def _update_title(self, width: int) -> None:
        self._title.update(self._tabs.line(self.state.heading(), width))

    # from one to another

    def action_show_merged(self) -> None:
        self._go(Combined.MERGED)

    def action_show_adjacent(self, step: int) -> None:
        self._go(self._tabs.adjacent(step))

    def action_focus_role(self, role: str) -> None:
        if (log := self._tabs.of_role(role)) is not None:
            self._go(log)

    def _go(self, tab: Tab) -> None:
        self._tabs.next = tab
        in_background(self, partial(self._show, tab), group="show")

    @on(LogView.AttemptRequested)
    def _show_attempt(self, message: LogView.AttemptRequested) -> None:
        message.stop()
        tab = self._tabs.goal
        if not isinstance(tab, LogEntry) or tab.attempt is None:
            self.notify(f"Choose a component's log first: {key_of('pane.next')}", markup=False)
        elif (log := self._tabs.adjacent_attempt(tab, message.step)) is not None:
            self._go(log)
        else:
            direction = "earlier" if message.step < 0 else "later"
            self.notify(f"{clean_line(tab.component)} has no {direction} attempt", markup=False)

    def go_to(self, moment: float, component: str | None) -> None:
        self._goal = (moment, component)
        if self.is_open and self.is_current:
            in_background(self, self._list_logs, group="logs")

    def show_step(self, step: int) -> None:
        tab = self._tabs.goal
        self.show_moment_of_step(step, tab.component if isinstance(tab, LogEntry) else None)

    async def _to_moment(self, moment: float, component: str | None) -> None:
        if (log := self._tabs.at_moment(component, moment)) is not None:
            async with self.waiting("Looking for this moment in the log"):
                offset = await asyncio.to_thread(self.experiment.log_offset_at, log, moment)
            await self._show(log)
            if offset is not None:
                self._pane.go_to_offset(offset)
            return
        await self._show(Combined.MERGED)
        if (merged := self._merged) is not None:
            self._pane.go_to_offset(await _merged_line_at(merged, moment, self._pane))

    # search in all of them

    @on(LogView.SearchRequested)
    def _prompt_search(self, message: LogView.SearchRequested) -> None:
        message.stop()
        self.action_search_all()

    def action_search_all(self) -> None:
        search, tab = self._tabs.search, self._tabs.goal
        text = "" if search is None else search.query.text

        def show(text: str) -> None:
            if text:
                self._search_all(text)
            else:
                self._end_search(tab)

        self.app.push_screen(
            SearchLine(
                text,
                "text or regular expression, in all logs and attempts",
                show=show,
                status=self._match_count,
                move=partial(self._pane.action_command, "model.move_rows"),
                go_back=lambda: self._go(tab),
            )
        )

    def _match_count(self) -> str:
        if (search := self._tabs.search) is None:
            return ""
        return f"{count_text(len(search.matches), 'line')}{'' if search.is_over else ' …'}"

    def _end_search(self, tab: Tab) -> None:
        """Show `tab` again, or all merged where it was of the search."""
        if self._tabs.search is not None:
            self._tabs.search.close()
        self._tabs.search = None
        self._go(Combined.MERGED if tab == Combined.MATCHES else tab)

    def _search_all(self, text: str) -> None:
        try:
            query = Query.from_text(text)
        except RltuiError as error:
            self.notify(error.title, severity="error", markup=False)
            return
        if self._tabs.search is not None:
            self._tabs.search.close()
        search = self._tabs.search = AllLogsSearch(query, self._tabs.logs, self._open_search)
        self.run_worker(search.run, group="search", thread=True)
        self._go(Combined.MATCHES)

    def _open_search(self, path: str, query: Query) -> LogScan:
        return self.experiment.search_log(path, query, None, 0)

    def _show_progress(self) -> None:
        if (search := self._tabs.shown_search) is not None and self.is_open:
            if search.stop != len(search.matches):
                self._pane.poll()
            self._update_title(self.size.width)
            if search.is_over and not search.matches:
                self._pane.set_source(search, "No match in any log.")

    def action_open_found(self) -> None:
        number = self._pane.model.chosen_offset()
        if (search := self._tabs.shown_search) is not None and number is not None:
            match = search.matches[number]
            in_background(self, partial(self._open_at, match.log, match.offset), group="show")

    async def _open_at(self, log: LogEntry, offset: int) -> None:
        await self._show(log)
        self._pane.go_to_offset(offset)

    def action_leave(self) -> None:
        if (search := self._tabs.shown_search) is not None and not search.is_over:
            search.close()
        elif self._tabs.search is not None and isinstance(self._tabs.shown, LogEntry):
            self._go(Combined.MATCHES)
        else:
            self.action_show_overview()

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "open_found":
                return self._tabs.shown == Combined.MATCHES
            case "focus_role":
                return self._tabs.of_role(str(arguments[0])) is not None
            case _:
                return super().enabled(command, *arguments)


async def _merged_line_at(merged: MergedSource, moment: float, pane: LogView) -> int:
    """The line of a moment in `merged`, which `pane` shows; as far back as it goes in reasonable time."""
    while (number := merged.number_near(moment)) is None:
        if merged.stop - merged.start >= _MAX_MERGED_LINES:
            break
        if merged.is_waiting:
            await asyncio.sleep(_WAIT_INTERVAL_S)
            pane.poll()
        elif not merged.load_older():
            break
        else:
            await asyncio.sleep(0)
    return merged.start if number is None else number
