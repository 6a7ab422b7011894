"""A pane that shows a log: moved in, searched, marked, copied from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.message import Message

from rltui.core.lines import Level, LogSource
from rltui.core.log_query import Query
from rltui.errors import RltuiError
from rltui.ui.actions import Place, bindings, key_of
from rltui.ui.copying import CopyWanted
from rltui.ui.widgets.log_finding import OpenSearch, SearchedLog
from rltui.ui.widgets.log_view import ViewRow

_MOST_COPIED = 20_000
_SWITCHES = ("wrap", "whole", "raw")
"""How lines are shown otherwise than usual."""


class LogPane(SearchedLog, can_focus=True):
    """Adds marks, and lines that are selected, to be copied or saved."""

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
        self._chosen: tuple[int, int] | None = None
        """Offsets of the line where selecting began, and of the one it goes to."""
        self.has_cursor = False
        """Up and down go from line to line."""
        self.log_name = ""
        """What a file is called that lines of it are saved to."""
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
            self._marks, self._chosen, self.has_cursor = set(), None, False
        super().set_source(source, placeholder, search=search)

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
        """The owner knows which there are."""
        self.post_message(self.AttemptWanted(step))

    def action_pager(self) -> None:
        """As a whole."""
        if self.log_path is not None:
            self.post_message(self.PagerWanted(self.log_path))

    # marks

    def line_meant(self) -> int | None:
        """Offset of the selected line, the one gone to, or the newest in view."""
        if self._chosen is not None:
            return self._chosen[1]
        if self._here is not None and self._is_in_view(self._here):
            return self._here
        return self._source.offset(self._rows[-1].line) if self._source is not None and self._rows else None

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

    # selecting

    def action_select(self) -> None:
        """Begin with the line that is meant; once more ends it."""
        offset = self.line_meant()
        self._chosen = None if self._chosen is not None or offset is None else (offset, offset)
        self.set_reactive(LogPane.follow, False)
        self._lay_out()
        self.refresh()
        self.refresh_bindings()

    def action_move_rows(self, rows: int) -> None:
        """Move, or take more or fewer lines."""
        if self._source is None or not (self._chosen or (self.has_cursor and self._rows)):
            super().action_move_rows(rows)
            return
        meant = self.line_meant()
        number = None if meant is None else self._source.number_at(meant)
        if number is None:
            return
        number = max(self._source.start, min(number + rows, self._source.stop - 1))
        if self._chosen is not None:
            self._chosen = self._chosen[0], self._source.offset(number)
        else:
            self._here = self._source.offset(number)
        self.set_reactive(LogPane.follow, False)
        if self._rows and not self._rows[0].line <= number <= self._rows[-1].line:
            self._viewport.top = ViewRow(self._viewport.top.line + rows, 0)
        self._lay_out()
        self.refresh()

    def action_copy(self) -> None:
        """To the clipboard."""
        self._take(to_file=False)

    def action_save(self) -> None:
        """To a file."""
        self._take(to_file=True)

    def _take(self, *, to_file: bool) -> None:
        if self._source is None or not self._rows:
            return
        first, last = self._rows[0].line, self._rows[-1].line
        if self._chosen is not None:
            known = [self._source.number_at(offset) for offset in self._chosen]
            first, last = sorted(number for number in known if number is not None) or (first, last)
        numbers = range(first, min(last + 1, first + _MOST_COPIED))
        lines = [self._strips.text(number) for number in numbers]
        what = f"{len(lines):,} {'line' if len(lines) == 1 else 'lines'}"
        name = f"{self.log_name}.log" if to_file else ""
        self.post_message(CopyWanted("\n".join(lines), what, name))
        self._chosen = None
        self._lay_out()
        self.refresh()
        self.refresh_bindings()

    def action_leave(self) -> None:
        """Select nothing any more, else as a search is left."""
        if self._chosen is None:
            super().action_leave()
            return
        self._chosen = None
        self._lay_out()
        self.refresh()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what makes sense now."""
        if action == "leave" and self._chosen is not None:
            return True
        return super().check_action(action, parameters)

    def _position(self, lines_below: int) -> str:
        if self._chosen is None or self._source is None:
            return super()._position(lines_below)
        known = [number for offset in self._chosen if (number := self._source.number_at(offset)) is not None]
        count = max(known, default=0) - min(known, default=0) + 1
        keys = f"{key_of('copy')} copies, {key_of('write')} writes, {key_of('back')}"
        return f"{count:,} {'line' if count == 1 else 'lines'} selected: {keys}"

    def _part_of(self, number: int) -> str | None:
        if (self._chosen or self._marks) and self._source is not None:
            offset = self._source.offset(number)
            if self._chosen is not None and min(self._chosen) <= offset <= max(self._chosen):
                return "chosen"
            if offset in self._marks:
                return "mark"
        return super()._part_of(number)
