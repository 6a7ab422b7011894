"""The state of a log view, without Textual: a window onto a log, a search and a selection in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

from rltui.base.text import count_text
from rltui.core.logs.lines import Level
from rltui.core.logs.query import Query
from rltui.core.logs.source import LogSource
from rltui.errors import RltuiError
from rltui.ui.logs.rows import TextRow, cut_cells
from rltui.ui.logs.search import LogSearch, MatchingLines, OpenSearch
from rltui.ui.logs.selection import END_CELL, Selection, TextPosition, word_at
from rltui.ui.logs.window import LogWindow, WindowRow

_MAX_COPIED_LINES = 20_000
_LEVELS: tuple[Level | None, ...] = (None, Level.WARNING, Level.ERROR)
_SWITCHES = ("wrap", "whole", "raw")
"""Switches of the window; also keys of the saved state."""


class Tint(StrEnum):
    """Reasons for which a line is tinted."""

    CURRENT = "here"
    """The line that was gone to."""
    BOOKMARK = "mark"


class VisibleRow(NamedTuple):
    text: TextRow
    tint: Tint | None
    selected: tuple[int, int] | None
    """First cell of the view that is selected, and the cell behind the last one."""


class LogModel:
    """A log in a window, with what a person does to it.

    Whoever calls a method that changes something then calls `lay_out`, which makes `visible` of it.
    """

    def __init__(
        self,
        run_search: Callable[[Callable[[], None]], object],
        on_search_end: Callable[[LogSearch], object],
        key_of: Callable[[str], str] = str,
    ) -> None:
        """`run_search`, `on_search_end`: see `LogSearch`. `key_of` names the key of an action in hints."""
        self._run_search, self._on_search_end, self._key_of = run_search, on_search_end, key_of
        self.window = LogWindow()
        self.visible: list[VisibleRow] = []
        self.log: LogSource | None = None
        """The window shows it, or those of its lines that match."""
        self.open_search: OpenSearch | None = None
        """`None`: the log is not searched here."""
        self.placeholder = ""
        """Text displayed while there is no log, or it has no lines."""
        self.note = ""
        """First text of the status: which log this is, if it is not the newest."""
        self.search: LogSearch | None = None
        self.only = False
        """Whether matches are shown alone."""
        self.level: Level | None = None
        """Whether lines of this level or more severe are shown alone."""
        self.current: int | None = None
        """Offset of the line that was gone to."""
        self.selection: Selection | None = None
        self.bookmarks: set[int] = set()
        """Offsets of lines."""
        self.has_cursor = False
        """Whether keys move the current line rather than the view."""

    # the log

    def set_log(
        self, log: LogSource | None, placeholder: str = "no output yet", open_search: OpenSearch | None = None
    ) -> None:
        """Show another log from its end; of the same one, change the placeholder alone."""
        if log is not self.log:
            self.end_search()
            self.selection, self.bookmarks = None, set()
            self.has_cursor = self.only = False
            self.level = None
            self.log, self.open_search = log, open_search
            self.window.set_source(log)
        if self.window.source is log:
            self.placeholder = placeholder

    def poll(self) -> bool:
        """Take up what is new in the log; returns whether there is anything to lay out."""
        has_news = self.window.poll()
        if self.search is None or self.log is None or self.search.resume(self.log):
            return has_news
        self.start_search(self.search.query, self.search.level)
        return True

    def lay_out(self) -> None:
        """Bring `visible` up to date with the window and all that was chosen."""
        self.window.lay_out()
        current = self.window.number_at(self.current)
        self.visible = [self._visible_row(row, current) for row in self.window.visible]

    def _visible_row(self, row: WindowRow, current: int | None) -> VisibleRow:
        tint = Tint.CURRENT if row.position.line == current else None
        selected = None
        source = self.window.source
        if source is not None and (self.bookmarks or self.selection is not None):
            offset = source.offset(row.position.line)
            tint = Tint.BOOKMARK if offset in self.bookmarks else tint
            selected = self._selected_cells(row, offset)
        return VisibleRow(row.text, tint, selected)

    def _selected_cells(self, row: WindowRow, offset: int) -> tuple[int, int] | None:
        """Cells of the view that are selected in a row of the line at byte `offset`."""
        first, last = (0, 0) if self.selection is None else self.selection.cells_of(offset)
        if self.selection is None or first >= last:
            return None
        window = self.window
        if self.selection.lines:
            return 0, window.width
        hidden = window.cells_above(row.position) + window.left
        first, last = max(0, first - hidden), min(last - hidden, max(1, row.text.cells - window.left))
        return (first, last) if first < last else None

    # moving

    def toggle_follow(self) -> None:
        self.window.toggle_follow()
        self.poll()

    def move_rows(self, rows: int) -> None:
        """Move the end of the selection, the cursor where there is one, else the view."""
        source, offset = self.window.source, self.chosen_offset()
        if self.selection is None and not (self.has_cursor and self.visible):
            self.window.scroll(rows)
        elif source is not None and (number := self.window.number_at(offset)) is not None:
            number = max(source.start, min(number + rows, source.stop - 1))
            if self.selection is None:
                self.current = source.offset(number)
            else:
                self.extend_selection(self.selection.end._replace(offset=source.offset(number)))
            self.window.show_line(number, rows)

    def scroll_pages(self, pages: float) -> None:
        """Move by pages, one row less each to keep a line for the eye."""
        self.move_rows(round(pages * max(1, self.window.height - 1)))

    def go_to(self, offset: int) -> None:
        """Show the line that begins there, set off from the others."""
        self.current = offset
        self.window.show_offset(offset)

    def toggle(self, switch: str) -> None:
        """`wrap`, `whole` or `raw`."""
        setattr(self.window, switch, not getattr(self.window, switch))
        if switch == "wrap":
            self.window.left = 0

    # searching

    @property
    def shows_matches_alone(self) -> bool:
        return self.search is not None and (self.only or self.level is not None)

    def start_search(self, query: Query | None, level: Level | None) -> None:
        """Search the whole log; without query and level, all lines are shown again."""
        self.end_search()
        self.window.query = query
        if self.log is not None and self.open_search is not None and (query is not None or level is not None):
            self.search = LogSearch(query, level, self.open_search, self._run_search, self._on_search_end)
            self.search.start(0, self.log)
        self._choose_source()

    def search_text(self, text: str) -> None:
        """An empty text ends the search, but for one by level.

        Raises:
            UsageError: It is longer than anyone types.
        """
        query = Query.from_text(text) if text else None
        if query is None:
            self.only = False
        self.start_search(query, self.level)

    @property
    def search_status(self) -> str:
        """How much of the log matches; the reason where nothing can be searched."""
        if self.open_search is None:
            return "no log to search yet"
        return "" if self.search is None else self.search.status(self.current, only=self.shows_matches_alone)

    def place(self) -> int | None:
        """Byte offset of the first line in view; `None` while the end is followed."""
        window = self.window
        if window.follow or not window.visible or window.source is None:
            return None
        return window.source.offset(window.first_line)

    def go_to_place(self, place: int | None) -> None:
        """`place`: as `place()` said it."""
        self.current = None
        if place is None:
            self.window.move_to_end()
        else:
            self.window.show_offset(place)

    def search_errors(self) -> None:
        self.only, self.level = False, None
        self.start_search(None, Level.ERROR)

    def take_results(self, search: LogSearch) -> bool:
        """After a pass through the log: go to a match the first time.

        Returns whether it was the first one for errors, and there are none.
        """
        is_first, search.has_result = not search.has_result, True
        if is_first and search.stops and not self.shows_matches_alone:
            # From the end to the newest; from elsewhere to the next one below.
            index = bisect_left(search.stops, self._offset_above())
            if self.window.follow or search.level is Level.ERROR or index == len(search.stops):
                index = len(search.stops) - 1
            self.go_to(search.stops[index])
        elif self.shows_matches_alone:
            self.window.poll()
        return is_first and search.is_of_errors and not search.offsets

    def go_to_match(self, step: int) -> None:
        """Go to the next match below (1) or above (-1), round and round."""
        search = self.search
        if search is None or not search.stops:
            return
        if step > 0:
            index = bisect_right(search.stops, self._offset_above()) % len(search.stops)
        else:
            index = bisect_left(search.stops, self._offset_below()) - 1
        self.go_to(search.stops[index])

    def toggle_only(self) -> None:
        self.only = not self.only
        self._choose_source()

    def cycle_level(self) -> None:
        if self.open_search is not None:
            self.level = _LEVELS[(_LEVELS.index(self.level) + 1) % len(_LEVELS)]
            self.start_search(self.window.query, self.level)

    def leave(self) -> None:
        """Select nothing any more; else end the search that goes on; else show all lines again; else forget
        the search.
        """
        if self.selection is not None:
            self.selection = None
        elif self.search is not None and self.search.is_first_pass:
            self.search.cancel()
        elif self.shows_matches_alone:
            self.only, self.level = False, None
            self._choose_source()
        else:
            self.end_search()

    def end_search(self) -> None:
        """The thread of the search ends soon."""
        if self.search is not None:
            self.search.cancel()
        self.search = self.window.query = self.current = None

    def _choose_source(self) -> None:
        """Show the log, or its matching lines alone; at the same place."""
        if self.log is None:
            return
        window, offset = self.window, self.current
        if offset is None and window.visible and window.source is not None:
            offset = window.source.offset(window.first_line)
        alone = self.search if self.shows_matches_alone else None
        source = self.log if alone is None else MatchingLines(self.log, alone)
        if source is not window.source:
            was_following = window.follow
            window.set_source(source)
            if not was_following and offset is not None:
                window.show_offset(offset)

    def _offset_above(self) -> int:
        """Byte offset from which the search goes up: of the current line, else just above the view."""
        window = self.window
        if self.current is not None and (window.sought_offset is not None or window.is_in_view(self.current)):
            return self.current
        return max(0, window.source.offset(window.first_line) - 1) if window.source and window.visible else 0

    def _offset_below(self) -> int:
        """Byte offset from which the search goes down: of the current line, else just below the start of the
        last line in view.
        """
        window = self.window
        if self.current is not None and (window.sought_offset is not None or window.is_in_view(self.current)):
            return self.current
        return window.source.offset(window.last_line) + 1 if window.source and window.visible else 0

    # bookmarks

    def toggle_bookmark(self) -> None:
        if (offset := self.chosen_offset()) is not None:
            self.bookmarks ^= {offset}

    def go_to_bookmark(self) -> None:
        """Go to the nearest bookmark above the view, else to the last one."""
        window = self.window
        if not self.bookmarks or window.source is None or not window.visible:
            return
        is_at_one = self.current in self.bookmarks
        limit = self._offset_below() if is_at_one else window.source.offset(window.first_line)
        above = [offset for offset in self.bookmarks if offset < limit]
        self.go_to(max(above or self.bookmarks))

    # selecting and copying

    def chosen_offset(self) -> int | None:
        """Byte offset of the line where the selection ends, else of the current line, else of the newest in
        view.
        """
        window = self.window
        if self.selection is not None:
            return self.selection.end.offset
        if self.current is not None and window.is_in_view(self.current):
            return self.current
        return window.source.offset(window.last_line) if window.source and window.visible else None

    def select(self, start: TextPosition, end: TextPosition, *, lines: bool = False) -> None:
        """Select from one to the other, which is not selected any more; or whole lines."""
        self.selection = Selection(start, end, lines)
        self.window.follow = False

    def select_through(self, start: TextPosition, end: TextPosition) -> None:
        """Both are included."""
        if end >= start:
            self.select(start, end._replace(cell=end.cell + 1))
        else:
            self.select(start._replace(cell=start.cell + 1), end)

    def extend_selection(self, end: TextPosition) -> None:
        if self.selection is not None:
            self.select(self.selection.start, end, lines=self.selection.lines)

    def select_word(self, position: TextPosition) -> None:
        number = self.window.number_at(position.offset)
        first, last = word_at(self._line_as_shown(number) if number is not None else "", position.cell)
        self.select(position._replace(cell=first), position._replace(cell=last))

    def toggle_selection(self) -> None:
        """Select the chosen line, or nothing any more."""
        offset = self.chosen_offset()
        if self.selection is not None or offset is None:
            self.selection = None
        else:
            self.select(TextPosition(offset, 0), TextPosition(offset, 0), lines=True)

    def position_at(self, x: int, y: int) -> TextPosition | None:
        """Position in the text at a cell and a row of the view; outside the text, the nearest."""
        window = self.window
        if window.source is None or not window.visible:
            return None
        if y >= len(window.visible):
            x, y = END_CELL, len(window.visible) - 1
        row = window.visible[max(0, y)]
        before = window.cells_above(row.position)
        cell = min(before + window.left + max(0, x), before + row.text.cells)
        return TextPosition(window.source.offset(row.position.line), cell)

    def copied(self) -> tuple[str, str]:
        """The text that is selected, else of the lines in view, and what it is in words."""
        numbers = self._selected_numbers()
        if self.selection is None or self.selection.lines:
            return "\n".join(map(self.window.rows.text, numbers)), _count_lines(len(numbers))
        texts = self._selected_texts(numbers, self.selection)
        return "\n".join(texts), "" if len(texts) == 1 else f"parts of {len(texts):,} lines"

    def _selected_numbers(self) -> range:
        """The lines that are selected, else those in view."""
        window = self.window
        ends = () if self.selection is None else (self.selection.first, self.selection.last)
        numbers = [window.number_at(position.offset) for position in ends]
        indexed = [number for number in numbers if number is not None]
        indexed = indexed or [row.position.line for row in window.visible]
        if not indexed:
            return range(0)
        return range(min(indexed), min(max(indexed) + 1, min(indexed) + _MAX_COPIED_LINES))

    def _selected_texts(self, numbers: range, selection: Selection) -> list[str]:
        """Selected text of each line as it is displayed; empty for a line that another one stands for."""
        source = self.window.source
        if source is None:
            return []
        return [
            cut_cells(self._line_as_shown(number), *selection.cells_of(source.offset(number)))
            for number in numbers
            if self.window.rows.rows(number)
        ]

    def _line_as_shown(self, number: int) -> str:
        return "".join(row.text for row in self.window.rows.rows(number))

    # what is said and remembered

    @property
    def status(self) -> str:
        """The subject of the view and its distance from the end; empty while it follows a complete log."""
        window = self.window
        if self.selection is not None and window.source is not None:
            return self._selection_status(self.selection)
        parts = [self.note] if self.note else []
        if self.search is not None:
            parts.append(self.search.status(self.current, only=self.shows_matches_alone))
        if window.whole or window.raw:
            parts.append("unfolded" if window.raw else "as written")
        if window.is_seeking_start:
            parts.append("going to the start")
        elif window.sought_offset is not None:
            parts.append("going to the line")
        elif not window.follow and window.source is not None:
            lines = window.lines_below
            place = f"{_count_lines(lines)} below" if lines else "not following"
            parts.append(f"{place}, {self._key_of('cursor.last')} follows")
        return " · ".join(parts)

    def _selection_status(self, selection: Selection) -> str:
        copy, write, back = map(self._key_of, ("copy", "write", "back"))
        keys = f"{copy} copies, {write} writes, {back} cancels"
        count = len(self._selected_numbers())
        if selection.lines or count > 1:
            return f"{_count_lines(count)} selected: {keys}"
        cells = selection.last.cell - selection.first.cell
        return f"{count_text(cells, 'character', is_grouped=True)} selected: {keys}"

    @property
    def view_state(self) -> dict[str, Any]:
        """What a person chose, as plain JSON: search and switches. A new session follows the log again."""
        window = self.window
        state: dict[str, Any] = {switch: True for switch in _SWITCHES if getattr(window, switch)}
        if window.query is not None:
            state |= {"query": window.query.text, "only": self.only}
        if self.level is not None:
            state["level"] = self.level.value
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Bring a `view_state` back. What makes no sense is left out."""
        for switch in _SWITCHES:
            setattr(self.window, switch, state.get(switch) is True)
        query, level = state.get("query"), state.get("level")
        with suppress(RltuiError, ValueError):
            self.level = Level(level) if isinstance(level, str) else None
            self.only = state.get("only") is True
            if isinstance(query, str) or self.level is not None:
                self.start_search(Query.from_text(query) if isinstance(query, str) else None, self.level)


def _count_lines(count: int) -> str:
    return count_text(count, "line", is_grouped=True)
