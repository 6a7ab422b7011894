"""What the panes that are read have in common: a log under a title."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive

from rltui.ui.widgets.followed_source import FollowedSource, OpenLog
from rltui.ui.widgets.log_pane import LogPane

TITLE_MARGIN = 6
"""Cells of a pane's top edge that its title cannot have: corners, and a blank and a line on each side."""


class ReaderPane(Vertical):
    """Keeps one log open, and a title that changes with time. A pane of it says which ones."""

    selected: reactive[bool] = reactive(False, init=False, toggle_class="-selected")

    def __init__(
        self, reader_id: str, open_log: OpenLog, clock: Callable[[], float], *, id_prefix: str, classes: str
    ) -> None:
        super().__init__(id=f"{id_prefix}-{reader_id}", classes=f"pane {classes}")
        self.reader_id = reader_id
        """Of the component or log file that is shown."""
        self._followed = FollowedSource(open_log)
        self._clock = clock
        self._title = ""

    def compose(self) -> ComposeResult:
        """The log."""
        pane = LogPane()
        pane.border_title = self.reader_id
        yield pane

    @property
    def log_pane(self) -> LogPane:
        """The log, which takes the focus."""
        return self.query_one(LogPane)

    @property
    def _title_width(self) -> int:
        """Cells that the title can have."""
        return max(0, self.size.width - TITLE_MARGIN)

    def update_title(self) -> None:
        """By what is known now; repaints only where the text is another one."""
        raise NotImplementedError

    def _show_title(self, title: Content) -> None:
        if title.markup != self._title:
            self._title = title.markup
            self.log_pane.show_title(title)

    def watch_selected(self) -> None:
        """Mark the title."""
        self.update_title()

    def on_resize(self) -> None:
        """The title may have room for more now, or for less."""
        self.update_title()

    def on_unmount(self) -> None:
        """Give the log back."""
        self._followed.close()
