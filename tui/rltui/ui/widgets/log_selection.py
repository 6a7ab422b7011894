"""Selecting in a log pane: characters with the mouse, lines with keys; then they are copied or saved."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.geometry import Offset
from textual.strip import Strip
from textual.timer import Timer

from rltui.ui.actions import key_of
from rltui.ui.copying import CopyRequested
from rltui.ui.widgets.log_finding import SearchedLog
from rltui.ui.widgets.log_scroll import PaintedLog
from rltui.ui.widgets.log_view import ViewRow

_MOST_COPIED = 20_000
_SCROLL_INTERVAL_S = 0.05
"""Between two steps while the pointer is held beyond an edge."""
_MOST_SCROLLED = 5
"""Rows in a step, the further away the more."""
_END = 1 << 30
"""A cell behind the last one of any line."""
_WORD = re.compile(r"[\w./:@%+~-]+")
"""What a double click takes: a name, a number, a path, an address."""


class TextPosition(NamedTuple):
    """A place in a log that stays where it is while the log grows."""

    offset: int
    """Byte that the line begins at."""
    cell: int
    """Of the line as it is shown, not wrapped."""


@dataclass(frozen=True, slots=True)
class Selected:
    """From where it began to where it goes."""

    start: TextPosition
    end: TextPosition
    lines: bool
    """Whole ones, as they were written; else what is shown of them, from cell to cell."""

    @property
    def first(self) -> TextPosition:
        """The earlier end."""
        return min(self.start, self.end)

    @property
    def last(self) -> TextPosition:
        """The later end; its cell is not selected any more."""
        return max(self.start, self.end)


def word_at(text: str, cell: int) -> tuple[int, int]:
    """Cells of the word there, or of the single character."""
    left = 0
    for at, sign in enumerate(text):
        right = left + cell_len(sign)
        if left <= cell < right:
            word = next((each for each in _WORD.finditer(text) if each.start() <= at < each.end()), None)
            if word is None:
                return left, right
            begin = cell_len(text[: word.start()])
            return begin, begin + cell_len(word[0])
        left = right
    return left, left


class SelectingLog(SearchedLog):
    """Adds what is selected. The mouse selects within the pane; beyond its edges the log scrolls."""

    ALLOW_SELECT = False  # Textual's own selection knows nothing of rows that were never painted

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._selected: Selected | None = None
        self._pressed: TextPosition | None = None
        """Where the button went down, while it is down."""
        self._followed = False
        """It stuck to the newest line before."""
        self._pointer = Offset()
        self._was_dragged = False
        self._scroller: Timer | None = None
        self.has_cursor = False
        """Up and down go from line to line."""
        self.log_name = ""
        """What a file is called that lines of it are saved to."""

    @property
    def has_selection(self) -> bool:
        return self._selected is not None

    def forget_lines(self) -> None:
        self._selected, self.has_cursor = None, False
        super().forget_lines()

    def line_meant(self) -> int | None:
        """Offset of the line that the selection goes to, the one gone to, or the newest in view."""
        if self._selected is not None:
            return self._selected.end.offset
        if self._here is not None and self._is_in_view(self._here):
            return self._here
        return self._source.offset(self._rows[-1].line) if self._source is not None and self._rows else None

    def _select(self, selected: Selected | None) -> None:
        self._selected = selected
        if selected is not None:
            self.set_reactive(PaintedLog.follow, False)
        self._lay_out()
        self.refresh()
        self.refresh_bindings()

    # by keys

    def action_select(self) -> None:
        """Begin with the line that is meant; once more ends it."""
        offset = self.line_meant()
        spot = None if self._selected is not None or offset is None else TextPosition(offset, 0)
        self._select(None if spot is None else Selected(spot, spot, lines=True))

    def action_move_rows(self, rows: int) -> None:
        if self._source is None or not (self._selected or (self.has_cursor and self._rows)):
            super().action_move_rows(rows)
            return
        meant = self.line_meant()
        number = None if meant is None else self._source.number_at(meant)
        if number is None:
            return
        number = max(self._source.start, min(number + rows, self._source.stop - 1))
        if self._selected is not None:
            start, end = self._selected.start, self._selected.end
            end = TextPosition(self._source.offset(number), end.cell)
            self._selected = Selected(start, end, lines=self._selected.lines)
        else:
            self._here = self._source.offset(number)
        self.set_reactive(PaintedLog.follow, False)
        if self._rows and not self._rows[0].line <= number <= self._rows[-1].line:
            self._viewport.top = ViewRow(self._viewport.top.line + rows, 0)
        self._lay_out()
        self.refresh()

    # by the mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Perhaps the beginning of a selection; with shift, its other end."""
        at = event.get_content_offset(self)
        if event.button != 1 or at is None or (spot := self._spot(at)) is None:
            return
        event.stop()
        self._was_dragged = False
        if event.shift and self._selected is not None:
            self._was_dragged = True
            self._select(Selected(self._selected.start, spot, lines=self._selected.lines))
            return
        self._pressed, self._followed = spot, self.follow
        self.set_reactive(PaintedLog.follow, False)  # what was aimed at stays below the pointer

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """With the button down, the selection goes with the pointer."""
        if self._pressed is None:
            return
        event.stop()
        if not event.button:  # it went up where nobody saw it
            self._let_go()
            return
        self._pointer = event.offset - self.content_offset
        if self.app.mouse_captured is not self:
            self.capture_mouse()
            self._was_dragged = True
        is_beyond = not 0 <= self._pointer.y < self.size.height
        if is_beyond and self._scroller is None:
            self._scroller = self.set_interval(_SCROLL_INTERVAL_S, self._scroll_on, name="scroll on")
        elif not is_beyond:
            self._stop_scrolling()
        self._drag()

    def _drag(self) -> None:
        """To the character under the pointer, which is selected too."""
        spot = self._spot(self._pointer)
        if spot is None or self._pressed is None:
            return
        start = self._pressed
        if spot >= start:
            spot = spot._replace(cell=spot.cell + 1)
        else:
            start = start._replace(cell=start.cell + 1)
        self._select(Selected(start, spot, lines=False))

    def _scroll_on(self) -> None:
        beyond = self._pointer.y if self._pointer.y < 0 else self._pointer.y - self.size.height + 1
        super().action_move_rows(max(-_MOST_SCROLLED, min(beyond, _MOST_SCROLLED)))
        self._drag()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._pressed is not None:
            event.stop()
            self._let_go()

    def _let_go(self) -> None:
        self._pressed = None
        if self._followed and not self._was_dragged:
            self.follow = True
        self._stop_scrolling()
        if self.app.mouse_captured is self:
            self.release_mouse()

    def _stop_scrolling(self) -> None:
        if self._scroller is not None:
            self._scroller.stop()
            self._scroller = None

    def on_click(self, event: events.Click) -> None:
        """Twice: a word; three times: a line; once: nothing any more. On the border it is for others."""
        at = event.get_content_offset(self)
        if at is None or (spot := self._spot(at)) is None:
            return
        if self._was_dragged:
            self._was_dragged = False
        elif event.chain == 2:
            first, last = word_at(self._shown_text(spot), spot.cell)
            self._select(Selected(spot._replace(cell=first), spot._replace(cell=last), lines=False))
        elif event.chain > 2:
            self._select(Selected(spot, spot, lines=True))
        elif self._selected is not None:
            self._select(None)
        if event.chain > 1:
            event.stop()

    def _spot(self, at: Offset) -> TextPosition | None:
        """What is shown at a place of the pane; beyond what is shown, the nearest."""
        if self._source is None or not self._rows:
            return None
        if at.y >= len(self._rows):
            at = Offset(_END, len(self._rows) - 1)
        row = self._rows[max(0, at.y)]
        rows = self._strips.rows(row.line)
        cell = sum(strip.cell_length for strip in rows[: row.row]) + self._left + max(0, at.x)
        last = sum(strip.cell_length for strip in rows[: row.row + 1])
        return TextPosition(self._source.offset(row.line), min(cell, last))

    def _shown_text(self, spot: TextPosition) -> str:
        number = self._source.number_at(spot.offset) if self._source is not None else None
        return "" if number is None else "".join(strip.text for strip in self._strips.rows(number))

    # what becomes of it

    def action_copy(self) -> None:
        self._take("")

    def action_save(self) -> None:
        self._take(f"{self.log_name}.log")

    def _take(self, name: str) -> None:
        """What is selected, else the lines in view."""
        if self._source is None or not self._rows:
            return
        selected = self._selected
        if selected is None or selected.lines:
            lines = [self._strips.text(number) for number in self._numbers()]
            what = f"{len(lines):,} {'line' if len(lines) == 1 else 'lines'}"
        else:
            lines = self._shown_lines(selected)
            what = "" if len(lines) == 1 else f"what is shown of {len(lines):,} lines"
        self.post_message(CopyRequested("\n".join(lines), what, name))
        self._select(None) if selected is not None else None

    def _numbers(self) -> range:
        """Of the lines that are selected, or in view."""
        assert self._source is not None
        ends = () if self._selected is None else (self._selected.first, self._selected.last)
        known = [number for spot in ends if (number := self._source.number_at(spot.offset)) is not None]
        known = known or [row.line for row in self._rows]
        if not known:  # a pane that has no room for a row
            return range(0)
        return range(min(known), min(max(known) + 1, min(known) + _MOST_COPIED))

    def _shown_lines(self, selected: Selected) -> list[str]:
        """As they stand in the pane: from cell to cell, and no line that another one stands for."""
        lines = []
        for number in self._numbers():
            if rows := self._strips.rows(number):
                first, last = self._cells_of(number, selected)
                strip = Strip.join(rows)
                lines.append(strip.crop(first, min(last, strip.cell_length)).text)
        return lines

    def _cells_of(self, number: int, selected: Selected) -> tuple[int, int]:
        """Which cells of a line are selected, none where they are no range."""
        assert self._source is not None
        offset = self._source.offset(number)
        if selected.lines:
            return (0, _END) if selected.first.offset <= offset <= selected.last.offset else (0, 0)
        first = 0 if offset > selected.first.offset else selected.first.cell
        last = _END if offset < selected.last.offset else selected.last.cell
        return (first, last) if selected.first.offset <= offset <= selected.last.offset else (0, 0)

    def action_leave(self) -> None:
        """Select nothing any more, else as a search is left."""
        if self._selected is None:
            super().action_leave()
        else:
            self._select(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "leave" and self._selected is not None:
            return True
        return super().check_action(action, parameters)

    # how it looks

    def _row_selected(self, row: ViewRow) -> tuple[int, int] | None:
        if self._selected is None or self._source is None:
            return super()._row_selected(row)
        first, last = self._cells_of(row.line, self._selected)
        if first >= last:
            return None
        if self._selected.lines:
            return 0, self.size.width
        rows = self._strips.rows(row.line)
        before = sum(strip.cell_length for strip in rows[: row.row]) + self._left
        width = rows[row.row].cell_length if row.row < len(rows) else 0
        first, last = max(0, first - before), min(last - before, max(1, width - self._left))
        return (first, last) if first < last else None

    def _position(self, lines_below: int) -> str:
        if self._selected is None or self._source is None:
            return super()._position(lines_below)
        keys = f"{key_of('copy')} copies, {key_of('write')} writes, {key_of('back')}"
        count = len(self._numbers())
        if self._selected.lines or count > 1:
            return f"{count:,} {'line' if count == 1 else 'lines'} selected: {keys}"
        cells = self._selected.last.cell - self._selected.first.cell
        return f"{cells:,} {'character' if cells == 1 else 'characters'} selected: {keys}"
