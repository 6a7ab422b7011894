"""A log as it is told to somebody far away: its end, as it grows, and what they ask for. On the machine that
the log is on: the lines are numbered and found here, and searched here.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

from rltui.base.questions import remote_method
from rltui.core.logs.source import LogChange, LogSource
from rltui.services.logs.merged import MergedLog

_TAIL_LINES = 150
"""Lines of the first answer, and the most of one poll: nobody reads more of a flood."""
_MOST_LINES = 200
_MOST_LETTERS = 48 * 1024
"""Characters in one answer."""
_CONTEXT = 60
"""Lines that come above and below the one that is looked for."""
_SLICES = 16
"""Slices of new text that one look indexes."""
_SEEK_S = 0.5
"""Seconds for which older parts are indexed before an answer."""


class KnownLine(NamedTuple):
    """A line that the other end has, from an earlier connection."""

    number: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class LogBlock:
    """Lines one behind the other."""

    first: int
    offsets: list[int]
    texts: list[str]
    labels: list[str]
    """Empty where no line has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Some lines of a log, and the numbers that there are: from `start` up to `stop`."""

    start: int
    stop: int
    lines: LogBlock | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUpdate(LogPart):
    """The newest lines of what is new."""

    reset: bool
    """True if all lines sent before are obsolete."""
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderLines(LogPart):
    more: bool
    """True if there are still older lines that are not indexed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearLines(LogPart):
    number: int


class LogFeed:
    """One log, or several merged, that a client has open. Thread-safe; one call at a time is answered."""

    def __init__(self, source: LogSource, known_line: KnownLine | None = None) -> None:
        """If `known_line` still exists, the line numbers continue as they were."""
        self._source = source
        self._lock = threading.Lock()
        self._shift = 0
        """Added to a line number of the source for the number of the other end."""
        self._is_reset = True
        self._sent_stop: int | None = None
        self._sent_problem: str | None = None
        if known_line is not None:
            number = self._index_to(known_line.offset)
            if number is not None and self._source.line(number) == known_line.text:
                self._shift, self._is_reset = known_line.number - number, False
                self._sent_stop = number + 1

    def news(self) -> LogUpdate | None:
        """The newest lines since the last call; `None` where nothing is new."""
        with self._lock:
            source = self._source
            is_news = self._sent_stop is None or source.stop > self._sent_stop
            for _ in range(_SLICES):
                change = source.poll(may_skip=False)
                if change is LogChange.NONE:
                    break
                is_news = True
                if change is LogChange.RESET:
                    self._is_reset, self._shift, self._sent_stop = True, 0, None
            if not is_news and source.problem == self._sent_problem:
                return None
            reset, self._is_reset = self._is_reset, False
            # The line that was told last may have been unfinished.
            newest = source.start if self._sent_stop is None else self._sent_stop - 1
            self._sent_stop, self._sent_problem = source.stop, source.problem
            lines = self._newest(max(newest, source.start, source.stop - _TAIL_LINES))
            return LogUpdate(reset=reset, problem=source.problem, lines=lines, **self._range())

    @remote_method
    def lines(self, first: int, stop: int) -> LogPart:
        """The lines `first` up to `stop`, as far as they are there and one answer may have them."""
        with self._lock:
            first, stop = first - self._shift, stop - self._shift
            return LogPart(lines=self._block(first, min(stop, first + _MOST_LINES)), **self._range())

    @remote_method
    def at(self, offset: int) -> LogPart:
        """The lines around the byte `offset`; none where it takes long to find it."""
        with self._lock:
            number = self._index_to(offset)
            lines = None if number is None else self._block(number - _CONTEXT, number + _CONTEXT)
            return LogPart(lines=lines, **self._range())

    @remote_method
    def older(self) -> OlderLines:
        """Index older lines for a while; `more`: there are still others."""
        with self._lock:
            until, more = time.monotonic() + _SEEK_S, True
            while more and time.monotonic() < until:
                more = self._source.load_older()
            lines = self._block(self._source.start, self._source.start + _CONTEXT)
            return OlderLines(more=more, lines=lines, **self._range())

    @remote_method
    def near(self, at: float) -> NearLines:
        """The number of the first line of the moment `at` or later; of several logs as one."""
        with self._lock:
            source, number, until = self._source, None, time.monotonic() + _SEEK_S
            if isinstance(source, MergedLog):
                while (number := source.number_near(at)) is None and time.monotonic() < until:
                    if not source.load_older():
                        break
            number = source.start if number is None else number
            lines = self._block(number - _CONTEXT, number + _CONTEXT)
            return NearLines(number=number + self._shift, lines=lines, **self._range())

    def close(self) -> None:
        with self._lock:
            self._source.close()

    def _range(self) -> dict[str, int]:
        return {"start": self._source.start + self._shift, "stop": self._source.stop + self._shift}

    def _index_to(self, offset: int) -> int | None:
        """The number of the line there, once it is indexed; `None` where there is none, or it takes long."""
        source, until = self._source, time.monotonic() + _SEEK_S
        while (number := source.number_at(offset)) is None and time.monotonic() < until:
            if source.start < source.stop and offset < source.offset(source.start):
                if not source.load_older():
                    break
            elif source.poll(may_skip=False) is not LogChange.GREW:
                break
        return number

    def _newest(self, first: int) -> LogBlock:
        """The lines from `first` to the end, or as many of the last ones as fit into an answer."""
        letters, number = 0, self._source.stop
        while number > first and letters < _MOST_LETTERS:
            number -= 1
            letters += len(self._source.line(number))
        return self._block(number, self._source.stop)

    def _block(self, first: int, stop: int) -> LogBlock:
        source = self._source
        first, stop = max(first, source.start), min(stop, source.stop)
        offsets: list[int] = []
        texts: list[str] = []
        labels: list[str] = []
        letters = 0
        for number in range(first, stop):
            text = source.line(number)
            letters += len(text)
            if texts and letters > _MOST_LETTERS:
                break
            offset = source.offset(number)
            offsets.append(offset)
            texts.append(text)
            labels.append(source.label(number))
        return LogBlock(first + self._shift, offsets, texts, labels if any(labels) else [])
