"""Logs of another machine: the lines that were told, kept here; others are asked for as they are looked at.

Painting never waits: a line that is under way is empty until it is there, and a place that is looked for is
found a little later (`is_waiting`).
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Mapping
from queue import SimpleQueue
from typing import Any

from rltui.client.transports.frames import Packet, understood
from rltui.client.transports.ssh import HostLink
from rltui.core.lines import Level, LogChange, LogHit
from rltui.core.log_query import Query
from rltui.errors import RltuiError

_UNSEEN_S = 3.0
"""A log that nobody has looked at for so long is not told any more."""
_BLOCK = 100
"""Lines that are asked for at once."""
_MOST_ASKED = 6
"""Questions for lines under way."""
_MOST_KEPT = 40_000
_KEPT_AROUND = 5_000
"""Lines around the end, and around the one asked for last, that are kept when there are too many."""


class _ToldLines:
    """The lines that are known of a log, with gaps."""

    def __init__(self) -> None:
        self.numbers = array("q")
        """Ascending, as are their offsets."""
        self.offsets = array("q")
        self.texts: dict[int, str] = {}
        self.labels: dict[int, str] = {}

    def put(self, block: Mapping[str, Any]) -> None:
        """Take lines over; those that are known already may read differently."""
        first, texts = int(block["first"]), [str(text) for text in block["texts"]]
        offsets = array("q", block["offsets"])
        if len(offsets) != len(texts):
            raise ValueError("lines without places")
        stop = first + len(texts)
        begin, end = bisect_left(self.numbers, first), bisect_left(self.numbers, stop)
        self.numbers[begin:end] = array("q", range(first, stop))
        self.offsets[begin:end] = offsets
        self.texts.update(zip(range(first, stop), texts, strict=True))
        if labels := block.get("labels"):
            self.labels.update(zip(range(first, stop), map(str, labels), strict=True))

    def offset(self, number: int) -> int:
        """Where a line begins; of one that is not known, at least behind the one before that is."""
        at = bisect_right(self.numbers, number) - 1
        if at < 0:
            return max(0, self.offsets[0] - (self.numbers[0] - number)) if self.numbers else 0
        return int(self.offsets[at] + (number - self.numbers[at]))

    def number_at(self, offset: int, stop: int) -> int | None:
        """The line that the byte is in, where it is known."""
        at = bisect_right(self.offsets, offset) - 1
        if at < 0:
            return None
        number = self.numbers[at]
        is_followed = number + 1 == stop or self.numbers[at + 1 : at + 2] == array("q", [number + 1])
        return number if is_followed or self.offsets[at] == offset else None

    def keep(self, *parts: range) -> None:
        """Forget all others."""
        kept = [at for at, number in enumerate(self.numbers) if any(number in part for part in parts)]
        self.numbers = array("q", [self.numbers[at] for at in kept])
        self.offsets = array("q", [self.offsets[at] for at in kept])
        self.texts = {number: self.texts[number] for number in self.numbers}
        self.labels = {number: self.labels[number] for number in self.numbers if number in self.labels}


class RemoteLog:
    """`MergedSource` of a log there, or of several as one. For the event loop."""

    def __init__(self, link: HostLink, opened: Mapping[str, Any]) -> None:
        """`opened`: what is told to `log` at the other end. Asks for nothing yet."""
        self._link, self._opened = link, opened
        self._channel = 0
        """Of what is told; 0: nothing is."""
        self._came: deque[tuple[int, str, Packet | RltuiError]] = deque()
        """Channel, what was asked for, answer: put there by the link's thread."""
        self._lines = _ToldLines()
        self._asked: set[str] = set()
        """Questions under way."""
        self._answered: set[str] = set()
        """Places that were looked for and need not be again."""
        self._near: dict[float, int] = {}
        self._has_older = True
        self._looked_at = 0
        self._polled_at = 0.0
        self.start = self.stop = 0
        self._problem: str | None = "reading…"

    @property
    def problem(self) -> str | None:
        return self._problem

    @property
    def is_waiting(self) -> bool:
        return any(not asked.startswith("lines") for asked in self._asked)

    def line(self, number: int) -> str:
        text = self._lines.texts.get(number)
        if text is None and self.start <= number < self.stop:
            self._looked_at = number
            first = number // _BLOCK * _BLOCK
            if sum(asked.startswith("lines") for asked in self._asked) < _MOST_ASKED:
                self._ask(f"lines {first}", "log.lines", {"first": first, "stop": first + _BLOCK})
        return text or ""

    def label(self, number: int) -> str:
        return self._lines.labels.get(number, "")

    def offset(self, number: int) -> int:
        """Of a line that is not there yet, about."""
        return self._lines.offset(number)

    def number_at(self, offset: int) -> int | None:
        """`None` until it is known, which is asked for."""
        number = self._lines.number_at(offset, self.stop)
        if number is None and (asked := f"at {offset}") not in self._answered:
            self._ask(asked, "log.at", {"offset": offset})
        return number

    def line_at(self, offset: int) -> str:
        number = self.number_at(offset)
        return "" if number is None else self.line(number)

    def number_near(self, at: float) -> int | None:
        if at not in self._near:
            self._ask(f"near {at!r}", "log.near", {"at": at})
        return self._near.get(at)

    def load_older(self) -> bool:
        """Asks for them: true until the beginning is known."""
        if self._has_older and self._channel:
            self._ask("older", "log.older", {})
        return self._has_older and self._link.is_up

    def close(self) -> None:
        channel, self._channel = self._channel, 0
        self._link.cancel(channel)
        self._asked.clear()

    # --- what comes ---------------------------------------------------------------------------------------

    def poll(self, *, may_skip: bool) -> LogChange:
        del may_skip
        self._polled_at = time.monotonic()
        if not self._channel:
            self._begin()
        change = LogChange.NONE
        while self._came:
            channel, asked, answer = self._came.popleft()
            if channel == self._channel:
                change = max(change, self._take(asked, answer), key=_ORDER.index)
        return change

    def _begin(self) -> None:
        """Have it told, from the line on that is known."""
        lines, known = self._lines, None
        complete = self.stop - 2
        """The newest line may be unfinished."""
        if complete in lines.texts:
            known = {"number": complete, "offset": lines.offset(complete), "text": lines.texts[complete]}
        self._asked.clear()
        self._came.clear()
        self._channel = self._link.ask(self._arrived, "log", {**self._opened, "known": known})

    def _arrived(self, answer: Packet | RltuiError) -> None:
        """From the link's thread."""
        channel = answer.channel if isinstance(answer, Packet) else self._channel
        self._came.append((channel, "", answer))
        if time.monotonic() - self._polled_at > _UNSEEN_S:
            self._channel = 0
            self._link.cancel(channel)

    def _ask(self, asked: str, method: str, params: Mapping[str, Any]) -> None:
        if asked in self._asked or not self._channel:
            return
        self._asked.add(asked)
        channel = self._channel

        def take(answer: Packet | RltuiError) -> None:
            self._came.append((channel, asked, answer))

        self._link.ask(take, method, {"log": channel, **params})

    def _take(self, asked: str, answer: Packet | RltuiError) -> LogChange:
        self._asked.discard(asked)
        if isinstance(answer, RltuiError):
            if not asked:  # the link went down, or there is no such log
                self._channel = 0
                self._problem = answer.title
            return LogChange.NONE
        try:
            with understood(self._link.host.name):
                return self._understood(asked, answer.data)
        except RltuiError as error:
            self._problem = error.title
            return LogChange.NONE

    def _understood(self, asked: str, said: Mapping[str, Any]) -> LogChange:
        change = LogChange.NONE
        if not asked:
            change = LogChange.GREW
            self._problem = None if said["problem"] is None else str(said["problem"])
            if said["reset"]:
                change = LogChange.RESET
                self._lines, self._near, self._answered = _ToldLines(), {}, set()
                self._asked.clear()
                self._has_older = True
        self.start, self.stop = int(said["start"]), int(said["stop"])
        if (block := said["lines"]) is not None:
            self._lines.put(block)
            change = change if not asked else LogChange.FILLED
        if asked.startswith("at "):
            self._answered.add(asked)
        elif asked.startswith("near "):
            self._near[float(asked.removeprefix("near "))] = int(said["number"])
        elif asked == "older":
            self._has_older = bool(said["more"])
        if len(self._lines.numbers) > _MOST_KEPT:
            around = range(self._looked_at - _KEPT_AROUND, self._looked_at + _KEPT_AROUND)
            self._lines.keep(around, range(self.stop - _KEPT_AROUND, self.stop))
        return change


