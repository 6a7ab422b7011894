"""What stands before the message in each line of a log: time, level, process, rank, place in the source.

All of it is known by its form, whichever program wrote it, so that a narrow column can stand for it.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from rltui.core.lines import Level, parse_level

_LEVEL = r"TRACE|DEBUG|INFO|SUCCESS|WARN(?:ING)?|ERROR|EXCEPTION|CRITICAL|FATAL"
_RANK = re.compile(r"(?:\[(?P<rank>[A-Za-z_]{1,40}\d{1,6})\]:\s?)")
_PROCESS = re.compile(r"\((?P<process>[A-Za-z][^() ]{0,60})(?: \w+=\w+)* pid=\d+[^()]{0,40}\)\s?")
_DAY = r"(?P<month>\d\d)-?(?P<day>\d\d)"
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d+)?"
_PLACE = r"[^\[\]\s]{1,120}\](?: |$)"
_LOGURU = rf"{_CLOCK} +\[?(?P<level>{_LEVEL})\]?(?: |$)"
"""`23:03:15    INFO `, in hosted copies `23:03:15 [INFO] `."""
_VLLM = rf"(?P<level>{_LEVEL}) +{_DAY} {_CLOCK} \[{_PLACE}"
"""`INFO 11-21 23:03:15 [server.py:1] `."""
_LOGGING = (
    rf"\[?(?P<year>\d{{4}})-{_DAY}[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?\]?[\s|-]*(?:[\w.]{{1,60}} - )?"
    rf"\[?(?P<level>{_LEVEL})\]?(?: +\| [\w.<>:]{{1,120}} -)?(?:\s*[-:|])?(?: |$)"
    r"(?:[a-z]\w{0,60}(?:::\w{1,60})+: (?:[\w./-]{1,120}\.rs:\d{1,6}: )?)?"
)
"""`2026-11-21 23:03:15,123 - name - INFO - `, `2026-11-21 23:03:15.123 | INFO     | a:b:1 - `, and Rust's
`2026-11-21 23:03:15  INFO a::b: src/b.rs:1: `.
"""
_GLOG = rf"\[?(?P<letter>[IWEF]){_DAY} {_CLOCK}(?: +\d+)? {_PLACE}"
"""glog's and torch's `[W1120 23:33:07.367283046 utils.cpp:68] `."""
_NO_CLOCK = rf"(?P<level>{_LEVEL}):(?:[\w.]{{1,60}}:| +)"
"""uvicorn's `INFO:     `, logging's `INFO:root:`."""
_FORMS = tuple(map(re.compile, (_LOGURU, _VLLM, _LOGGING, _GLOG, _NO_CLOCK, rf"{_CLOCK} ")))
_LETTERS = {"I": Level.INFO, "W": Level.WARNING, "E": Level.ERROR, "F": Level.CRITICAL}
_LONGEST = 400


class LogPrefix(NamedTuple):
    length: int = 0
    """Letters before the message."""
    clock: str = ""
    """`23:03:15`."""
    date: tuple[int | None, int, int] | None = None
    """Year, month and day, where it tells."""
    level: Level | None = None
    rank: str = ""
    """torchrun's `trainer0`, or the process that vLLM names."""


_NONE = LogPrefix()


def log_head(text: str) -> LogPrefix:
    head = text[:_LONGEST]
    rank, start = "", 0
    while (found := _before_all(head, start)) is not None:
        rank, start = found[1], found.end()
    for form in _FORMS:
        if (found := form.match(head, start)) is not None:
            return _head(found, rank)
    return LogPrefix(length=start, rank=rank) if start else _NONE


def _before_all(head: str, start: int) -> re.Match[str] | None:
    """A rank or a process there. Most lines have none, which their first letter says at once."""
    match head[start : start + 1]:
        case "[":
            return _RANK.match(head, start)
        case "(":
            return _PROCESS.match(head, start)
    return None


def _head(found: re.Match[str], rank: str) -> LogPrefix:
    groups = found.groupdict()
    date = None
    if month := groups.get("month"):
        year = groups.get("year")
        date = (int(year) if year else None, int(month), int(found["day"]))
    level = groups.get("level")
    letter = groups.get("letter")
    return LogPrefix(
        length=found.end(),
        clock=groups.get("clock") or "",
        date=date,
        level=parse_level(level) if level else _LETTERS[letter] if letter else None,
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
"""Of the narrow column: time, level, and the blanks behind them."""


def folded_head(head: LogPrefix) -> str:
    """`23:03:15 I `: what stands for a head in a narrow column, the rank where it has no time; empty for a
    line that has none.
    """
    if not head.clock and head.level is None:
        return f"{head.rank[: COLUMN_CELLS - 1]:<{COLUMN_CELLS}}" if head.rank else ""
    letter = LEVEL_LETTERS[head.level] if head.level is not None else " "
    return f"{head.clock:{_CLOCK_CELLS}} {letter} "


_DAY_S = 86_400.0
_SLACK_S = 3_600.0
"""Lines of one log are this far out of order at most."""


class LogClock:
    """Epoch seconds of the lines of one log, read one after the other in either direction.

    `anchor`: about when the first line that is asked about was written, give or take half a day. Clocks are
    taken to be of this machine's time zone.
    """

    def __init__(self, anchor: float) -> None:
        self.now = anchor
        """Of the line that was asked about last."""

    def older(self, head: LogPrefix) -> float | None:
        """Of a line above the one before; `None` where it has no clock."""
        return self._at(head, self.now - _DAY_S / 2 + _SLACK_S)

    def newer(self, head: LogPrefix) -> float | None:
        """Of a line below the one before."""
        return self._at(head, self.now + _DAY_S / 2 - _SLACK_S)

    def _at(self, head: LogPrefix, middle: float) -> float | None:
        """The moment nearest to `middle` that its clock shows."""
        if not head.clock:
            return None
        hours, minutes, seconds = map(int, head.clock.split(":"))
        if head.date is not None:
            year, month, day = head.date
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
