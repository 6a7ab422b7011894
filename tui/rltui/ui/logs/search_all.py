"""One search in several logs, whose matching lines are a log of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rltui.base.text import truncate
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogChange, LogEntry, LogScan
from rltui.errors import RltuiError
from rltui.ui.text import clean_line

_MAX_MATCHES = 50_000
_TEXT_WIDTH = 30


class Match(NamedTuple):
    log: LogEntry
    offset: int
    """Byte of the log at which the line begins."""
    text: str


class AllLogsSearch:
    """A `LogSource` of the lines that match in several logs, one after the other. A number is an offset."""

    def __init__(
        self, query: Query, logs: Sequence[LogEntry], open_search: Callable[[str, Query], LogScan]
    ) -> None:
        """`open_search` makes of the path of a log and the query a search through it."""
        self.query = query
        self.matches: list[Match] = []
        """The thread only appends to it."""
        self.is_over = False
        self.start = 0
        self.stop = 0
        self.problem: str | None = None
        self.is_waiting = False
        self._logs, self._open_search = logs, open_search
        self._label_width = max((len(log.name) for log in logs), default=0)
        self._scan: LogScan | None = None

    @property
    def status(self) -> str:
        count, text = len(self.matches), truncate(clean_line(self.query.text), _TEXT_WIDTH)
        more = "+" if count >= _MAX_MATCHES else ""
        hint = "enter opens the log there" if self.is_over else "searching, esc cancels"
        return f"“{text}” {count:,}{more} · {hint}"

    def run(self) -> None:
        """Search all logs; this blocks, so that it runs in a thread."""
        for log in self._logs:
            scan = self._scan = self._open_search(log.path, self.query)
            try:
                for hits in scan.batches():
                    self.matches.extend(Match(log, hit.offset, hit.text) for hit in hits)
                    if self.is_over or len(self.matches) >= _MAX_MATCHES:
                        scan.cancel()
            except RltuiError:
                continue  # it was removed meanwhile
            if self.is_over or len(self.matches) >= _MAX_MATCHES:
                break
        self.is_over = True

    def line(self, number: int) -> str:
        return self.matches[number].text

    def label(self, number: int) -> str:
        return f"{self.matches[number].log.name:<{self._label_width}} "

    def offset(self, number: int) -> int:
        return number

    def number_at(self, offset: int) -> int | None:
        return offset if 0 <= offset < self.stop else None

    def line_at(self, offset: int) -> str:
        return self.line(offset)

    def poll(self, *, may_skip: bool) -> LogChange:
        del may_skip
        before, self.stop = self.stop, len(self.matches)
        return LogChange.GREW if self.stop > before else LogChange.NONE

    def load_older(self) -> bool:
        return False

    def close(self) -> None:
        """End the search; what it has stays."""
        self.is_over = True
        if self._scan is not None:
            self._scan.cancel()
