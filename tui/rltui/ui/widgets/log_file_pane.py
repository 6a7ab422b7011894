"""A log file that no component here prints: which file it is and whether it still grows, the log below."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.reactive import reactive

from rltui.core.api import FollowedLog
from rltui.core.growth import quiet_s
from rltui.core.text import duration
from rltui.ui.states import SEPARATOR, Badge
from rltui.ui.text import clean_line
from rltui.ui.widgets.followed_source import OpenLog
from rltui.ui.widgets.reader_pane import ReaderPane

GROWING = Badge("●", "growing", "$text-success")
QUIET = Badge("○", "quiet", "$foreground 60%")
MISSING = Badge("◌", "no file yet", "$foreground 60%")


def log_title(log: FollowedLog, now: float, *, selected: bool, width: int | None = None) -> Content:
    """`trainer ● growing · logs/latest/trainer.log`. The file is left out where it does not fit."""
    quiet = quiet_s(log.changed_at, now)
    badge = MISSING if log.path is None else GROWING if quiet is None else QUIET
    state = f"{badge.symbol} {badge.word}" + (f" {duration(quiet)}" if quiet is not None else "")
    parts: list[tuple[str, str]] = [
        ("▸ " if selected else "", "bold"),
        (clean_line(log.title or log.id), "bold"),
        (" ", ""),
        (state, badge.style),
    ]
    if log.name:
        longer = [*parts, SEPARATOR, (clean_line(log.name), "$foreground 60%")]
        if width is None or Content.assemble(*longer).cell_length <= width:
            parts = longer
    return Content.assemble(*parts)


def placeholder(log: FollowedLog) -> str:
    """What an empty pane says."""
    if log.path is not None:
        return "Nothing in it yet."
    others = len(log.wanted) - 1
    more = f" and {others} more" if others else ""
    return f"Looked for {log.wanted[0]}{more}."


class LogFilePane(ReaderPane):
    """Shows one log file. `log_file` and `selected` are all it needs."""

    log_file: reactive[FollowedLog | None] = reactive(None, init=False)

    def __init__(self, log_id: str, open_log: OpenLog, clock: Callable[[], float]) -> None:
        super().__init__(log_id, open_log, clock, id_prefix="log", classes="log-file -empty")

    def watch_log_file(self, log: FollowedLog | None) -> None:
        """Follow the file that there is now."""
        if log is None:
            return
        self.set_class(log.path is None, "-empty")
        self._followed.show(self.log_pane, log.path, clean_line(placeholder(log)))
        self.update_title()

    def update_title(self) -> None:
        """How long it has been quiet; repaints only where the text is another one."""
        if self.log_file is None:
            return
        title = log_title(self.log_file, self._clock(), selected=self.selected, width=self._title_width)
        self._show_title(title)
