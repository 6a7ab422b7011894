"""A list of rows of one or several lines each; the cursor keeps to its row when rows come and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from rltui.ui import verbs
from rltui.ui.copying import CopyRequested, rows_text
from rltui.ui.key_bindings import KeyBinding, bind
from rltui.ui.widgets.virtual_list import PaintedList


@dataclass(frozen=True, slots=True)
class Row:
    """A thing the cursor can be on, or none such where `key` is `None`."""

    key: str | None
    lines: tuple[Content, ...]


MakeRows = Callable[[int, str | None], tuple[Row, ...]]
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
        self._rows: tuple[Row, ...] = ()
        self._lines: list[tuple[str | None, Content]] = []
        self.key: str | None = None
        """The row under the cursor; `None` where there is no row."""

    def reload(self) -> None:
        """Ask for the rows again. Only lines that changed are painted."""
        width = self.scrollable_content_region.width
        if width <= 0:  # not laid out yet: the resize to come asks again
            return
        rows = self._make_rows(width, self.key)
        keys = [row.key for row in rows if row.key is not None]
        if self.key not in keys and (nearest := self._nearest(keys)) != self.key:
            self.key = nearest
            rows = self._make_rows(width, self.key)
            self.post_message(self.Moved(self))
        old_lines, self._rows = self._lines, rows
        self._lines = [(row.key, line) for row in rows for line in row.lines]
        if len(old_lines) != len(self._lines):
            self.virtual_size = Size(0, len(self._lines))
            self.refresh(layout=True)
            return
        for y, ((old_key, old), (key, line)) in enumerate(zip(old_lines, self._lines, strict=True)):
            if key != old_key or not line.is_same(old):
                self.refresh_line(y)

    def _nearest(self, keys: list[str]) -> str | None:
        """The former position of a row that is gone, or the last one."""
        old_keys = self.keys
        index = old_keys.index(self.key) if self.key in old_keys else 0
        return keys[min(index, len(keys) - 1)] if keys else None

    def go_to(self, key: str) -> None:
        """Put the cursor on the row `key` and show all of it."""
        if key == self.key or all(row.key != key for row in self._rows):
            return
        self.key = key
        self.post_message(self.Moved(self))
        self.reload()
        self.refresh()
        # The row may just have gone: what shows it to the person is older than what it is made of.
        if lines := [y for y, (owner, _) in enumerate(self._lines) if owner == self.key]:
            top = lines[0] - 1 if lines[0] and self._lines[lines[0] - 1][0] is None else lines[0]
            region = Region(0, top, 1, lines[-1] + 1 - top)  # with the heading just above
            self.scroll_to_region(region, animate=False, force=True)

    @property
    def keys(self) -> list[str]:
        """Headings have none: the cursor cannot be on them."""
        return [row.key for row in self._rows if row.key is not None]

    def move(self, rows: int) -> None:
        """Move the cursor, stopping at the ends."""
        keys = self.keys
        if self.key in keys:
            self.go_to(keys[max(0, min(len(keys) - 1, keys.index(self.key) + rows))])

    def move_pages(self, pages: int) -> None:
        """Move the cursor by what is visible, headings included."""
        owners = [owner for owner, _ in self._lines]
        if self.key is None or self.key not in owners:
            return
        line = owners.index(self.key) + pages * max(1, self.size.height - 1)
        beyond = owners[max(0, line) :] if pages > 0 else owners[: max(0, line) + 1][::-1]
        keys = self.keys
        self.go_to(next((key for key in beyond if key is not None), keys[-1] if pages > 0 else keys[0]))

    def move_to_end(self, last: bool) -> None:
        if self.keys:
            self.go_to(self.keys[-1 if last else 0])

    def on_resize(self) -> None:
        self.reload()

    def on_click(self, event: events.Click) -> None:
        if (key := self.row_at(event.y)) is not None:
            self.go_to(key)

    def copied(self) -> CopyRequested | None:
        return CopyRequested(rows_text(line.plain for key, line in self._lines if key and key == self.key))

    def row_at(self, y: int) -> str | None:
        """Key of the row that line `y` of what is visible belongs to."""
        line = y + self.scroll_offset.y
        return self._lines[line][0] if line < len(self._lines) else None

    def render_line(self, y: int) -> Strip:
        line_index = y + self.scroll_offset.y
        if line_index >= len(self._lines):
            return Strip.blank(self.scrollable_content_region.width, self.rich_style)
        key, line = self._lines[line_index]
        has_cursor = (
            key is not None and key == self.key and (line_index == 0 or self._lines[line_index - 1][0] != key)
        )
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
