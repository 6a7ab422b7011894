"""The logs of several components merged by time, and the position of a time in one log."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rltui.core.logs.prefix import LogClock, parse_prefix
from rltui.core.logs.source import LogChange, LogEntry
from rltui.services.logs.growing_file import GrowingFile
from rltui.services.logs.index import LogFile
from rltui.services.logs.search import display_text

_OPENED_LINES = 1000
_SLICE_LINES = 500
"""Number of lines that are merged at a time."""
_MOST_NEW = 5000
"""More new lines than this at once are not merged: the merge starts again at the end."""
_LONGEST_GROUP = 200
"""Number of lines without a clock that are attributed to the line above that has one."""


class _ComponentLog:
    """One of the logs, consumed from its end."""

    def __init__(self, entry: LogEntry) -> None:
        self.name = entry.component
        self.log = LogFile(Path(entry.path))
        self.next_new = self.next_old = self.log.complete_stop
        self._started_at = entry.started_at
        self._older = LogClock(_changed_at(Path(entry.path), entry.started_at))
        self._newer = LogClock(self._older.now)
        self.group: tuple[float, range] | None = None
        """The newest lines that were not merged yet, and when they were written."""
        self.find_group()

    def find_group(self) -> None:
        """Find the next older line with a clock, and those below it without one."""
        stop = number = self.next_old
        while number > self.log.start or self.log.load_older():
            number -= 1
            moment = self._older.older(parse_prefix(self._text(number)))
            if moment is not None or stop - number >= _LONGEST_GROUP:
                self.group = (self._older.now if moment is None else moment, range(number, stop))
                return
        self.group = (min(self._started_at, self._older.now), range(number, stop)) if number < stop else None

    def take_group(self) -> tuple[float, range]:
        """Return the group, and find the one before."""
        assert self.group is not None
        moment, lines = self.group
        self.next_old = lines.start
        self.find_group()
        return moment, lines

    def new_lines(self) -> list[tuple[float, int]]:
        """Time and number of the lines that were written since the last call."""
        numbers = range(self.next_new, self.log.complete_stop)
        self.next_new = numbers.stop
        lines = []
        for number in numbers:
            self._newer.newer(parse_prefix(self._text(number)))
            lines.append((self._newer.now, number))
        return lines

    def _text(self, number: int) -> str:
        return display_text(self.log.line(number).encode(errors="replace"))


def _changed_at(path: Path, started_at: float) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return started_at


class MergedLog:
    """Lines of several logs ordered by time; implements `rltui.core.logs.source.LogSource`.

    A line without a clock stays below its predecessor. Unfinished lines appear when they are finished.
    """

    def __init__(self, entries: Sequence[LogEntry]) -> None:
        self._entries = tuple(entries)
        self._width = max((len(entry.component) for entry in entries), default=0)
        self._open()

    def _open(self) -> None:
        self._component_logs = [_ComponentLog(entry) for entry in self._entries]
        self._old, self._old_times = array("q"), array("d")
        """Pairs of log and line number from the newest to the oldest, and their times, negative."""
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
        problems = (f"{log.name}: {log.log.problem}" for log in self._component_logs if log.log.problem)
        return next(problems, None) if self.start == self.stop else None

    @property
    def is_waiting(self) -> bool:
        return False

    def line(self, number: int) -> str:
        if (location := self._locate(number)) is None:
            return ""
        component, line = location
        return component.log.line(line)

    def label(self, number: int) -> str:
        location = self._locate(number)
        return "" if location is None else f"{location[0].name:<{self._width}} "

    def offset(self, number: int) -> int:
        return number

    def number_at(self, offset: int) -> int | None:
        return offset if self.start <= offset < self.stop else None

    def line_at(self, offset: int) -> str:
        return self.line(offset)

    def number_near(self, moment: float) -> int | None:
        if self._new_times and moment > self._new_times[0]:
            return min(bisect_left(self._new_times, moment), self.stop - 1)
        count = bisect_right(self._old_times, -moment)
        return -count if count < len(self._old_times) else None

    def poll(self, *, may_skip: bool) -> LogChange:
        changes = [component.log.poll(may_skip=may_skip) for component in self._component_logs]
        count = sum(component.log.complete_stop - component.next_new for component in self._component_logs)
        if LogChange.RESET in changes or count > _MOST_NEW:
            self.close()
            self._open()
            return LogChange.RESET
        new = sorted(
            (moment, index, number)
            for index, component in enumerate(self._component_logs)
            for moment, number in component.new_lines()
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
        for component in self._component_logs:
            component.log.close()

    def _merge(self, count: int) -> None:
        target = len(self._old_times) + count
        while len(self._old_times) < target:
            candidates = [
                (component.group[0], index)
                for index, component in enumerate(self._component_logs)
                if component.group is not None
            ]
            if not candidates:
                return
            _, index = max(candidates)
            moment, lines = self._component_logs[index].take_group()
            for number in reversed(lines):
                self._old.extend((index, number))
                self._old_times.append(-moment)

    def _locate(self, number: int) -> tuple[_ComponentLog, int] | None:
        if not self.start <= number < self.stop:
            return None
        pairs, index = (self._new, number) if number >= 0 else (self._old, -1 - number)
        return self._component_logs[pairs[2 * index]], pairs[2 * index + 1]


_SAMPLES = 1000
_SAMPLE_BYTES = 8 * 1024


def offset_at(path: Path, moment: float, started_at: float) -> int | None:
    """Offset of the first line that was written at `moment` or later; `None` for an empty log.

    `started_at`: approximate time of the log's start. Reads some thousandths of a big file.
    """
    file = GrowingFile(path)
    try:
        if not file.size:
            return None
        clock = LogClock(started_at)
        step = max(_SAMPLE_BYTES, file.size // _SAMPLES)
        position, position_time = 0, started_at
        for start in range(0, file.size, step):
            times = _times(file, start, _SAMPLE_BYTES, clock)
            if times and times[0][0] >= moment:
                break
            position, position_time = start, times[0][0] if times else clock.now
        for line_time, offset in _times(file, position, 2 * step, LogClock(position_time)):
            if line_time >= moment:
                return offset
        return max(0, file.size - 1)
    finally:
        file.close()


def _times(file: GrowingFile, start: int, length: int, clock: LogClock) -> list[tuple[float, int]]:
    """Times and offsets of the complete lines in that range that have a clock."""
    data = file.read(start, length)
    offset = start + (data.find(b"\n") + 1 if start else 0)
    times = []
    for line in data[offset - start :].split(b"\n")[:-1]:
        if (moment := clock.newer(parse_prefix(display_text(line)))) is not None:
            times.append((moment, offset))
        offset += len(line) + 1
    return times
