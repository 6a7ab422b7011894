"""Output of logs: the last lines of a file, and new ones as they come."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event

from rltui.core.logs.lines import LineFilter, decode_line, plain_text
from rltui.core.logs.period import LogPeriod
from rltui.core.logs.query import Query
from rltui.errors import RltuiError
from rltui.services.logs.growing_file import AppendedLines
from rltui.services.logs.index import LogFile
from rltui.services.logs.merged import offset_at
from rltui.services.logs.search import FileScan
from rltui.services.redaction import without_secrets

CHUNK_BYTES = 1024 * 1024
"""Limit of one read, and of a line: a longer one is split."""
_FOLLOW_INTERVAL_S = 0.1


@dataclass(slots=True)
class ReadUntil:
    offset: int = 0
    """Offset after the last complete line that was read."""


def tail_lines(
    path: Path,
    count: int | None = None,
    line_filter: LineFilter | None = None,
    period: LogPeriod | None = None,
    *,
    start: int | None = None,
    until: ReadUntil | None = None,
) -> Iterator[str]:
    """Yield the last `count` lines that pass, or all of them, oldest first, sanitised and without colour.

    `period`: only lines in it. `start`: the offset to read from. `until`: says in the end how far that was.

    Without a filter the cost depends on `count`, with one the complete file is read. All lines are yielded as
    they are read, in memory that does not depend on the file.

    Raises:
        RltuiError: The file does not exist or cannot be read.
    """
    line_filter, until = line_filter or LineFilter(), until or ReadUntil()
    if line_filter.pattern is not None and line_filter.level is None and period is None:
        query = Query(line_filter.pattern, line_filter.pattern.pattern)
        scan = FileScan(path, query, start=start or 0)
        matches = (hit.text for hits in scan.batches() for hit in hits)
        yield from map(without_secrets, matches if count is None else deque(matches, maxlen=count))
        until.offset = complete_end(path, scan.size)
        return
    with closing(_LineStream(path, count, line_filter, period, start)) as stream:
        if count is None:
            yield from map(without_secrets, stream.drain())
            until.offset = stream.position
            yield from map(without_secrets, stream.finish())
        else:
            lines = deque(stream.drain(), maxlen=count)
            until.offset = stream.position
            lines.extend(stream.finish())
            yield from map(without_secrets, lines)


def follow_lines(
    path: Path,
    count: int | None,
    stop: Event,
    line_filter: LineFilter | None = None,
    period: LogPeriod | None = None,
) -> Iterator[str]:
    """Yield the last `count` lines that pass, or all, and then new ones, until `stop` is set.

    `period`: only lines in it.

    Blocks in between. A truncated or replaced file is read from its start. An unfinished line comes with its
    newline, or when `stop` is set.

    Raises:
        RltuiError: The file does not exist or cannot be read.
    """
    with closing(_LineStream(path, count, line_filter or LineFilter(), period)) as stream:
        yield from map(without_secrets, deque(stream.drain(), maxlen=count))
        while not stop.wait(_FOLLOW_INTERVAL_S):
            yield from map(without_secrets, stream.drain())
        yield from map(without_secrets, chain(stream.drain(), stream.finish()))


class _LineStream:
    """Accepted lines of a growing file, starting early enough to yield `count` of them."""

    def __init__(
        self,
        path: Path,
        count: int | None,
        line_filter: LineFilter,
        period: LogPeriod | None,
        start: int | None = None,
    ) -> None:
        offset = start or 0
        if start is not None:
            pass
        elif period is not None:
            offset = _offset_of_period(path, period)
        elif count is not None and line_filter.is_open:
            offset = _offset_from_end(path, count)
        self._lines = AppendedLines(path, offset=offset, most_bytes=CHUNK_BYTES, line_bytes=CHUNK_BYTES)
        if self._lines.problem or not path.exists():
            raise RltuiError(f"cannot read {path}", details=(self._lines.problem or "no such file",))
        self._filter, self._period = line_filter, period

    @property
    def position(self) -> int:
        """Offset after the last complete line that was read."""
        return self._lines.position

    def drain(self) -> Iterator[str]:
        """Yield complete lines up to the present end of the file."""
        while data := self._lines.read():
            yield from self._accepted(data[:-1].split(b"\n"))

    def finish(self) -> Iterator[str]:
        unfinished = self._lines.finish()
        yield from self._accepted([unfinished] if unfinished else [])

    def close(self) -> None:
        self._lines.close()

    def _accepted(self, lines: list[bytes]) -> Iterator[str]:
        for data in lines:
            text = plain_text(decode_line(data))
            is_within = self._period is None or self._period.holds(text)
            if self._filter.accepts(text) and is_within:
                yield text


def complete_end(path: Path, size: int | None = None) -> int:
    """Offset after the last newline among the first `size` bytes of a file, or all."""
    with suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END) if size is None else size
        while size:
            start = max(0, size - CHUNK_BYTES)
            file.seek(start)
            if newline := file.read(size - start).rfind(b"\n") + 1:
                return start + newline
            size = start
    return 0


def _offset_of_period(path: Path, period: LogPeriod) -> int:
    """An offset before all lines of the period: near its first one, where that is known by its time."""
    since = period.period.since
    if since is None or since.at is None or since.at <= period.started_at:
        return 0
    offset = offset_at(path, since.at, period.started_at) or 0
    if offset:
        period.jump(since.at)
    return offset


def _offset_from_end(path: Path, count: int) -> int:
    log = LogFile(path)
    while log.stop - log.start < count and log.load_older():
        pass
    offset = log.offset(max(log.start, min(log.stop - count, log.complete_stop)))
    log.close()
    return offset
