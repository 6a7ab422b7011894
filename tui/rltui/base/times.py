"""Times and spans as people read and write them. Pure: the caller provides the present time."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_SPAN_PART = re.compile(r"([\d.]+)([smhdw])")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DATES = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
_TIMES = ("%H:%M", "%H:%M:%S")
_SECONDS = re.compile(r"\d{9,11}(?:\.\d+)?")
MOMENT_HINT = (
    "an age (90s, 30m, 2h, 1d12h) or a time (14:30, 2026-11-22, '2026-11-22 14:30', an `at` of --json)"
)
"""Grammar of `parse_moment`."""


class Moment(NamedTuple):
    """A time, or a step of a run: one of both."""

    at: float | None = None
    step: int | None = None


class Period(NamedTuple):
    """A span between two moments, open on a side whose moment is `None`."""

    since: Moment | None = None
    until: Moment | None = None

    def holds(self, at: float, step: int | None) -> bool:
        """True if something of that time and step lies in it. Without a step it is not within steps."""
        first, last = (bound or Moment() for bound in self)
        if (first.step is not None or last.step is not None) and step is None:
            return False
        return (
            (first.at is None or at >= first.at)
            and (last.at is None or at <= last.at)
            and (first.step is None or (step or 0) >= first.step)
            and (last.step is None or (step or 0) <= last.step)
        )


def date_text(moment: float) -> str:
    """Format a moment in local time: `2026-11-22 14:30`."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def clock_text(moment: float) -> str:
    """Format the time of day in local time: `14:30:05`."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


def stamp_text(moment: float) -> str:
    """Format a moment in local time for a name of a file: `20261122-143005`; names sort by time."""
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(moment))


def parse_span(text: str) -> float | None:
    """Seconds of `90s`, `30m`, `2h`, `1d12h`, `2w`; `None` for anything else."""
    if not _SPAN.fullmatch(text):
        return None
    return sum(float(count) * _UNIT_S[unit] for count, unit in _SPAN_PART.findall(text))


def parse_moment(text: str, now: float) -> float | None:
    """Seconds since 1970 of a time, or of a span before `now`; `None` for any other text."""
    if (ago := parse_span(text)) is not None:
        return now - ago
    if _SECONDS.fullmatch(text):
        return float(text)
    for form in _DATES:
        try:
            return time.mktime(time.strptime(text, form))
        except (ValueError, OverflowError):
            continue
    today = time.strftime("%Y-%m-%d ", time.localtime(now))
    for form in _TIMES:
        try:
            candidate = time.mktime(time.strptime(today + text, f"%Y-%m-%d {form}"))
        except ValueError:
            continue
        # the last time that the clock showed it
        return candidate if candidate <= now else candidate - _UNIT_S["d"]
    return None
