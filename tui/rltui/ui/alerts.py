"""Alerts as toasts, and for those who look elsewhere as a bell and a desktop notification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.core.api import Alert
from rltui.ui.text import clean, clean_line

if TYPE_CHECKING:
    from textual.app import App

_STAY_S = {"error": 15.0, "warning": 8.0, "information": 5.0}
_MARKS = {
    "error": ("✗", "$text-error"),
    "warning": ("⚠", "$text-warning"),
    "information": ("·", "$foreground"),
}
_GOOD_NEWS = ("recovered", "finished")


def alert_mark(alert: Alert) -> tuple[str, str]:
    """Symbol and style: good news do not look like trouble."""
    return ("✓", "$text-success") if alert.kind in _GOOD_NEWS else _MARKS[alert.severity]


def show_alert(app: App[None], alert: Alert) -> None:
    """A toast; what matters more stays longer."""
    app.notify(
        clean(alert.text),
        title=f"{alert_mark(alert)[0]} {clean_line(alert.title)}",
        severity=alert.severity,
        timeout=_STAY_S[alert.severity],
        markup=False,
    )


def rings(alert: Alert) -> bool:
    """Whether it is worth turning a head."""
    return alert.severity in ("error", "warning")


def desktop_notification(text: str, *, inside_tmux: bool) -> str:
    """What makes a terminal show `text` outside its window (OSC 9), without anything that could end it early.

    tmux passes it on where its option `allow-passthrough` is on. A terminal that does not know it ignores it.
    """
    sequence = f"\x1b]9;{clean_line(text)}\x07"
    if not inside_tmux:
        return sequence
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"
