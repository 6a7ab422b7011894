"""A pane that shows a log: moved in, searched, marked, copied from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.message import Message

from rltui.core.lines import Level
from rltui.core.log_query import Query
from rltui.errors import RltuiError
from rltui.ui.actions import KeyContext, bindings
from rltui.ui.widgets.log_selection import SelectingLog

_SWITCHES = ("wrap", "whole", "raw")
"""How lines are shown otherwise than usual."""


class LogPane(SelectingLog, can_focus=True):
    """Adds marks, and what its owner does."""

    BINDINGS = bindings(KeyContext.LOG)
    place: ClassVar = KeyContext.LOG

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

    def forget_lines(self) -> None:
        self._marks = set()
        super().forget_lines()

    @property
    def look(self) -> dict[str, Any]:
        """What a person has chosen, plain JSON: the place, what is looked for, how lines are shown."""
        look: dict[str, Any] = {name: True for name in _SWITCHES if getattr(self, name)}
        if self._query is not None:
            look |= {"query": self._query.text, "only": self._only}
        if self._level is not None:
            look["level"] = self._level.value
        if not self.follow and self._rows and self._source is not None:
            seen = self._rows[min(len(self._rows) - 1, self.size.height // 3)]
            look["offset"] = self._source.offset(seen.line)
        return look

    def look_again(self, look: Mapping[str, Any], *, same_log: bool) -> None:
        """As it was left; the place only in the `same_log`. What makes no sense is left out."""
        for name in _SWITCHES:
            setattr(self, name, look.get(name) is True)
        query, level = look.get("query"), look.get("level")
        with suppress(RltuiError, ValueError):
            self._level = Level(level) if isinstance(level, str) else None
            self._only = look.get("only") is True
            if isinstance(query, str) or self._level is not None:
                self._look_for(Query.typed(query) if isinstance(query, str) else None, self._level)
        offset = look.get("offset")
        if same_log and isinstance(offset, int) and not self._only and self._level is None:
            self.show_offset(offset)

    def action_attempt(self, step: int) -> None:
        self.post_message(self.AttemptWanted(step))

    def action_pager(self) -> None:
        if self.log_path is not None:
            self.post_message(self.PagerWanted(self.log_path))

    # marks

    def action_mark(self) -> None:
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
