"""A pane that shows a log: moved in, searched, marked, copied from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.message import Message

from rltui.core.lines import LogSource
from rltui.ui.actions import Place, bindings
from rltui.ui.widgets.log_finding import OpenSearch
from rltui.ui.widgets.log_selection import SelectingLog


class LogPane(SelectingLog, can_focus=True):
    """Adds marks, and what its owner does."""

    BINDINGS = bindings(Place.LOG)
    place: ClassVar = Place.LOG

    @dataclass
    class AttemptWanted(Message):
        """Of an earlier (-1) or later (1) attempt."""

        step: int

    @dataclass
    class PagerWanted(Message):
        """The file of the log, in a program of the person's own."""

        path: str

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._marks: set[int] = set()
        """Offsets of lines."""
        self.log_path: str | None = None
        """The file that is shown, where it is one."""

    def set_source(
        self,
        source: LogSource | None,
        placeholder: str = "no output yet",
        *,
        search: OpenSearch | None = None,
    ) -> None:
        """Show another log from its end."""
        if source is not self._whole:
            self._marks = set()
        super().set_source(source, placeholder, search=search)

    def action_attempt(self, step: int) -> None:
        """The owner knows which there are."""
        self.post_message(self.AttemptWanted(step))

    def action_pager(self) -> None:
        """As a whole."""
        if self.log_path is not None:
            self.post_message(self.PagerWanted(self.log_path))

    # marks

    def action_mark(self) -> None:
        """Set it off, or no longer."""
        if (offset := self.line_meant()) is not None:
            self._marks ^= {offset}
            self.refresh()

    def action_next_mark(self) -> None:
        """The nearest above what is in view, else the last one."""
        if not self._marks or self._source is None or not self._rows:
            return
        place = self._place_behind() if self._here in self._marks else self._source.offset(self._rows[0].line)
        above = [mark for mark in self._marks if mark < place]
        self.go_to_offset(max(above or self._marks))

    def _part_of(self, number: int) -> str | None:
        if self._marks and self._source is not None and self._source.offset(number) in self._marks:
            return "mark"
        return super()._part_of(number)
