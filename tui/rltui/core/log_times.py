"""When a line was written, where it tells no more than the time of day."""

from __future__ import annotations

import time

from rltui.core.log_head import LogHead

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

    def older(self, head: LogHead) -> float | None:
        """Of a line above the one before; `None` where it has no clock."""
        return self._at(head, self.now - _DAY_S / 2 + _SLACK_S)

    def newer(self, head: LogHead) -> float | None:
        """Of a line below the one before."""
        return self._at(head, self.now + _DAY_S / 2 - _SLACK_S)

    def _at(self, head: LogHead, middle: float) -> float | None:
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
