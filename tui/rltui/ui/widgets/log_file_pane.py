"""A log file that no component here prints: which file it is and whether it still grows, the log below."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive

from rltui.core.api import FollowedLog
from rltui.core.durations import duration
from rltui.core.growth import quiet_s
from rltui.ui.states import SEPARATOR, Look
from rltui.ui.text import clean_line
from rltui.ui.widgets.component_pane import TITLE_MARGIN
from rltui.ui.widgets.followed_source import FollowedSource, OpenLog
from rltui.ui.widgets.log_pane import LogPane

GROWING = Look("●", "growing", "$text-success")
QUIET = Look("○", "quiet", "$foreground 60%")
MISSING = Look("◌", "no file yet", "$foreground 60%")


def log_title(log: FollowedLog, now: float, *, selected: bool, width: int | None = None) -> Content:
    """`trainer ● growing · logs/latest/trainer.log`. The file is left out where it does not fit."""
    quiet = quiet_s(log.changed_at, now)
    look = MISSING if log.path is None else GROWING if quiet is None else QUIET
    state = f"{look.symbol} {look.word}" + (f" {duration(quiet)}" if quiet is not None else "")
    parts: list[tuple[str, str]] = [
        ("▸ " if selected else "", "bold"),
        (clean_line(log.title or log.id), "bold"),
        (" ", ""),
        (state, look.style),
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


class LogFilePane(Vertical):
    """Shows one log file. `log` and `selected` are all it needs."""

    log_file: reactive[FollowedLog | None] = reactive(None, init=False)
    selected: reactive[bool] = reactive(False, init=False, toggle_class="-selected")

    def __init__(self, log_id: str, open_log: OpenLog, clock: Callable[[], float]) -> None:
        super().__init__(id=f"log-{log_id}", classes="pane log-file -empty")
        self.log_id = log_id
        self._followed = FollowedSource(open_log)
        self._clock = clock
        self._title = ""

    def compose(self) -> ComposeResult:
        """The log."""
        pane = LogPane()
        pane.border_title = self.log_id
        yield pane

    @property
    def log_pane(self) -> LogPane:
        """The log, which takes the focus."""
        return self.query_one(LogPane)

    def watch_log_file(self, log: FollowedLog | None) -> None:
        """Follow the file that there is now."""
        if log is None:
            return
        self.set_class(log.path is None, "-empty")
        self._followed.show(self.log_pane, log.path, clean_line(placeholder(log)))
        self.update_title()

    def watch_selected(self) -> None:
        """Mark the title."""
        self.update_title()

    def update_title(self) -> None:
        """How long it has been quiet; repaints only where the text is another one."""
        if self.log_file is None:
            return
        width = max(0, self.size.width - TITLE_MARGIN)
        title = log_title(self.log_file, self._clock(), selected=self.selected, width=width)
        if title.markup != self._title:
            self._title = title.markup
            self.log_pane.show_title(title)

    def on_resize(self) -> None:
        """The title may have room for the file now, or no more."""
        self.update_title()

    def on_unmount(self) -> None:
        """Give the log back."""
        self._followed.close()
