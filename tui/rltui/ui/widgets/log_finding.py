"""Searching in a log pane: matches to go to, or they alone; levels and errors. A thread reads the file."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, runtime_checkable

from textual import on
from textual.message import Message
from textual.timer import Timer

from rltui.core.lines import Level, LogChange, LogSearching, LogSource
from rltui.core.log_query import Query
from rltui.core.text import shortened
from rltui.errors import RltuiError
from rltui.ui.screens.dialogs import SearchPrompt
from rltui.ui.text import clean_line
from rltui.ui.widgets.log_scroll import PaintedLog, ScrolledLog

OpenSearch = Callable[[Query | None, Level | None, int], LogSearching]
"""From what is looked for, and the byte to begin at, to a search that a thread goes through."""
_PROGRESS_INTERVAL_S = 0.1
_MOST_KEPT = 1_000_000
"""Matches whose places are kept."""
_LEVELS: tuple[Level | None, ...] = (None, Level.WARNING, Level.ERROR)
_TEXT_WIDTH = 24


@dataclass
class LogMatches:
    """What was found so far of one thing that is looked for."""

    query: Query | None
    level: Level | None
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    """Where the lines begin, ascending."""
    searching: LogSearching | None = None
    next_start: int = 0
    """Where the next one is to begin: before it all lines are decided."""
    is_first: bool = True
    """Nothing was shown of it yet."""
    problem: str = ""

    @property
    def is_full(self) -> bool:
        """No more places are kept."""
        return len(self.offsets) >= _MOST_KEPT

    @property
    def words(self) -> str:
        parts = [] if self.query is None else [f"“{shortened(clean_line(self.query.text), _TEXT_WIDTH)}”"]
        if self.level is not None:
            parts.append("errors" if self.level is Level.ERROR else f"{self.level}s")
        return " in ".join(parts)

    @property
    def is_of_errors(self) -> bool:
        """No words were looked for."""
        return self.query is None and self.level is Level.ERROR

    def told(self, here: int | None, *, picked: bool) -> str:
        """How far it is, and which one was gone to; `picked`: they are shown alone."""
        count = len(self.offsets)
        if self.problem:
            return f"⚠ {self.problem}"
        if (searching := self.searching) is not None and self.is_first:
            percent = f"{100 * searching.progress:.0f} %"
            return f"searching {self.words}: {percent}, {count:,} found, esc ends it"
        if not count:
            return f"no {self.words}" if self.query is None else f"{self.words} is not in it"
        more = "+" if self.is_full else ""
        if picked:
            return f"only {self.words}: {count:,}{more}"
        at = bisect_left(self.offsets, here) if here is not None else -1
        if 0 <= at < count and self.offsets[at] == here:
            return f"{self.words} {at + 1:,} of {count:,}{more}"
        return f"{self.words}: {count:,}{more}"


class PickedLines:
    """The lines of a log that were found, as a log of their own."""

    def __init__(self, whole: LogSource, finding: LogMatches) -> None:
        self._whole = whole
        self._finding = finding
        self._told = len(finding.offsets)
        self.start = 0

    @property
    def stop(self) -> int:
        return self._told

    @property
    def problem(self) -> str | None:
        return self._whole.problem or self._finding.problem or None

    @property
    def is_waiting(self) -> bool:
        return self._whole.is_waiting

    def line(self, number: int) -> str:
        offsets = self._finding.offsets
        return self._whole.line_at(offsets[number]) if 0 <= number < len(offsets) else ""

    def offset(self, number: int) -> int:
        return self._finding.offsets[number]

    def number_at(self, offset: int) -> int | None:
        return max(0, bisect_right(self._finding.offsets, offset) - 1) if self._finding.offsets else None

    def line_at(self, offset: int) -> str:
        return self._whole.line_at(offset)

    def label(self, number: int) -> str:
        del number
        return ""

    def poll(self, *, may_skip: bool) -> LogChange:
        is_filled = self._whole.poll(may_skip=may_skip) is LogChange.FILLED
        before, self._told = self._told, len(self._finding.offsets)
        if self._told < before:
            return LogChange.RESET
        if is_filled:
            return LogChange.FILLED
        return LogChange.GREW if self._told > before else LogChange.NONE

    def load_older(self) -> bool:
        return False

    def close(self) -> None:
        """The whole log is its owner's."""


@runtime_checkable
class ManyLogs(Protocol):
    """A screen of several logs."""

    def log_of_errors(self, log: SearchedLog, /) -> SearchedLog:
        """The one in which to look for errors first, asked for in `log`."""


