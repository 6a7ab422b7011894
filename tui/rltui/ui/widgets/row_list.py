"""A list of rows of one or several lines each; the cursor keeps to its row when rows come and go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Protocol

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from rltui.ui import verbs
from rltui.ui.copying import CopyRequested, rows_text
from rltui.ui.key_bindings import KeyBinding, bind
from rltui.ui.paragraphs import hanging
from rltui.ui.styles import FAINT
from rltui.ui.widgets.virtual_list import PaintedList

_CACHED_ROWS = 400


@dataclass(frozen=True, slots=True)
class Row:
    """A thing the cursor can be on, or none such where `key` is `None`."""

    key: str | None
    lines: tuple[Content, ...]


def note_row(text: str, width: int) -> Row:
    """A row that the cursor cannot be on: what there is in place of others."""
    return Row(None, tuple(hanging(text, width, FAINT)))


READING = (Row(None, (Content.styled("reading…", FAINT),)),)
"""The rows before there is an answer."""


class LazyRows(Protocol):
    """Rows of which only those in view are made."""

    @property
    def keys(self) -> Sequence[str | None]:
        """Keys of the rows, as `Row` has them."""
        ...

    @property
    def heights(self) -> Sequence[int]:
        """Numbers of lines."""
        ...

    def lines(self, index: int) -> Sequence[Content]: ...


def matching(rows: tuple[Row, ...] | LazyRows, text: str) -> tuple[Row, ...] | LazyRows:
    """The rows with all words of `text`, and headings. Rows of which only those in view are made are searched
    by their own screen.
    """
    words = text.casefold().split()
    if not words or not isinstance(rows, tuple):
        return rows
    texts = ("\n".join(line.plain for line in row.lines).casefold() for row in rows)
    return tuple(
        row
        for row, row_text in zip(rows, texts, strict=True)
        if row.key is None or all(word in row_text for word in words)
    )


class _MadeRows:
    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.keys = [row.key for row in rows]
        self.heights = [len(row.lines) for row in rows]
        self._rows = rows

    def lines(self, index: int) -> Sequence[Content]:
        return self._rows[index].lines


MakeRows = Callable[[int, str | None], tuple[Row, ...] | LazyRows]
"""Rows for a width in cells and the key under the cursor, whose row may say more than the others."""


class RowList(PaintedList, inherit_bindings=False):
    """Draws what `make_rows` answers. Its keys are the screen's: Textual's would only scroll."""

    cursor_mark: ClassVar = ""
    """Takes the place of the first cell, while the list has the keys."""

    @dataclass
    class Moved(Message):
        rows: RowList

        @property
        def control(self) -> RowList:
            return self.rows

    def __init__(
        self,
        make_rows: MakeRows,
        *,
        id: str | None = None,  # noqa: A002 - Textual's name
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._make_rows = make_rows
        self._rows: LazyRows = _MadeRows(())
        self._tops = [0]
        """First line of each row, and at the end their number."""
        self._width = 0
        """The rows are made for it."""
        self._cache: dict[int, Sequence[Content]] = {}
        """Lines of rows by their index."""
        self._painted: dict[int, tuple[Content, bool]] = {}
        """Lines as they were painted last, by their number, and whether they had the cursor."""
        self._lines_in_view = range(0)
        """Those of the cursor's row when the list was last scrolled to it."""
        self.keys: list[str] = []
        """Headings have none: the cursor cannot be on them."""
        self.key: str | None = None
        """The row under the cursor; `None` where there is no row."""

    def reload(self) -> None:
        """Ask for the rows again. Only lines that changed are painted; the cursor's row stays in view."""
        self._reload()

    def _reload(self, left_key: str | None = None) -> None:
        """`left_key`: the cursor was there. Of rows with the very keys of before no other one has changed."""
        width = self.scrollable_content_region.width
        if width <= 0:  # not laid out yet: the resize to come asks again
            return
        old_keys = self.keys
        self._lay_out(width, left_key)
        if self.key not in self.keys and (nearest := self._nearest(old_keys)) != self.key:
            self.key = nearest
            self._lay_out(width)
            self.post_message(self.Moved(self))
        if is_other_size := self.virtual_size.height != self._tops[-1]:
            self.virtual_size = Size(0, self._tops[-1])
            self.refresh(layout=True)
            self._painted.clear()
        if self._cursor_lines != self._lines_in_view:
            self._lines_in_view = self._cursor_lines
            self._scroll_to_cursor(immediate=not is_other_size)
        if not is_other_size:
            self._refresh_changed()

    def _lay_out(self, width: int, left_key: str | None = None) -> None:
        made = self._make_rows(width, self.key)
        rows = _MadeRows(made) if isinstance(made, tuple) else made
        if left_key is not None and rows.keys is self._rows.keys:
            changed = (left_key, self.key)
            self._cache = {
                index: lines for index, lines in self._cache.items() if rows.keys[index] not in changed
            }
        else:
            self._cache.clear()
            self.keys = [key for key in rows.keys if key is not None]
        self._rows = rows
        self._tops = [0, *accumulate(self._rows.heights)]
        self._width = width

    def _refresh_changed(self) -> None:
        top, height = self.scroll_offset.y, self.size.height
        self._painted = {y: line for y, line in self._painted.items() if top <= y < top + height}
        for y, (before, had_cursor) in self._painted.items():
            line, has_cursor = self._line(y)
            if has_cursor != had_cursor or not (line is before or line.is_same(before)):
                self.refresh_line(y)

    def _nearest(self, old_keys: list[str]) -> str | None:
        """The former position of a row that is gone, or the last one."""
        index = old_keys.index(self.key) if self.key in old_keys else 0
        return self.keys[min(index, len(self.keys) - 1)] if self.keys else None

    def go_to(self, key: str) -> None:
        """Put the cursor on the row `key` and show all of it."""
        if key == self.key or key not in self.keys:
            return
        left_key, self.key = self.key, key
        self.post_message(self.Moved(self))
        self._reload(left_key)

    @property
    def _cursor_lines(self) -> range:
        """Empty where there is no such row: it may just have gone."""
        if self.key is None or self.key not in self._rows.keys:
            return range(0)
        index = self._rows.keys.index(self.key)
        return range(self._tops[index], self._tops[index + 1])

    def _scroll_to_cursor(self, *, immediate: bool = False) -> None:
        """The heading just above it is shown too, where there is room."""
        lines, height = self._cursor_lines, self.size.height
        if not lines or not height:
            return
        has_heading = lines.start > 0 and self._rows.keys[self._index_at(lines.start - 1)] is None
        top = lines.start - (1 if has_heading and height > 1 else 0)
        region = Region(0, top, 1, min(height, lines.stop - top))
        self.scroll_to_region(region, animate=False, force=True, immediate=immediate)

    def move(self, rows: int) -> None:
        """Move the cursor, stopping at the ends; a row that goes on beyond what is visible is read first."""
        if self.key not in self.keys:
            return
        lines, top, height = self._cursor_lines, self.scroll_offset.y, self.size.height
        above, below = top - lines.start, lines.stop - (top + height)
        step = max(1, height // 2)
        if rows > 0 and below > 0 and lines.start < top + height:
            self.scroll_relative(y=min(below, step), animate=False)
        elif rows < 0 and above > 0 and lines.stop > top:
            self.scroll_relative(y=-min(above, step), animate=False)
        else:
            index = self.keys.index(self.key) + rows
            self.go_to(self.keys[max(0, min(len(self.keys) - 1, index))])

    def move_pages(self, pages: int) -> None:
        """Move the cursor by what is visible, headings included, and by a row at least."""
        if self.key not in self.keys:
            return
        line = self._cursor_lines.start + pages * max(1, self.size.height - 1)
        index = self._index_at(max(0, min(self._tops[-1] - 1, line)))
        keys = self._rows.keys[index:] if pages > 0 else self._rows.keys[index::-1]
        key = next((key for key in keys if key is not None), self.keys[-1 if pages > 0 else 0])
        if key == self.key:
            key = self.keys[max(0, min(len(self.keys) - 1, self.keys.index(key) + pages))]
        self.go_to(key)

    def move_to_end(self, last: bool) -> None:
        if self.keys:
            self.go_to(self.keys[-1 if last else 0])

    def on_resize(self) -> None:
        self.reload()
        self._scroll_to_cursor()

    def on_click(self, event: events.Click) -> None:
        if (key := self.row_at(event.y)) is not None:
            self.go_to(key)

    def copied(self) -> CopyRequested | None:
        if not (lines := self._cursor_lines):
            return None
        return CopyRequested(rows_text(self._line(y)[0].plain for y in lines))

    def row_at(self, y: int) -> str | None:
        """Key of the row that line `y` of what is visible belongs to."""
        line = y + self.scroll_offset.y
        return self._rows.keys[self._index_at(line)] if line < self._tops[-1] else None

    def _index_at(self, y: int) -> int:
        return bisect_right(self._tops, y) - 1

    def _line(self, y: int) -> tuple[Content, bool]:
        """A line, and whether it has the cursor."""
        index = self._index_at(y)
        if (lines := self._cache.get(index)) is None:
            if len(self._cache) > _CACHED_ROWS:
                self._cache.clear()
            lines = self._cache[index] = self._rows.lines(index)
        key = self._rows.keys[index]
        return lines[y - self._tops[index]], key is not None and key == self.key and y == self._tops[index]

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if width != self._width:  # a scroll bar came or went, of which the resize tells after this picture
            self._lay_out(width)
        y += self.scroll_offset.y
        if y >= self._tops[-1]:
            return Strip.blank(width, self.rich_style)
        line, has_cursor = self._painted[y] = self._line(y)
        if has_cursor and self.has_focus and self.cursor_mark:
            line = Content(self.cursor_mark) + line[len(self.cursor_mark) :]
        return self.painted(line, has_cursor=has_cursor)


def list_keys(owner: str = "") -> tuple[KeyBinding, ...]:
    """Bindings of a list whose cursor goes from row to row: `owner` is the object of the screen that has the
    methods, such as `moved_list.`; without it they are actions of the class itself.
    """
    return (
        bind(verbs.CURSOR_DOWN, f"{owner}move(1)"),
        bind(verbs.CURSOR_UP, f"{owner}move(-1)"),
        bind(verbs.CURSOR_NEXT, f"{owner}move(1)"),
        bind(verbs.CURSOR_PREVIOUS, f"{owner}move(-1)"),
        bind(verbs.PAGE_DOWN, f"{owner}move_pages(1)"),
        bind(verbs.PAGE_UP, f"{owner}move_pages(-1)"),
        bind(verbs.PAGE_HALF_DOWN, f"{owner}move_pages(1)"),
        bind(verbs.PAGE_HALF_UP, f"{owner}move_pages(-1)"),
        bind(verbs.CURSOR_FIRST, f"{owner}move_to_end(False)"),
        bind(verbs.CURSOR_LAST, f"{owner}move_to_end(True)"),
    )
