"""Tells which lines of a log are of a period of times or steps. Pure."""

from __future__ import annotations

import re

from rltui.base.times import Period
from rltui.core.logs.prefix import LogClock, parse_prefix

_STEP = re.compile(r"\bstep[ :=#]{0,3}(\d{1,15})\b", re.IGNORECASE)
"""`Step 297 | Loss`, `step=297`, `step: 297`."""
_LONGEST = 200
"""Characters of a message in which its step stands."""


class LogPeriod:
    """Takes the lines of one log in their order. A line without a time, or a step, has that of the line
    before; the first ones have the time at which the log was started.
    """

    def __init__(self, period: Period, started_at: float) -> None:
        self.period, self.started_at = period, started_at
        self._clock = LogClock(started_at)
        self._step: int | None = None

    def jump(self, moment: float) -> None:
        """Say that the next line is the first one written at `moment` or later."""
        self._clock.now = moment

    def holds(self, text: str) -> bool:
        prefix = parse_prefix(text)
        self._clock.newer(prefix)
        if match := _STEP.search(text, prefix.length, prefix.length + _LONGEST):
            self._step = int(match[1])
        return self.period.holds(self._clock.now, self._step)
