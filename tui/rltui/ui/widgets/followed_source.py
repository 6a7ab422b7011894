"""The log that a pane follows: opened when its path is told, given back when another one is."""

from __future__ import annotations

from collections.abc import Callable

from rltui.core.lines import LogSource
from rltui.errors import RltuiError
from rltui.ui.text import clean_line
from rltui.ui.widgets.log_pane import LogPane

OpenLog = Callable[[str], LogSource]


class FollowedSource:
    """Keeps one log open for a `LogPane`."""

    def __init__(self, open_log: OpenLog) -> None:
        self._open = open_log
        self._path: str | None = None
        self._source: LogSource | None = None

    def show(self, pane: LogPane, path: str | None, placeholder: str) -> None:
        """Show the log at `path`, or `placeholder` while it has no lines. One that cannot be opened says why.

        That one is tried again the next time.
        """
        if path is not None and path == self._path:
            pane.set_source(self._source, placeholder)
            return
        before, self._source, self._path = self._source, None, path
        if path is not None:
            try:
                self._source = self._open(path)
            except RltuiError as error:
                self._path, placeholder = None, clean_line(error.title)
        pane.set_source(self._source, placeholder)
        if before is not None:
            before.close()

    def close(self) -> None:
        """Give the log back."""
        if self._source is not None:
            self._source.close()
