"""The tabs of the log screen: all its logs, and the one that is shown. Without Textual's widgets."""

from __future__ import annotations

from enum import StrEnum

from textual.content import Content

from rltui.core.logs.source import LogEntry
from rltui.ui.logs.search_all import AllLogsSearch
from rltui.ui.requests import component_of_role
from rltui.ui.styles import FAINT
from rltui.ui.text import clean_line

_MORE_TABS = "   …"
_PADDING_CELLS = 2
"""The cells of the line that have no text, left and right."""
_TAB_CELLS = 3
"""Cells before the name of a tab."""


class Combined(StrEnum):
    """Several logs as one; the value is the name of its tab."""

    MERGED = "all merged"
    MATCHES = "found"


Tab = LogEntry | Combined


def tab_name(tab: Tab) -> str:
    return tab.component if isinstance(tab, LogEntry) else tab


def newest_logs(logs: tuple[LogEntry, ...]) -> tuple[LogEntry, ...]:
    """The newest attempt of each component, and the files of the layout."""
    return tuple({log.component: log for log in logs}.values())


def tabs_around(names: list[str], index: int, room: int) -> list[str]:
    """Choose as many names as `room` cells hold: the one at `index`, then its nearest neighbours."""
    first = last = index
    room -= len(names[index]) + _TAB_CELLS
    while True:
        for neighbour in (last + 1, first - 1):
            if 0 <= neighbour < len(names) and len(names[neighbour]) + _TAB_CELLS <= room:
                room -= len(names[neighbour]) + _TAB_CELLS
                first, last = min(first, neighbour), max(last, neighbour)
                break
        else:
            return names[first : last + 1]


class LogTabs:
    def __init__(self) -> None:
        self.logs: tuple[LogEntry, ...] = ()
        """All logs, with those of earlier attempts."""
        self.shown: Tab = Combined.MERGED
        self.next: Tab | None = None
        """The log that is shown as soon as it is read: further keys count from there."""
        self.search: AllLogsSearch | None = None
        """The search whose matches have a tab."""

    @property
    def goal(self) -> Tab:
        return self.next or self.shown

    @property
    def all(self) -> list[Tab]:
        """All tabs in their order: the newest logs of the components come last."""
        has_matches = self.search is not None or self.shown == Combined.MATCHES
        matches = (Combined.MATCHES,) if has_matches else ()
        return [Combined.MERGED, *matches, *newest_logs(self.logs)]

    def adjacent(self, step: int) -> Tab:
        tabs = self.all
        names, name = [tab_name(tab) for tab in tabs], tab_name(self.goal)
        index = names.index(name) if name in names else 0
        return tabs[(index + step) % len(tabs)]

    def of_component(self, component: str) -> LogEntry | None:
        return next((log for log in newest_logs(self.logs) if log.component == component), None)

    def of_role(self, role: str) -> LogEntry | None:
        components = [log.component for log in newest_logs(self.logs)]
        return self.of_component(component_of_role(role, components) or "")

    def adjacent_attempt(self, log: LogEntry, step: int) -> LogEntry | None:
        """The log of an earlier or later attempt of the component; `None` if there is none."""
        attempts = [other for other in self.logs if other.component == log.component]
        index = attempts.index(log) + step if log in attempts else -1
        return attempts[index] if 0 <= index < len(attempts) else None

    def at_moment(self, component: str | None, moment: float) -> LogEntry | None:
        """The log that a component wrote at that moment, else its first one; `None`: it has none."""
        attempts = [log for log in self.logs if log.component == component]
        started = (log for log in reversed(attempts) if log.started_at <= moment)
        return next(started, attempts[0]) if attempts else None

    @property
    def shown_search(self) -> AllLogsSearch | None:
        """The search, while its matches are shown."""
        return self.search if self.shown == Combined.MATCHES else None

    @property
    def _status(self) -> str:
        """How far the search has come, else `attempt 2 of 3`; empty where the component has one alone."""
        if (search := self.shown_search) is not None:
            return search.status
        log = self.shown
        if not isinstance(log, LogEntry) or log.attempt is None:
            return ""
        count = sum(other.component == log.component for other in self.logs)
        return f"attempt {log.attempt} of {count}" if count > 1 else ""

    def line(self, heading: Content, width: int) -> Content:
        """The tabs behind a heading, as many as there is room for, and the status of the shown one."""
        names, shown_name = [clean_line(tab_name(tab)) for tab in self.all], clean_line(tab_name(self.shown))
        tail = f" · {status}" if (status := self._status) else ""
        room = width - heading.cell_length - len(tail) - len(_MORE_TABS) - _PADDING_CELLS
        visible_names = tabs_around(names, names.index(shown_name), room)
        fragments = [
            (f" ▸ {name}", "bold $text-accent") if name == shown_name else (f"   {name}", FAINT)
            for name in visible_names
        ]
        if len(visible_names) < len(names):
            fragments.append((_MORE_TABS, FAINT))
        return Content.assemble(heading, *fragments, (tail, FAINT))
