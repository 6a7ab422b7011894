"""A list of any number of lines, of which only those in view are made."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from rltui.ui.copying import CopyRequested, rows_text
from rltui.ui.styles import CURSOR_SIGN

MakeLine = Callable[[int, int], Content]
"""The line at a place, for a width in cells."""


class PaintedList(ScrollView, can_focus=True):
    """Paints line by line; one of the lines has the cursor."""

    ALLOW_SELECT = False  # what is painted line by line is no text to Textual
    COMPONENT_CLASSES = {"row-list--cursor", "row-list--cursor-unfocused"}  # noqa: RUF012 - as Textual declares it

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self.refresh()

    def painted(self, line: Content, *, has_cursor: bool) -> Strip:
        """Paint a line as wide as there is room, in the colours of the cursor where that is on it."""
        name = "row-list--cursor" if self.has_focus else "row-list--cursor-unfocused"
        style = self.get_visual_style(name) if has_cursor else self.visual_style
        line = line.pad_right(max(0, self.scrollable_content_region.width - line.cell_length))
        return Visual.to_strips(self, line, line.cell_length, 1, style)[0]


class VirtualList(PaintedList):
    """Asks `make_line` for what is in view; the cursor is on a place."""

    def __init__(
        self,
        make_line: MakeLine,
        on_move: Callable[[], object] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - Textual's name
        count: int = 0,
        has_cursor: bool = True,
        mark_at: int = 0,
    ) -> None:
        """A list without a cursor takes no keys: its lines are made anew for every width.

        `on_move` is called at once when the cursor has moved: were it a message, `show` could move the cursor
        back before that arrives. `mark_at`: the blank cell of a line that is the cursor's.
        """
        super().__init__(id=id)
        self._mark_at = mark_at
        self._make_line, self._on_move = make_line, on_move
        self.can_focus = self._has_cursor = has_cursor
        self.count = count
        self.cursor_index = 0
        """Meaningless where there are no lines."""

    def show(self, count: int, index: int | None = None) -> None:
        """Sets the count, and all lines may be different; the cursor goes to `index`, or keeps its position.

        Does not call `on_move`: the caller knows.
        """
        self.count = count
        self.cursor_index = max(0, min(count - 1, self.cursor_index if index is None else index))
        if self.virtual_size.height != count:
            self.virtual_size = Size(0, count)
        self.refresh()
        self._scroll_to_cursor()

    def go_to(self, index: int) -> None:
        """Put the cursor there, as far as there are lines."""
        index = max(0, min(self.count - 1, index))
        if index == self.cursor_index or not self.count:
            return
        previous, self.cursor_index = self.cursor_index, index
        for line in (previous, index):
            self.refresh_line(line)
        self._scroll_to_cursor()
        if self._on_move is not None:
            self._on_move()

    def move(self, rows: int) -> None:
        self.go_to(self.cursor_index + rows)

    def move_to_end(self, last: bool) -> None:
        self.go_to(self.count - 1 if last else 0)

    def move_pages(self, pages: int) -> None:
        self.go_to(self.cursor_index + pages * max(1, self.size.height - 1))

    def _scroll_to_cursor(self) -> None:
        if self.size.height:
            self.scroll_to_region(Region(0, self.cursor_index, 1, 1), animate=False, force=True)

    def on_resize(self) -> None:
        self.refresh()
        self._scroll_to_cursor()

    def on_click(self, event: events.Click) -> None:
        index = event.y + self.scroll_offset.y
        if index < self.count:
            self.go_to(index)

    def copied(self) -> CopyRequested | None:
        if not (self.count and self._has_cursor):
            return None
        width = self.scrollable_content_region.width
        return CopyRequested(rows_text([self._make_line(self.cursor_index, width).plain]))

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        if index >= self.count:
            return Strip.blank(width, self.rich_style)
        has_cursor = index == self.cursor_index and self._has_cursor
        line = self._make_line(index, width)
        if has_cursor:
            line = Content.assemble(
                line[: self._mark_at], (CURSOR_SIGN, "bold $text-accent"), line[self._mark_at + 1 :]
            )
        return self.painted(line, has_cursor=has_cursor).crop(0, width)
