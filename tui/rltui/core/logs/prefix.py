"""The prefix before the message in each line of a log: time, level, process, rank, source location.

It is recognised by its form, whichever program wrote it, so that a narrow column can stand for it.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from rltui.core.logs.lines import GLOG_LEVELS, LEVEL_NAMES, Level, parse_level

_RANK = re.compile(r"(?:\[(?P<rank>[A-Za-z_]{1,40}\d{1,6})\]:\s?)")
_PROCESS = re.compile(r"\((?P<process>[A-Za-z][^() ]{0,60})(?: \w+=\w+)* pid=\d+[^()]{0,40}\)\s?")
_DAY = r"(?P<month>\d\d)-?(?P<day>\d\d)"
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d+)?"
_LOCATION = r"[^\[\]\s]{1,120}\](?: |$)"
_LOGURU = rf"{_CLOCK} +\[?(?P<level>{LEVEL_NAMES})\]?(?: |$)"
"""`23:03:15 INFO `, in hosted copies `23:03:15 [INFO] `."""
_DATED = rf"(?P<level>{LEVEL_NAMES}) +{_DAY} {_CLOCK} \[{_LOCATION}"
"""`INFO 11-21 23:03:15 [server.py:1] `."""
_LOGGING = (
    rf"\[?(?P<year>\d{{4}})-{_DAY}[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?\]?[\s|-]*(?:[\w.]{{1,60}} - )?"
    rf"\[?(?P<level>{LEVEL_NAMES})\]?(?: +\| [\w.<>:]{{1,120}} -)?(?:\s*[-:|])?(?: |$)"
    r"(?:[a-z]\w{0,60}(?:::\w{1,60})+: (?:[\w./-]{1,120}\.rs:\d{1,6}: )?)?"
)
"""`2026-11-21 23:03:15,123 - name - INFO - `, `2026-11-21 23:03:15.123 | INFO     | a:b:1 - `, and Rust's
`2026-11-21 23:03:15  INFO a::b: src/b.rs:1: `.
"""
_GLOG = rf"\[?(?P<letter>[IWEF]){_DAY} {_CLOCK}(?: +\d+)? {_LOCATION}"
"""glog's and torch's `[W1120 23:33:07.367283046 utils.cpp:68] `."""
_NO_CLOCK = rf"(?P<level>{LEVEL_NAMES}):(?:[\w.]{{1,60}}:| +)"
"""uvicorn's `INFO:     `, logging's `INFO:root:`."""
_FORMS = tuple(map(re.compile, (_LOGURU, _DATED, _LOGGING, _GLOG, _NO_CLOCK, rf"{_CLOCK} ")))
_LONGEST = 400


class LogPrefix(NamedTuple):
    length: int = 0
    """Characters before the message."""
    clock: str = ""
    """`23:03:15`."""
    date: tuple[int | None, int, int] | None = None
    """Year, month and day, if it has a date; the year may be missing."""
    level: Level | None = None
    rank: str = ""
    """torchrun's `trainer0`, or the process that vLLM names."""


_NONE = LogPrefix()


def parse_prefix(text: str) -> LogPrefix:
    beginning = text[:_LONGEST]
    rank, start = "", 0
    while (match := _process_prefix(beginning, start)) is not None:
        rank, start = match[1], match.end()
    for form in _FORMS:
        if (match := form.match(beginning, start)) is not None:
            return _build(match, rank)
    return LogPrefix(length=start, rank=rank) if start else _NONE


def _process_prefix(beginning: str, start: int) -> re.Match[str] | None:
    """A rank or a process at `start`. Most lines have none, which their first character shows at once."""
    match beginning[start : start + 1]:
        case "[":
            return _RANK.match(beginning, start)
        case "(":
            return _PROCESS.match(beginning, start)
    return None


def _build(match: re.Match[str], rank: str) -> LogPrefix:
    groups = match.groupdict()
    date = None
    if month := groups.get("month"):
        year = groups.get("year")
        date = (int(year) if year else None, int(month), int(match["day"]))
    level = groups.get("level")
    letter = groups.get("letter")
    return LogPrefix(
        length=match.end(),
        clock=groups.get("clock") or "",
        date=date,
        level=parse_level(level) if level else GLOG_LEVELS[letter] if letter else None,
        rank=rank,
    )


LEVEL_LETTERS = {
    Level.TRACE: "T",
    Level.DEBUG: "D",
    Level.INFO: "I",
    Level.SUCCESS: "S",
    Level.WARNING: "W",
    Level.ERROR: "E",
    Level.CRITICAL: "C",
}
_CLOCK_CELLS = 8
COLUMN_CELLS = _CLOCK_CELLS + 3
"""Width of the narrow column: time, level, and the blanks after them."""


def format_prefix(prefix: LogPrefix) -> str:
    """`23:03:15 I `: the prefix in a narrow column, the rank if it has no time; empty for a line without
    one.
    """
    if not prefix.clock and prefix.level is None:
        return f"{prefix.rank[: COLUMN_CELLS - 1]:<{COLUMN_CELLS}}" if prefix.rank else ""
    letter = LEVEL_LETTERS[prefix.level] if prefix.level is not None else " "
    return f"{prefix.clock:{_CLOCK_CELLS}} {letter} "


_DAY_S = 86_400.0
_SLACK_S = 3_600.0
"""Lines of one log are this far out of order at most."""


class LogClock:
    """Epoch seconds of the lines of one log, read one after the other in either direction.

    `anchor`: approximate time of the first line, give or take half a day. Clocks are taken to be of this
    machine's time zone.
    """

    def __init__(self, anchor: float) -> None:
        self.now = anchor
        """Time of the line that was read last."""

    def older(self, prefix: LogPrefix) -> float | None:
        """Time of a line above the last one; `None` if it has no clock."""
        return self._at(prefix, self.now - _DAY_S / 2 + _SLACK_S)

    def newer(self, prefix: LogPrefix) -> float | None:
        """Time of a line below the last one."""
        return self._at(prefix, self.now + _DAY_S / 2 - _SLACK_S)

    def _at(self, prefix: LogPrefix, middle: float) -> float | None:
        """The time nearest to `middle` that its clock shows."""
        if not prefix.clock:
            return None
        hours, minutes, seconds = map(int, prefix.clock.split(":"))
        if prefix.date is not None:
            year, month, day = prefix.date
            moment = _moment(year or time.localtime(self.now).tm_year, month, day, hours, minutes, seconds)
            if moment is not None:
                self.now = moment
                return moment
        if hours > 23 or minutes > 59 or seconds > 60:
            return None
        local = time.localtime(middle)
        of_day = 3600 * hours + 60 * minutes + seconds
        moment = middle - (3600 * local.tm_hour + 60 * local.tm_min + local.tm_sec) + of_day
        if moment - middle > _DAY_S / 2:
            moment -= _DAY_S
        elif middle - moment > _DAY_S / 2:
            moment += _DAY_S
        self.now = moment
        return moment


def _moment(year: int, month: int, day: int, hours: int, minutes: int, seconds: int) -> float | None:
    if not (1970 <= year < 3000 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    return time.mktime((year, month, day, hours, minutes, seconds, 0, 0, -1))
