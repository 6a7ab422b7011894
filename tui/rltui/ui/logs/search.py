"""One search in a log: a thread goes through the file, and through what is written to it later."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial

from rltui.base.text import truncate
from rltui.core.logs.lines import Level
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogChange, LogScan, LogSource
from rltui.errors import RltuiError
from rltui.ui.text import clean_line

OpenSearch = Callable[[Query | None, Level | None, int], LogScan]
"""Makes of a query, a level and the byte to start at a search that a thread goes through."""
_MAX_MATCHES = 1_000_000
"""Matches whose offsets are kept."""
_TEXT_WIDTH = 24


class LogSearch:
    """The lines that match a query, are of a level or more severe, or both; its thread only appends to them.

    `run` calls what it is given in a thread, `on_progress` is called there when the thread ends.
    """

    def __init__(
        self,
        query: Query | None,
        level: Level | None,
        open_search: OpenSearch,
        run: Callable[[Callable[[], None]], object],
        on_end: Callable[[LogSearch], object],
    ) -> None:
        self.query = query
        self.level = level
        self.offsets = array("Q")
        """Bytes at which the matching lines begin, ascending."""
        self._error_offsets = array("Q")
        """Those of them with which an error begins: the other lines of a traceback are left out."""
        self.end_offset = 0
        """Byte offset of the newest line at the last search: all lines before it are searched."""
        self.has_result = False
        """A first pass through the log has ended, and its matches are shown."""
        self.problem = ""
        self._open_search, self._run, self._on_end = open_search, run, on_end
        self._scan: LogScan | None = None

    @property
    def is_running(self) -> bool:
        return self._scan is not None

    @property
    def is_first_pass(self) -> bool:
        return self.is_running and not self.has_result

    @property
    def is_full(self) -> bool:
        """Whether no more matches are kept."""
        return len(self.offsets) >= _MAX_MATCHES

    @property
    def is_of_errors(self) -> bool:
        """Whether it is for errors, whatever they say."""
        return self.query is None and self.level is Level.ERROR

    @property
    def stops(self) -> array[int]:
        """The matches to go to one after the other: every line, of errors the first line of each."""
        return self._error_offsets if self.is_of_errors else self.offsets

    @property
    def subject(self) -> str:
        """The query and the level in words: `“loss” in warnings`."""
        names = [] if self.query is None else [f"“{truncate(clean_line(self.query.text), _TEXT_WIDTH)}”"]
        if self.level is not None:
            names.append("errors" if self.level is Level.ERROR else f"{self.level}s")
        return " in ".join(names)

    def status(self, current: int | None, *, only: bool) -> str:
        """How far it is, and which match the line at `current` is; `only`: matches are shown alone."""
        count = len(self.offsets if only else self.stops)
        if self.problem:
            return f"⚠ {self.problem}"
        if (scan := self._scan) is not None and not self.has_result:
            percent = f"{100 * scan.progress:.0f} %"
            return f"searching {self.subject}: {percent}, {count:,} found, esc cancels"
        if not count:
            return f"no {self.subject}" if self.query is None else f"no match for {self.subject}"
        more = "+" if self.is_full else ""
        if only:
            return f"only {self.subject}: {count:,}{more}"
        index = bisect_left(self.stops, current) if current is not None else count
        if index < count and self.stops[index] == current:
            return f"{self.subject} {index + 1:,} of {count:,}{more}"
        return f"{self.subject}: {count:,}{more}"

    def start(self, offset: int, log: LogSource) -> None:
        """Search the log from the byte `offset` on; matches that are known below it are dropped."""
        self.problem = ""
        self.end_offset = _newest_offset(log)
        for offsets in (self.offsets, self._error_offsets):
            del offsets[bisect_left(offsets, offset) :]
        try:
            self._scan = self._open_search(self.query, self.level, offset)
        except RltuiError as error:
            self.problem = clean_line(error.title)
            return
        self._run(partial(self._collect, self._scan, offset))

    def resume(self, log: LogSource) -> bool:
        """Search what has been written since; `False` where another file has taken the place of the log."""
        if self.is_running or self.is_full or not self.has_result or log.stop <= log.start:
            return True
        newest = _newest_offset(log)
        if newest > self.end_offset:
            self.start(self.end_offset, log)
        return newest >= self.end_offset

    def cancel(self) -> None:
        """End the pass that is going on; its matches so far stay."""
        if (scan := self._scan) is not None:
            scan.cancel()

    def _collect(self, scan: LogScan, offset: int) -> None:
        """In the thread."""
        try:
            for hits in scan.batches():
                self.offsets.extend(hit.offset for hit in hits)
                self._error_offsets.extend(hit.offset for hit in hits if not hit.continues)
                if self.is_full:
                    scan.cancel()
        except RltuiError as error:
            self.problem, self.end_offset = clean_line(error.title), offset
        finally:
            self._scan = None
            self._on_end(self)


def _newest_offset(log: LogSource) -> int:
    return log.offset(log.stop - 1) if log.stop > log.start else 0


class MatchingLines:
    """The lines of a log that match a search, as a log of their own. Its owner closes the log itself."""

    def __init__(self, log: LogSource, search: LogSearch) -> None:
        self._log = log
        self._search = search
        self.start = 0
        self.stop = len(search.offsets)

    @property
    def problem(self) -> str | None:
        return self._log.problem or self._search.problem or None

    @property
    def is_waiting(self) -> bool:
        return self._log.is_waiting

    def line(self, number: int) -> str:
        offsets = self._search.offsets
        return self._log.line_at(offsets[number]) if 0 <= number < len(offsets) else ""

    def offset(self, number: int) -> int:
        return self._search.offsets[number]

    def number_at(self, offset: int) -> int | None:
        return max(0, bisect_right(self._search.offsets, offset) - 1) if self._search.offsets else None

    def line_at(self, offset: int) -> str:
        return self._log.line_at(offset)

    def label(self, number: int) -> str:
        del number
        return ""

    def poll(self, *, may_skip: bool) -> LogChange:
        is_filled = self._log.poll(may_skip=may_skip) is LogChange.FILLED
        before, self.stop = self.stop, len(self._search.offsets)
        if self.stop < before:
            return LogChange.RESET
        if is_filled:
            return LogChange.FILLED
        return LogChange.GREW if self.stop > before else LogChange.NONE

    def load_older(self) -> bool:
        return False

    def close(self) -> None:
        """The log is its owner's."""