class SearchedLog(ScrolledLog):
    """Finds lines in the whole log, marks what it finds, and shows it alone where that is wanted."""

    @dataclass
    class Searched(Message):
        """A thread has gone through the log."""

        finding: LogMatches
        before: int
        """How many were known when it began."""

    @dataclass
    class NoErrors(Message):
        """A log was looked through for errors in vain, or is not there."""

        pane: SearchedLog

    class SearchWanted(Message):
        """A person wants to search what is no single file, or not there yet."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._open_search: OpenSearch | None = None
        self._whole: LogSource | None = None
        self._finding: LogMatches | None = None
        self._only = False
        self._level: Level | None = None
        self._here: int | None = None
        """Offset of the line that was gone to."""
        self._progress_timer: Timer | None = None

    def set_source(
        self,
        source: LogSource | None,
        placeholder: str = "no output yet",
        *,
        search: OpenSearch | None = None,
    ) -> None:
        """Show another log from its end. Without `search` it is not searched here."""
        if source is not self._whole:
            self.forget_lines()
        if source is not self._whole or source is None:
            self._forget_finding()
            self._whole = source
            self._only, self._level, self._here = False, None, None
            self._open_search = search
            super().set_source(source, placeholder)
        elif self._source is self._whole:
            super().set_source(source, placeholder)

    def forget_lines(self) -> None:
        """Another log is to be shown: what was noted of the lines of this one has no meaning there."""

    def mark_matches(self, query: Query) -> None:
        """Set off what it finds in the lines that are shown, which were found elsewhere."""
        self._query = query
        self._lay_out()
        self.refresh()

    # what is looked for

    def action_search(self) -> None:
        if self._open_search is None:
            self.post_message(self.SearchWanted())
        else:
            self.ask_what_for()

    def ask_what_for(self) -> None:
        """Also before there is a log: what is typed behind the key is no key."""
        known = self._query.text if self._query is not None else ""
        self.app.push_screen(SearchPrompt(known), self._search_for)

    def _search_for(self, text: str | None) -> None:
        if text is None:
            return
        if self._open_search is None:
            self.notify("There is no log to search yet", markup=False)
            return
        try:
            query = Query.typed(text) if text else None
        except RltuiError as error:
            self.notify(error.title, severity="error", markup=False)
            return
        if query is None:
            self._only = False
        self._look_for(query, self._level)

    def action_toggle_only(self) -> None:
        if self._query is None:
            self.action_search()
            self._only = True
            return
        self._only = not self._only
        self._show_picked()

    def action_cycle_level(self) -> None:
        if self._open_search is None:
            return
        self._level = _LEVELS[(_LEVELS.index(self._level) + 1) % len(_LEVELS)]
        self._look_for(self._query, self._level)

    def action_errors(self) -> None:
        """Go to the newest error; what is found next and before are errors from then on. Where others are
        beside this log, it may be in one of them.
        """
        finding = self._finding
        log = self.screen.log_of_errors(self) if isinstance(self.screen, ManyLogs) else self
        if log is self and finding is not None and finding.offsets and finding.is_of_errors:
            self.action_next_match(-1)
        else:
            log.find_errors()

    def find_errors(self) -> None:
        """In this log, or a `NoErrors`."""
        if self._open_search is None:
            self.post_message(self.NoErrors(self))
            return
        self._only, self._level = False, None
        self._look_for(None, Level.ERROR)

    def _look_for(self, query: Query | None, level: Level | None) -> None:
        """From the start of the log, in a thread."""
        self._forget_finding()
        self._query = query
        if query is None and level is None:
            self._show_picked()
            return
        finding = self._finding = LogMatches(query, level)
        self._go_through(finding, 0)
        self._show_picked()

    def _go_through(self, finding: LogMatches, start: int) -> None:
        whole = self._whole
        if self._open_search is None or whole is None:
            return
        finding.problem = ""
        finding.next_start = whole.offset(whole.stop - 1) if whole.stop > whole.start else 0
        while finding.offsets and finding.offsets[-1] >= start:
            finding.offsets.pop()
        try:
            finding.searching = self._open_search(finding.query, finding.level, start)
        except RltuiError as error:
            finding.problem = clean_line(error.title)
            return
        work = partial(self._search, finding, finding.searching, start, len(finding.offsets))
        self.run_worker(work, name="search log", group="search", thread=True)
        if self._progress_timer is None:
            self._progress_timer = self.set_interval(_PROGRESS_INTERVAL_S, self._show_progress)

    def _search(self, finding: LogMatches, searching: LogSearching, start: int, before: int) -> None:
        """In a thread."""
        try:
            for hits in searching.batches():
                finding.offsets.extend(hit.offset for hit in hits)
                if finding.is_full:
                    searching.cancel()
        except RltuiError as error:
            finding.problem, finding.next_start = clean_line(error.title), start
        finally:
            finding.searching = None
            with suppress(RuntimeError):  # the app is gone
                self.post_message(self.Searched(finding, before))

    @on(Searched)
    def _show_found(self, message: Searched) -> None:
        message.stop()
        finding = message.finding
        if finding is not self._finding:
            return
        if self._progress_timer is not None:
            self._progress_timer.stop()
            self._progress_timer = None
        is_first, finding.is_first = finding.is_first, False
        if is_first and finding.is_of_errors and not finding.offsets:
            self.post_message(self.NoErrors(self))
        if is_first and not self._is_picked and finding.offsets:
            # From the end the newest; from elsewhere the next one below.
            at = bisect_left(finding.offsets, self._place_before())
            if self.follow or finding.level is Level.ERROR or at == len(finding.offsets):
                at = len(finding.offsets) - 1
            self.go_to_offset(finding.offsets[at])
        elif self._source is not None and self._is_picked:
            self.poll()
        self._lay_out()
        self.refresh_bindings()

    def _forget_finding(self) -> None:
        if self._finding is not None and (searching := self._finding.searching) is not None:
            searching.cancel()
        self._finding = self._query = self._here = None
        if self._progress_timer is not None:
            self._progress_timer.stop()
            self._progress_timer = None

    # what is shown of it

    @property
    def _is_picked(self) -> bool:
        return self._finding is not None and (self._only or self._level is not None)

    def _show_picked(self) -> None:
        """The lines that were found alone, or all; stays where it was."""
        whole = self._whole
        if whole is None:
            return
        follows, place = self.follow, self._here
        if place is None and self._rows and self._source is not None:
            place = self._source.offset(self._rows[0].line)
        finding = self._finding
        source = PickedLines(whole, finding) if self._is_picked and finding is not None else whole
        if source is not self._source:
            PaintedLog.set_source(self, source, self._placeholder)
            if not follows and place is not None:
                self.show_offset(place)
        self._lay_out()
        self.refresh()

    def action_next_match(self, step: int) -> None:
        finding = self._finding
        if finding is None or not finding.offsets or self._source is None:
            return
        offsets = finding.offsets
        if step > 0:
            at = bisect_right(offsets, self._place_before()) % len(offsets)
        else:
            at = bisect_left(offsets, self._place_behind()) - 1
        self.go_to_offset(offsets[at])

    def go_to_offset(self, offset: int) -> None:
        """Show the line that begins there, set off from the others."""
        self._here = offset
        self.show_offset(offset)
        self.refresh()

    def _is_in_view(self, offset: int) -> bool:
        number = self._source.number_at(offset) if self._source is not None else None
        return number is not None and bool(self._rows) and self._rows[0].line <= number <= self._rows[-1].line

    def _place_before(self) -> int:
        """The line gone to, else the one above what is in view."""
        if self._here is not None and (self._sought is not None or self._is_in_view(self._here)):
            return self._here
        return max(0, self._source.offset(self._rows[0].line) - 1) if self._source and self._rows else 0

    def _place_behind(self) -> int:
        """The line gone to, else the one below what is in view."""
        if self._here is not None and (self._sought is not None or self._is_in_view(self._here)):
            return self._here
        return self._source.offset(self._rows[-1].line) + 1 if self._source and self._rows else 0

    def poll(self) -> None:
        super().poll()
        whole, finding = self._whole, self._finding
        if whole is None or finding is None or finding.searching is not None or not self._can_be_seen():
            return
        if finding.is_full or finding.is_first or whole.stop <= whole.start:
            return
        newest = whole.offset(whole.stop - 1)
        if newest < finding.next_start:  # another file has taken its place
            self._look_for(finding.query, finding.level)
        elif newest > finding.next_start:
            self._go_through(finding, finding.next_start)

    def action_leave(self) -> None:
        """End the search that goes on; else show all lines again; else forget what was looked for."""
        finding = self._finding
        if finding is not None and finding.searching is not None and finding.is_first:
            finding.searching.cancel()
        elif self._is_picked:
            self._only, self._level = False, None
            self._show_picked()
        else:
            self._forget_finding()
            self._lay_out()
            self.refresh()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "leave" and self._finding is None:
            return False
        if action == "next_match":
            return self._finding is not None
        return super().check_action(action, parameters)

    def on_unmount(self) -> None:
        self._forget_finding()

    # words

    def _show_progress(self) -> None:
        if self._source is not None and self._is_picked:
            self.poll()
        self._lay_out()

    def _position(self, lines_below: int) -> str:
        told = [self.note] if self.note else []
        if self._finding is not None:
            told.append(self._finding.told(self._here, picked=self._is_picked))
        if self.whole or self.raw:
            told.append("every line" if self.raw else "whole lines")
        below = super()._position(lines_below)
        return " · ".join([*told, below] if below else told)

    def _part_of(self, number: int) -> str | None:
        if self._here is None or self._source is None:
            return None
        return "here" if self._source.number_at(self._here) == number else None
