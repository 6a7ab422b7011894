"""The log screen: all components merged by time, one log in full width, or what was found in all of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from rltui.core.lines import LogChange, LogEntry, LogSearching, LogSource, MergedSource
from rltui.core.log_query import Query
from rltui.core.text import truncate
from rltui.errors import RltuiError
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext, key_of
from rltui.ui.background import in_background
from rltui.ui.base_screen import EXPERIMENT_KEYS, SEARCH_AIM, BaseScreen
from rltui.ui.key_bindings import bind, keys
from rltui.ui.logs.view import LogView
from rltui.ui.messages import waiting
from rltui.ui.screens.dialogs import SearchPrompt
from rltui.ui.shared import AppState
from rltui.ui.text import clean_line
from rltui.ui.widgets.bars import KeyBar

_LOOK_INTERVAL_S = 2.0
_PROGRESS_INTERVAL_S = 0.2
_WAIT_INTERVAL_S = 0.05
"""Between two looks for a place in a log that is on another machine."""
_MOST_FOUND = 50_000
_MERGED, _FOUND = "all merged", "found"


@dataclass
class FoundLines:
    """Lines of several logs that match, as a log of their own."""

    query: Query
    width: int
    """Of the longest name of a log."""
    lines: list[tuple[LogEntry, int, str]] = field(default_factory=list)
    """Log, offset and text of each."""
    told: int = 0
    start: int = 0
    problem: str | None = None
    is_waiting: bool = False
    searching: LogSearching | None = None
    is_done: bool = False

    @property
    def stop(self) -> int:
        return self.told

    def line(self, number: int) -> str:
        return self.lines[number][2]

    def label(self, number: int) -> str:
        return f"{self.lines[number][0].name:<{self.width}} "

    def offset(self, number: int) -> int:
        return number

    def number_at(self, offset: int) -> int | None:
        return offset if 0 <= offset < self.told else None

    def line_at(self, offset: int) -> str:
        return self.line(offset)

    def poll(self, *, may_skip: bool) -> LogChange:
        del may_skip
        before, self.told = self.told, len(self.lines)
        return LogChange.GREW if self.told > before else LogChange.NONE

    def load_older(self) -> bool:
        return False

    def close(self) -> None:
        """End what still searches."""
        self.is_done = True
        if self.searching is not None:
            self.searching.cancel()


def newest_logs(logs: tuple[LogEntry, ...]) -> tuple[LogEntry, ...]:
    """The newest attempt of each component, and the files of the layout."""
    return tuple({log.component: log for log in logs}.values())


class LogScreen(BaseScreen):
    """Lies on the overview. Made once: it stays when it is left, and gives its files back."""

    CSS_PATH: ClassVar = ["logs.tcss"]
    BINDINGS = keys(
        KeyContext.LOGS, *EXPERIMENT_KEYS,
        bind(verbs.OPEN, "open_found", help="Open the log where the line was found", footer=Footer.YES,
             palette=InPalette.NO),
        bind(verbs.COMPONENT_INFERENCE, "focus_component('inference')"),
        bind(verbs.COMPONENT_ORCHESTRATOR, "focus_component('orchestrator')"),
        bind(verbs.COMPONENT_TRAINER, "focus_component('trainer')"),
        bind(verbs.PANE_NEXT, "show_beside(1)", "next log", "The next component's log", footer=Footer.YES),
        bind(verbs.PANE_PREVIOUS, "show_beside(-1)", "log before", "The log of the component before"),
        bind(verbs.ALL, "show_merged", "merged", "All components in one, by time", footer=Footer.YES),
        bind(verbs.BACK, "leave", help="End the search, back to what was found, or to the overview",
             footer=Footer.YES),
    )  # fmt: skip

    place = KeyContext.LOGS

    def __init__(self, home: AppState) -> None:
        super().__init__(home)
        self._title = Static(id="logs-title", markup=False)
        self._pane = LogView(id="logs-pane")
        self._logs: tuple[LogEntry, ...] = ()
        self._source: LogSource | None = None
        self._shown: LogEntry | str = _MERGED
        self._going: LogEntry | str | None = None
        """To be shown as soon as it is open: further keys go on from there."""
        self._found: FoundLines | None = None
        self._merged: MergedSource | None = None
        self._goal: tuple[float, str | None] | None = None
        """Moment and component to go to, once it is open."""

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        yield self._pane

    def on_mount(self) -> None:
        self._pane.focus()
        self.set_interval(_LOOK_INTERVAL_S, self._look_again, name="look for logs")
        self.set_interval(_PROGRESS_INTERVAL_S, self._show_progress, name="progress")

    def on_screen_resume(self) -> None:
        in_background(self, self._look, group="logs")

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

    def _look_again(self) -> None:
        if self.is_open and self.is_current and self._shown != _FOUND:
            in_background(self, self._look, group="logs")

    async def _look(self) -> None:
        try:
            logs = await asyncio.to_thread(self.experiment.logs)
        except RltuiError as error:
            self._pane.set_source(None, clean_line(error.title))
            return
        is_new = newest_logs(logs) != newest_logs(self._logs)
        self._logs = logs
        self._update_title(self.size.width)
        aim, self.aim = self.aim, ""
        if aim == SEARCH_AIM:
            self.action_search_all()
        elif aim.startswith(SEARCH_AIM):
            self._search_all(aim.removeprefix(SEARCH_AIM))
        elif aim:
            await self._show(next((log for log in newest_logs(logs) if log.component == aim), _MERGED))
        if self._goal is not None:
            (at, component), self._goal = self._goal, None
            await self._to_moment(at, component)
        elif self._source is None or (is_new and self._shown == _MERGED):
            await self._show(self._shown)

    async def _opened(self, shown: LogEntry | str) -> LogSource:
        if shown == _FOUND and self._found is not None:
            return self._found
        async with waiting(self.app, "Opening the log"):
            if isinstance(shown, LogEntry):
                return await asyncio.to_thread(self.experiment.open_log, shown.path)
            merged = await asyncio.to_thread(self.experiment.open_merged, newest_logs(self._logs))
            self._merged = merged
            return merged

    async def _show(self, shown: LogEntry | str) -> None:
        """A log, all of them, or what was found in them."""
        if shown == _FOUND and self._found is None:
            shown = _MERGED
        try:
            source = await self._opened(shown)
        except RltuiError as error:
            await self.show_error(error)
            return
        finally:
            if self._going is shown:
                self._going = None
        before, self._source, self._shown = self._source, source, shown
        if isinstance(shown, LogEntry):
            search = partial(self.experiment.search_log, shown.path, with_text=False)
            self._pane.log_path, self._pane.log_name = shown.path, shown.name
            self._pane.set_source(source, "Nothing printed yet.", search=search)
        else:
            self._pane.log_path, self._pane.log_name = None, self.experiment.name
            self._pane.set_source(source, "No log has a line yet." if shown == _MERGED else "Searching…")
            self._pane.model.has_cursor = shown == _FOUND
            if shown == _FOUND and self._found is not None:
                self._pane.mark_matches(self._found.query)
        if before is not None and before is not source:
            before.close()
        self._update_title(self.size.width)
        self.refresh_bindings()

    def _update_title(self, width: int) -> None:
        names = [_MERGED, *(log.component for log in newest_logs(self._logs))]
        if self._found is not None:
            names.insert(1, _FOUND)
        shown = self._shown.component if isinstance(self._shown, LogEntry) else self._shown
        heading = self.shared.heading()
        tail = f" · {self._words()}" if self._words() else ""
        if sum(len(name) + 3 for name in names) > width - heading.cell_length - len(tail) - 4:
            names = [shown]
        parts: list[tuple[str, str]] = []
        for name in names:
            style = "bold reverse" if name == shown else "$foreground 60%"
            parts += [("  ", ""), (f" {clean_line(name)} ", style)]
        self._title.update(Content.assemble(heading, *parts, (tail, "$foreground 60%")))

    def _words(self) -> str:
        if isinstance(self._shown, LogEntry) and self._shown.attempt is not None:
            count = sum(log.component == self._shown.component for log in self._logs)
            return f"attempt {self._shown.attempt} of {count}" if count > 1 else ""
        if self._shown == _FOUND and self._found is not None:
            count, query = len(self._found.lines), truncate(clean_line(self._found.query.text), 30)
            more = "+" if count >= _MOST_FOUND else ""
            state = "enter opens the log there" if self._found.is_done else "searching, esc ends it"
            return f"“{query}” {count:,}{more} · {state}"
        return ""

    # from one to another

    def action_show_merged(self) -> None:
        self._go(_MERGED)

    def action_show_beside(self, step: int) -> None:
        newest = newest_logs(self._logs)
        names: list[LogEntry | str] = [_MERGED, *([_FOUND] if self._found is not None else []), *newest]
        known = [name.component if isinstance(name, LogEntry) else name for name in names]
        here = self._going or self._shown
        name = here.component if isinstance(here, LogEntry) else here
        at = known.index(name) if name in known else 0
        self._go(names[(at + step) % len(names)])

    def action_focus_component(self, component_id: str) -> None:
        for log in newest_logs(self._logs):
            if log.component == component_id:
                self._go(log)

    def _go(self, shown: LogEntry | str) -> None:
        self._going = shown
        in_background(self, partial(self._show, shown), group="show")

    @on(LogView.AttemptRequested)
    def _show_attempt(self, wanted: LogView.AttemptRequested) -> None:
        wanted.stop()
        here = self._going or self._shown
        if not isinstance(here, LogEntry) or here.attempt is None:
            self.notify(f"Choose a component's log first: {key_of('pane.next')}", markup=False)
            return
        own = [log for log in self._logs if log.component == here.component]
        at = own.index(here) + wanted.step if here in own else -1
        if 0 <= at < len(own):
            self._go(own[at])
        else:
            which = "earlier" if wanted.step < 0 else "later"
            self.notify(f"{clean_line(here.component)} has no {which} attempt", markup=False)

    def go_to(self, at: float, component: str | None) -> None:
        """Show the lines of the moment `at`, of `component` or of all."""
        self._goal = (at, component)
        if self.is_open and self.is_current:
            in_background(self, self._look, group="logs")

    async def _to_moment(self, at: float, component: str | None) -> None:
        own = [log for log in self._logs if log.component == component]
        if own:
            log = next((log for log in reversed(own) if log.started_at <= at), own[0])
            async with waiting(self.app, "Looking for that moment in the log"):
                offset = await asyncio.to_thread(self.experiment.log_offset_at, log, at)
            await self._show(log)
            if offset is not None:
                self._pane.go_to_offset(offset)
            return
        await self._show(_MERGED)
        if (merged := self._merged) is not None:
            self._pane.go_to_offset(await self._merged_to(merged, at))

    async def _merged_to(self, merged: MergedSource, at: float) -> int:
        """The line of a moment; as far back as it goes in reasonable time."""
        while (number := merged.number_near(at)) is None and merged.stop - merged.start < _MOST_FOUND:
            if merged.is_waiting:
                await asyncio.sleep(_WAIT_INTERVAL_S)
                self._pane.poll()
            elif not merged.load_older():
                break
            else:
                await asyncio.sleep(0)
        return merged.start if number is None else number

    # search in all of them

    @on(LogView.SearchRequested)
    def _ask_what_for(self, wanted: LogView.SearchRequested) -> None:
        wanted.stop()
        self.action_search_all()

    def action_search_all(self) -> None:
        known = self._found.query.text if self._found is not None else ""
        self.app.push_screen(SearchPrompt(known, where="all components and attempts"), self._search_all)

    def _search_all(self, text: str | None) -> None:
        if not text:
            return
        try:
            query = Query.from_text(text)
        except RltuiError as error:
            self.notify(error.title, severity="error", markup=False)
            return
        if self._found is not None:
            self._found.close()
        width = max((len(log.name) for log in self._logs), default=0)
        found = self._found = FoundLines(query, width)
        self.run_worker(partial(self._search, found, self._logs), group="search", thread=True)
        self._go(_FOUND)

    def _search(self, found: FoundLines, logs: tuple[LogEntry, ...]) -> None:
        """In a thread."""
        for log in logs:
            found.searching = self.experiment.search_log(log.path, found.query, None, 0)
            try:
                for hits in found.searching.batches():
                    found.lines.extend((log, hit.offset, hit.text) for hit in hits)
                    if found.is_done or len(found.lines) >= _MOST_FOUND:
                        found.searching.cancel()
            except RltuiError:
                continue  # it was removed meanwhile
            if found.is_done or len(found.lines) >= _MOST_FOUND:
                break
        found.is_done = True

    def _show_progress(self) -> None:
        if self._shown == _FOUND and self._found is not None and self.is_open:
            if self._found.told != len(self._found.lines):
                self._pane.poll()
            self._update_title(self.size.width)
            if self._found.is_done and not self._found.lines:
                self._pane.set_source(self._found, "Found nowhere.")

    def action_open_found(self) -> None:
        """The log that the line is from, at that line."""
        number = self._pane.model.chosen_offset()
        if self._shown == _FOUND and self._found is not None and number is not None:
            log, offset, _ = self._found.lines[number]
            in_background(self, partial(self._open_at, log, offset), group="show")

    async def _open_at(self, log: LogEntry, offset: int) -> None:
        await self._show(log)
        self._pane.go_to_offset(offset)

    def action_leave(self) -> None:
        """End the search; from a log opened from there, back to what was found; else the overview."""
        if self._shown == _FOUND and self._found is not None and not self._found.is_done:
            self._found.close()
        elif self._found is not None and isinstance(self._shown, LogEntry):
            self._go(_FOUND)
        else:
            self.action_show_overview()

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "open_found":
                return self._shown == _FOUND
            case "focus_component":
                return any(log.component == arguments[0] for log in self._logs)
            case _:
                return super().enabled(command, *arguments)
