"""Logs of another machine: the lines that were told, kept here; others are asked for as they are looked at.

Painting never waits: a line that is under way is empty until it is there, and a place that is looked for is
found a little later (`is_waiting`).
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count

from rltui.client.laptop.log_feed import (
    KnownLine,
    LogBlock,
    LogFeed,
    LogPart,
    LogUpdate,
    NearLines,
    OlderLines,
)
from rltui.client.laptop.remote_object import RemoteObject, RemoteStream
from rltui.client.laptop.server import ExperimentAddress, RemoteServer, SearchUpdate
from rltui.client.transports.ssh import HostLink
from rltui.core.logs.lines import Level
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogChange, LogEntry, LogHit
from rltui.errors import RltuiError

_UNSEEN_S = 3.0
"""Seconds after which a log that nobody looks at is not sent any more."""
_BLOCK = 100
"""Lines that one request asks for."""
_MOST_PENDING = 6
"""Requests for lines under way at a time."""
_MOST_CACHED = 40_000
_NUMBERS = count(1)
"""Numbers by which the other end tells apart the feeds of one link."""
_CACHED_AROUND = 5_000
"""Lines around the end, and around the one asked for last, that are kept when there are too many."""


class _LineCache:
    """Lines of a log that came from the other end, with gaps."""

    def __init__(self) -> None:
        self.numbers = array("q")
        """Ascending, as are their offsets."""
        self.offsets = array("q")
        self.texts: dict[int, str] = {}
        self.labels: dict[int, str] = {}

    def put(self, block: LogBlock) -> None:
        """Take lines over; those that are known already may read differently.

        Raises:
            ValueError: if the block does not fit together.
        """
        first, stop = block.first, block.first + len(block.texts)
        if len(block.offsets) != len(block.texts):
            raise ValueError("lines without offsets")
        begin, end = bisect_left(self.numbers, first), bisect_left(self.numbers, stop)
        self.numbers[begin:end] = array("q", range(first, stop))
        self.offsets[begin:end] = array("q", block.offsets)
        self.texts.update(zip(range(first, stop), block.texts, strict=True))
        if block.labels:
            self.labels.update(zip(range(first, stop), block.labels, strict=True))

    def offset(self, number: int) -> int:
        """Byte offset of a line; of an unknown line, a lower bound: one behind the known line before it."""
        index = bisect_right(self.numbers, number) - 1
        if index < 0:
            return max(0, self.offsets[0] - (self.numbers[0] - number)) if self.numbers else 0
        return int(self.offsets[index] + (number - self.numbers[index]))

    def number_at(self, offset: int, stop: int) -> int | None:
        """The line that the byte is in; `None` where it is not here."""
        index = bisect_right(self.offsets, offset) - 1
        if index < 0:
            return None
        number = self.numbers[index]
        is_followed = number + 1 == stop or self.numbers[index + 1 : index + 2] == array("q", [number + 1])
        return number if is_followed or self.offsets[index] == offset else None

    def keep(self, *ranges: range) -> None:
        """Forget all lines outside of `ranges`."""
        positions = [
            index for index, number in enumerate(self.numbers) if any(number in lines for lines in ranges)
        ]
        self.numbers = array("q", [self.numbers[index] for index in positions])
        self.offsets = array("q", [self.offsets[index] for index in positions])
        self.texts = {number: self.texts[number] for number in self.numbers}
        self.labels = {number: self.labels[number] for number in self.numbers if number in self.labels}


class RemoteLog:
    """`MergedSource` of one log of the other machine, or of several merged. For the event loop."""

    def __init__(
        self,
        link: HostLink,
        handle: ExperimentAddress,
        *,
        path: str | None = None,
        entries: tuple[LogEntry, ...] = (),
    ) -> None:
        """The log at `path`, or `entries` as one. Asks for nothing yet."""
        self._link, self._handle, self._path, self._entries = link, handle, path, entries
        self._server = RemoteObject(link, "server")
        self._number = 0
        """Number of the other end's feed."""
        self._channel = 0
        """Channel of the feed's stream; 0: none."""
        self._answers: deque[tuple[int, str, LogPart | RltuiError | None]] = deque()
        """Number of the feed, what was asked for, answer: put there by the link's thread."""
        self._lines = _LineCache()
        self._pending: set[str] = set()
        """Requests without an answer yet."""
        self._searched: set[str] = set()
        """Places that were looked for and need not be again."""
        self._near: dict[float, int] = {}
        self._has_older = True
        self._viewed_line = 0
        self._polled_at = 0.0
        self.start = self.stop = 0
        self._problem: str | None = "reading…"

    @property
    def problem(self) -> str | None:
        return self._problem

    @property
    def is_waiting(self) -> bool:
        return any(not request.startswith("lines") for request in self._pending)

    def line(self, number: int) -> str:
        text = self._lines.texts.get(number)
        if text is None and self.start <= number < self.stop:
            self._viewed_line = number
            first = number // _BLOCK * _BLOCK
            if sum(request.startswith("lines") for request in self._pending) < _MOST_PENDING:
                self._ask(f"lines {first}", LogFeed.lines, first=first, stop=first + _BLOCK)
        return text or ""

    def label(self, number: int) -> str:
        return self._lines.labels.get(number, "")

    def offset(self, number: int) -> int:
        """Byte offset of a line; an estimate for one that is not cached yet."""
        return self._lines.offset(number)

    def number_at(self, offset: int) -> int | None:
        """The line at an offset; `None` until the answer to the request for it has come."""
        number = self._lines.number_at(offset, self.stop)
        if number is None and (request := f"at {offset}") not in self._searched:
            self._ask(request, LogFeed.at, offset=offset)
        return number

    def line_at(self, offset: int) -> str:
        number = self.number_at(offset)
        return "" if number is None else self.line(number)

    def number_near(self, at: float) -> int | None:
        if at not in self._near:
            self._ask(f"near {at!r}", LogFeed.near, at=at)
        return self._near.get(at)

    def load_older(self) -> bool:
        """Ask for older lines; true until the beginning is here."""
        if self._has_older and self._channel:
            self._ask("older", LogFeed.older)
        return self._has_older and self._link.is_up

    def close(self) -> None:
        channel, self._channel = self._channel, 0
        self._link.cancel(channel)
        self._pending.clear()

    # --- what comes ---------------------------------------------------------------------------------------

    def poll(self, *, may_skip: bool) -> LogChange:
        del may_skip
        self._polled_at = time.monotonic()
        if not self._channel:
            self._begin()
        change = LogChange.NONE
        while self._answers:
            number, request, answer = self._answers.popleft()
            if number == self._number:
                change = max(change, self._take(request, answer), key=_ORDER.index)
        return change

    def _begin(self) -> None:
        """Have it told, from the line on that is known."""
        lines, known_line = self._lines, None
        complete = self.stop - 2
        """The newest line may be unfinished."""
        if complete in lines.texts:
            known_line = KnownLine(complete, lines.offset(complete), lines.texts[complete])
        self._pending.clear()
        self._answers.clear()
        number = self._number = next(_NUMBERS)

        def take(answer: LogPart | RltuiError | None) -> None:
            self._answers.append((number, "", answer))
            if number == self._number and time.monotonic() - self._polled_at > _UNSEEN_S:
                self.close()

        self._channel = self._server.send_for_all(
            take, RemoteServer.log, number, self._handle, self._path, self._entries, known_line
        )

    def _ask(self, request: str, method: Callable[..., LogPart], **arguments: object) -> None:
        if request in self._pending or not self._channel:
            return
        self._pending.add(request)
        number = self._number

        def take(answer: LogPart | RltuiError | None) -> None:
            self._answers.append((number, request, answer))

        RemoteObject(self._link, "log", number).send(take, method, **arguments)

    def _take(self, request: str, answer: LogPart | RltuiError | None) -> LogChange:
        self._pending.discard(request)
        if isinstance(answer, LogPart):
            try:
                return self._apply_page(request, answer)
            except (ValueError, OverflowError) as error:
                self._problem = f"invalid data from {self._link.host.name}: {error}"
        elif not request:  # the link went down, or there is no such log
            self._channel = 0
            self._problem = answer.title if answer is not None else self._problem
        return LogChange.NONE

    def _apply_page(self, request: str, page: LogPart) -> LogChange:
        change = LogChange.NONE
        if isinstance(page, LogUpdate):
            change = LogChange.GREW
            self._problem = page.problem
            if page.reset:
                change = LogChange.RESET
                self._lines, self._near, self._searched = _LineCache(), {}, set()
                self._pending.clear()
                self._has_older = True
        self.start, self.stop = page.start, page.stop
        if page.lines is not None:
            self._lines.put(page.lines)
            change = change if not request else LogChange.FILLED
        if request.startswith("at "):
            self._searched.add(request)
        elif isinstance(page, NearLines):
            self._near[float(request.removeprefix("near "))] = page.number
        elif isinstance(page, OlderLines):
            self._has_older = page.more
        if len(self._lines.numbers) > _MOST_CACHED:
            around = range(self._viewed_line - _CACHED_AROUND, self._viewed_line + _CACHED_AROUND)
            self._lines.keep(around, range(self.stop - _CACHED_AROUND, self.stop))
        return change


_ORDER = (LogChange.NONE, LogChange.GREW, LogChange.FILLED, LogChange.RESET)


class RemoteSearch:
    """`LogScan` of a log of the other machine, which searches and sends hits as they are found."""

    def __init__(
        self,
        link: HostLink,
        handle: ExperimentAddress,
        path: str,
        query: Query | None,
        level: Level | None,
        start: int,
        *,
        with_text: bool,
    ) -> None:
        text = None if query is None else query.text
        self._server = RemoteObject(link, "server")
        self._pending = (handle, path, text, level, start, with_text)
        self._stream: RemoteStream[SearchUpdate] | None = None
        self._is_cancelled = False
        self.progress = 0.0
        self.size = start

    def batches(self) -> Iterator[list[LogHit]]:
        """Hits as they come. Blocks its thread."""
        self._stream = self._server.stream(RemoteServer.search, *self._pending)
        for update in self._stream:
            if self._is_cancelled:
                return
            self.progress, self.size = min(1.0, max(0.0, update.progress)), update.size
            if update.hits:
                yield [*update.hits]

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._stream is not None:
            self._stream.cancel()
