"""How often an alert may come, and which ones go beyond the TUI. Pure; times are monotonic seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rltui.core.api import Alert
from rltui.core.text import duration

_SEVERITIES = ("information", "warning", "error")
_GOOD_NEWS = frozenset({"recovered", "finished"})
"""Kinds that end a trouble: they always pass, and what comes after them is new."""
_OWN_TITLES = frozenset({"notice", "config", "health"})
"""Kinds in which one title has nothing to do with another."""

_Key = tuple[str, str | None, str]


@dataclass(slots=True)
class _Passed:
    severity: int
    at: float
    held_back: int = 0
    newest_at: float = 0.0


class AlertLimits:
    """Lets the first alert of a kind about a component pass, and counts those that follow too soon.

    One that is more severe than the last that passed is news and passes as well.
    """

    def __init__(self, repeat_s: float) -> None:
        self.repeat_s = repeat_s
        self._passed: dict[_Key, _Passed] = {}

    def admit(self, alert: Alert, at: float) -> tuple[Alert, int] | None:
        """The alert as it is told and how many were held back before it; `None` if it comes too soon."""
        if alert.kind in _GOOD_NEWS:
            self._forget(alert.component)
            return alert, 0
        key = (alert.kind, alert.component, alert.title if alert.kind in _OWN_TITLES else "")
        last, severity = self._passed.get(key), _SEVERITIES.index(alert.severity)
        if last is not None and at - last.at < self.repeat_s and severity <= last.severity:
            last.held_back += 1
            last.newest_at = at
            return None
        self._passed[key] = _Passed(severity, at)
        if last is None or not last.held_back:
            return alert, 0
        more = f"({last.held_back} more like this in {duration(last.newest_at - last.at)})"
        return alert.model_copy(update={"text": f"{alert.text} {more}"}), last.held_back

    def _forget(self, component: str | None) -> None:
        """The trouble of a component is over; of all of them where none is named."""
        if component is None:
            self._passed.clear()
        for key in [key for key in self._passed if key[1] == component]:
            del self._passed[key]


def severe_enough(least: str) -> Callable[[Alert], bool]:
    """Tells the alerts that go beyond the TUI: at least that severe, or good news."""
    lowest = _SEVERITIES.index(least)
    return lambda alert: alert.kind in _GOOD_NEWS or _SEVERITIES.index(alert.severity) >= lowest