_ORDER = (LogChange.NONE, LogChange.GREW, LogChange.FILLED, LogChange.RESET)


class RemoteSearch:
    """`LogSearching` of a log there: it is searched there, and what is found comes as it is found."""

    def __init__(
        self,
        link: HostLink,
        key: object,
        path: str,
        query: Query | None,
        level: Level | None,
        start: int,
        *,
        with_text: bool,
    ) -> None:
        """`key`: of the experiment."""
        self._link = link
        self._asked = {
            "key": key,
            "path": path,
            "query": None if query is None else query.text,
            "level": None if level is None else level.value,
            "start": start,
            "with_text": with_text,
        }
        self._came: SimpleQueue[Packet | RltuiError | None] = SimpleQueue()
        self._channel = 0
        self._is_cancelled = False
        self.progress = 0.0
        self.size = start

    def batches(self) -> Iterator[list[LogHit]]:
        """As they come. In a thread."""
        self._channel = self._link.ask(self._came.put, "search", self._asked)
        while not self._is_cancelled and (answer := self._came.get()) is not None:
            if isinstance(answer, RltuiError):
                raise answer
            if answer.data is None:
                return
            with understood(self._link.host.name):
                progress, self.size = float(answer.data["progress"]), int(answer.data["size"])
                self.progress = min(1.0, max(0.0, progress))
                offsets, texts = answer.data["offsets"], answer.data["texts"]
                hits = [LogHit(int(offset), str(text)) for offset, text in zip(offsets, texts, strict=True)]
            if hits and not self._is_cancelled:
                yield hits

    def cancel(self) -> None:
        self._is_cancelled = True
        self._link.cancel(self._channel)
        self._came.put(None)
