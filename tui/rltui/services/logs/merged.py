"""The logs of several components as one, by time; and the place of a moment in one log."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rltui.core.lines import LogChange, LogEntry
from rltui.core.log_prefix import LogClock, log_head
from rltui.services.logs.growing_file import GrowingFile
from rltui.services.logs.index import LogFile
from rltui.services.logs.search import shown

_OPENED_LINES = 1000
_SLICE_LINES = 500
"""Merged at a time."""
_MOST_NEW = 5000
"""So many new lines at once are not merged one by one: it begins anew at the end."""
_LONGEST_GROUP = 200
"""Lines without a clock that are taken to belong to the one above that has one."""


class _Part:
    """One of the logs, taken apart from its end."""

    def __init__(self, entry: LogEntry) -> None:
        self.name = entry.component
        self.log = LogFile(Path(entry.path))
        self.next_new = self.next_old = self.log.complete_stop
        self._began = entry.started_at
        self._older = LogClock(_changed_at(Path(entry.path), entry.started_at))
        self._newer = LogClock(self._older.now)
        self.group: tuple[float, range] | None = None
        """The newest lines that were not merged yet, and when they were written."""
        self.find_group()

    def find_group(self) -> None:
        """A line with a clock, and those below it that have none."""
        stop = number = self.next_old
        while number > self.log.start or self.log.load_older():
            number -= 1
            moment = self._older.older(log_head(self._text(number)))
            if moment is not None or stop - number >= _LONGEST_GROUP:
                self.group = (self._older.now if moment is None else moment, range(number, stop))
                return
        self.group = (min(self._began, self._older.now), range(number, stop)) if number < stop else None

    def take_group(self) -> tuple[float, range]:
        """Hand it out, and find the one before."""
        assert self.group is not None
        moment, lines = self.group
        self.next_old = lines.start
        self.find_group()
        return moment, lines

    def new_lines(self) -> list[tuple[float, int]]:
        """What was written since, with its time."""
        numbers = range(self.next_new, self.log.complete_stop)
        self.next_new = numbers.stop
        found = []
        for number in numbers:
            self._newer.newer(log_head(self._text(number)))
            found.append((self._newer.now, number))
        return found

    def _text(self, number: int) -> str:
        return shown(self.log.line(number).encode(errors="replace"))


def _changed_at(path: Path, began: float) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return began


class MergedLog:
    """Lines of several logs in the order of their times; implements `rltui.core.lines.LogSource`.

    A line without a clock stays below the one that it follows. Unfinished lines come when they are finished.
    """

    def __init__(self, entries: Sequence[LogEntry]) -> None:
        self._entries = tuple(entries)
        self._width = max((len(entry.component) for entry in entries), default=0)
        self._open()

    def _open(self) -> None:
        self._parts = [_Part(entry) for entry in self._entries]
        self._old, self._old_times = array("q"), array("d")
        """Pairs of part and number from the newest to the oldest, and their times, negative."""
        self._new, self._new_times = array("q"), array("d")
        self._merge(_OPENED_LINES)

    @property
    def start(self) -> int:
        return -len(self._old_times)

    @property
    def stop(self) -> int:
        return len(self._new_times)

    @property
    def problem(self) -> str | None:
        problems = (f"{part.name}: {part.log.problem}" for part in self._parts if part.log.problem)
        return next(problems, None) if self.start == self.stop else None

    @property
    def is_waiting(self) -> bool:
        return False

    def line(self, number: int) -> str:
        if (place := self._place(number)) is None:
            return ""
        part, line = place
        return part.log.line(line)

    def label(self, number: int) -> str:
        place = self._place(number)
        return "" if place is None else f"{place[0].name:<{self._width}} "

    def offset(self, number: int) -> int:
        return number

    def number_at(self, offset: int) -> int | None:
        return offset if self.start <= offset < self.stop else None

    def line_at(self, offset: int) -> str:
        return self.line(offset)

    def number_near(self, at: float) -> int | None:
        if self._new_times and at > self._new_times[0]:
            return min(bisect_left(self._new_times, at), self.stop - 1)
        count = bisect_right(self._old_times, -at)
        return -count if count < len(self._old_times) else None

    def poll(self, *, may_skip: bool) -> LogChange:
        changes = [part.log.poll(may_skip=may_skip) for part in self._parts]
        count = sum(part.log.complete_stop - part.next_new for part in self._parts)
        if LogChange.RESET in changes or count > _MOST_NEW:
            self.close()
            self._open()
            return LogChange.RESET
        new = sorted(
            (moment, index, number)
            for index, part in enumerate(self._parts)
            for moment, number in part.new_lines()
        )
        for moment, index, number in new:
            self._new.extend((index, number))
            self._new_times.append(moment)
        return LogChange.GREW if new else LogChange.NONE

    def load_older(self) -> bool:
        before = self.start
        self._merge(_SLICE_LINES)
        return self.start < before

    def close(self) -> None:
        for part in self._parts:
            part.log.close()

    def _merge(self, count: int) -> None:
        wanted = len(self._old_times) + count
        while len(self._old_times) < wanted:
            found = [
                (part.group[0], index) for index, part in enumerate(self._parts) if part.group is not None
            ]
            if not found:
                return
            _, index = max(found)
            moment, lines = self._parts[index].take_group()
            for number in reversed(lines):
                self._old.extend((index, number))
                self._old_times.append(-moment)

    def _place(self, number: int) -> tuple[_Part, int] | None:
        if not self.start <= number < self.stop:
            return None
        pairs, at = (self._new, number) if number >= 0 else (self._old, -1 - number)
        return self._parts[pairs[2 * at]], pairs[2 * at + 1]


_SAMPLES = 1000
_SAMPLE_BYTES = 8 * 1024


def offset_at(path: Path, at: float, began: float) -> int | None:
    """Where the first line begins that was written at the moment `at` or later; `None` for an empty log.

    `began`: about when the log was. Reads some thousandths of a big file.
    """
    file = GrowingFile(path)
    try:
        if not file.size:
            return None
        clock = LogClock(began)
        step = max(_SAMPLE_BYTES, file.size // _SAMPLES)
        place, known = 0, began
        for start in range(0, file.size, step):
            first = next(iter(_times(file, start, _SAMPLE_BYTES, clock)), None)
            if first is not None and first[0] >= at:
                break
            place, known = start, clock.now
        for moment, offset in _times(file, place, 2 * step, LogClock(known)):
            if moment >= at:
                return offset
        return max(0, file.size - 1)
    finally:
        file.close()


def _times(file: GrowingFile, start: int, length: int, clock: LogClock) -> list[tuple[float, int]]:
    """Times and offsets of the whole lines there that have a clock."""
    data = file.read(start, length)
    offset = start + (data.find(b"\n") + 1 if start else 0)
    found = []
    for line in data[offset - start :].split(b"\n")[:-1]:
        if (moment := clock.newer(log_head(shown(line)))) is not None:
            found.append((moment, offset))
        offset += len(line) + 1
    return found
