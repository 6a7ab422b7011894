"""Limits on how often an alert may come, and which alerts go beyond the TUI. Pure; times are monotonic
seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rltui.base.text import duration
from rltui.core.experiment.api import Alert

_SEVERITIES = ("information", "warning", "error")
_GOOD_NEWS = frozenset({"recovered", "finished"})
"""Kinds that end a problem: they always pass, and the next alert after them is new."""
_OWN_TITLES = frozenset({"notice", "config", "health"})
"""Kinds in which each title is counted separately."""

_Key = tuple[str, str | None, str]


@dataclass(slots=True)
class _Passed:
    severity: int
    time: float
    suppressed: int = 0
    last_time: float = 0.0


class AlertLimits:
    """Lets the first alert of a kind about a component pass, and counts those that follow too soon.

    An alert that is more severe than the last one that passed passes as well.
    """

    def __init__(self, repeat_s: float) -> None:
        self.repeat_s = repeat_s
        self._passed: dict[_Key, _Passed] = {}

    def admit(self, alert: Alert, now: float) -> tuple[Alert, int] | None:
        """The alert to send and the number suppressed before it; `None` if it comes too soon."""
        if alert.kind in _GOOD_NEWS:
            self._forget(alert.component)
            return alert, 0
        key = (alert.kind, alert.component, alert.title if alert.kind in _OWN_TITLES else "")
        last, severity = self._passed.get(key), _SEVERITIES.index(alert.severity)
        if last is not None and now - last.time < self.repeat_s and severity <= last.severity:
            last.suppressed += 1
            last.last_time = now
            return None
        self._passed[key] = _Passed(severity, now)
        if last is None or not last.suppressed:
            return alert, 0
        more = f"({last.suppressed} more like this within {duration(last.last_time - last.time)})"
        return alert.replace(text=f"{alert.text} {more}"), last.suppressed

    def _forget(self, component: str | None) -> None:
        """Start counting anew for a component; for all of them if it is `None`."""
        if component is None:
            self._passed.clear()
        for key in [key for key in self._passed if key[1] == component]:
            del self._passed[key]


def severe_enough(least: str) -> Callable[[Alert], bool]:
    """A predicate for alerts that go beyond the TUI: at least that severe, or good news."""
    lowest = _SEVERITIES.index(least)
    return lambda alert: alert.kind in _GOOD_NEWS or _SEVERITIES.index(alert.severity) >= lowest
