"""The journal as a list by time: a line for each entry, and below it what belongs to it."""

from __future__ import annotations

import itertools
import textwrap
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from rltui.core.events import detail_lines, display_kind, first_line
from rltui.core.journal import JournalEntry
from rltui.core.text import age, truncate
from rltui.ui.copying import CopyRequested
from rltui.ui.plan_view import diff_lines
from rltui.ui.styles import FAINT, STYLES
from rltui.ui.text import clean, clean_line
from rltui.ui.widgets.virtual_list import PaintedList
from rltui.views.event import VIEW, Event, event_details, event_look

_BOLD = ("bad", "busy", "key")
"""Roles of what should be seen at once; a note, a resume and a restart are bold by theirs."""
_COLUMNS = VIEW.named(("when", "step"), is_brief=True)
_TIME, _STEP, _KIND = 10, 8, 14
"""Cells of the columns before the text, their gap included."""
_STEP_FROM = 72
"""A narrower list has the step only below the entry under the cursor."""
_MOST_BELOW = 12
"""Lines of a diff that an entry shows unless the cursor is on it."""
_KEPT_LINES = 400


@dataclass(frozen=True, slots=True)
class EventItem:
    entry: JournalEntry
    event: Event
    day: str
    """The date in local time."""
    below: tuple[Content, ...]

    @property
    def kind(self) -> str:
        return self.event.kind

    @property
    def look(self) -> tuple[str, str]:
        """A sign and its style."""
        sign, role, _ = event_look(self.event)
        if role is None:
            return sign, FAINT
        is_bold = role in _BOLD or (role == "good" and self.kind == "alert")
        return sign, f"bold {STYLES[role]}" if is_bold else STYLES[role]

    def facts(self, *, has_step: bool) -> list[str]:
        """Further facts, safe to be displayed; the step only where it has no column."""
        return [clean_line(text) for text in event_details(self.event, has_step=has_step)]

    @classmethod
    def of(cls, entry: JournalEntry) -> EventItem:
        """Texts of the entry are cleaned here."""
        data = entry.data
        if isinstance(diff := data.get("diff"), str):
            more = detail_lines(entry.text, {})
            below = [*map(Content, map(clean, more)), *diff_lines(diff)]
        else:
            below = [Content(clean(line)) for line in detail_lines(entry.text, data)]
        kind = clean_line(display_kind(entry.kind, data))
        event = Event(entry.at, kind, entry.text, entry.step, entry.component, entry.attempt, data)
        return cls(entry, event, time.strftime("%Y-%m-%d %A", time.localtime(entry.at)), tuple(below))


class EventList(PaintedList, inherit_bindings=False):
    """Draws items, oldest first, of which only those in view are laid out."""

    @dataclass
    class EntryMoved(Message):
        """The cursor is on another entry."""

    def __init__(self, clock: Callable[[], float], *, id: str | None = None) -> None:  # noqa: A002 - Textual's
        super().__init__(id=id)
        self._clock = clock
        self._items: Sequence[EventItem] = ()
        self._cursor_index = 0
        self._tops: list[int] = [0]
        """First line of each item, and at the end their number."""
        self._line_cache: dict[int, list[Content]] = {}
        self.is_folded = False

    @property
    def item(self) -> EventItem | None:
        return self._items[self._cursor_index] if self._items else None

    def show(self, items: Sequence[EventItem]) -> None:
        """Others. The cursor stays on its entry; on the newest it goes along with what comes."""
        previous, was_last = self.item, self._cursor_index >= len(self._items) - 1
        self._items = items
        index = None if previous is None else _index(items, previous)
        if previous is None or (was_last and index is not None):
            self._cursor_index = max(0, len(items) - 1)
        else:
            self._cursor_index = _nearest(items, previous.entry.at) if index is None else index
        self._arrange()

    def go_to(self, moment: float) -> None:
        """Put the cursor on the entry nearest to a moment."""
        self._move_to(_nearest(self._items, moment))

    def fold(self, is_folded: bool) -> None:
        """Folded entries hide their details, except the one under the cursor."""
        self.is_folded = is_folded
        self._arrange()

    def move(self, entries: int) -> None:
        """Move the cursor; where its entry goes on beyond what is visible, go on there first."""
        height, top = self.size.height, self.scroll_offset.y
        rest = self._tops[min(self._cursor_index + 1, len(self._tops) - 1)] - (top + height)
        offset = top - self._tops[self._cursor_index]
        if entries > 0 and rest > 0 and self._tops[self._cursor_index] <= top + height:
            self.scroll_relative(y=min(rest, max(1, height // 2)), animate=False)
        elif entries < 0 and offset > 0:
            self.scroll_relative(y=-min(offset, max(1, height // 2)), animate=False)
        else:
            self._move_to(self._cursor_index + entries)

    def move_pages(self, pages: int) -> None:
        line = self._tops[self._cursor_index] + pages * max(1, self.size.height - 1)
        index = self._item_at(line)
        self._move_to(index if index != self._cursor_index else index + pages)

    def move_to_end(self, last: bool) -> None:
        self._move_to(len(self._items) - 1 if last else 0)

    def _move_to(self, index: int) -> None:
        index = max(0, min(len(self._items) - 1, index))
        if self._items and index != self._cursor_index:
            self._cursor_index = index
            self._arrange()

    def _arrange(self) -> None:
        """Heights anew, and the cursor's entry in view."""
        self._line_cache.clear()
        self._tops = [0, *itertools.accumulate(self._height(index) for index in range(len(self._items)))]
        size = Size(0, self._tops[-1])
        if size != self.virtual_size:
            self.virtual_size = size
        if self._items:
            top, end = self._tops[self._cursor_index], self._tops[self._cursor_index + 1]
            height = min(end - top, max(1, self.size.height))
            self.scroll_to_region(Region(0, top, 1, height), animate=False, force=True)
        self.refresh()
        self.post_message(self.EntryMoved())

    def _height(self, index: int) -> int:
        if index == self._cursor_index:
            return len(self._lines(index))
        below = 0 if self.is_folded else len(self._items[index].below)
        return self._has_day(index) + 1 + (below if below <= _MOST_BELOW else _MOST_BELOW + 1)

    def _has_day(self, index: int) -> bool:
        return index == 0 or self._items[index].day != self._items[index - 1].day

    def _lines(self, index: int) -> list[Content]:
        """Lines of an item, cut to the width."""
        if (lines := self._line_cache.get(index)) is None:
            if len(self._line_cache) > _KEPT_LINES:
                self._line_cache.clear()
            width = self.scrollable_content_region.width
            lines = self._line_cache[index] = [
                line.truncate(width, ellipsis=True) for line in self._make(index, width)
            ]
        return lines

    def _make(self, index: int, width: int) -> list[Content]:
        item, is_cursor = self._items[index], index == self._cursor_index
        lines = [Content.styled(f"── {item.day} ──", FAINT)] if self._has_day(index) else []
        has_step = width >= _STEP_FROM
        indent = 2 + _TIME + (_STEP if has_step else 0) + _KIND
        text = clean_line(first_line(item.entry.text))
        wrapped = textwrap.wrap(text, max(20, width - indent)) if is_cursor else [text]
        lines.append(self._head(item, wrapped[0] if wrapped else "", is_cursor=is_cursor, has_step=has_step))
        lines += [Content(" " * indent + line) for line in wrapped[1:]]
        if is_cursor:
            ago = f"{age(max(0.0, self._clock() - item.entry.at))} ago"
            facts = " · ".join([*item.facts(has_step=has_step), ago])
            lines.append(Content.styled(" " * indent + facts, FAINT))
            return lines + [Content("    ") + line for line in item.below]
        if self.is_folded:
            return lines
        details = item.below if len(item.below) <= _MOST_BELOW else item.below[:_MOST_BELOW]
        lines += [Content("    ") + line for line in details]
        if more := len(item.below) - len(details):
            lines.append(Content.styled(f"    … {more} more lines", FAINT))
        return lines

    def _head(self, item: EventItem, text: str, *, is_cursor: bool, has_step: bool) -> Content:
        sign, style = item.look
        when, step = (column.cell(item.event, 0.0).text for column in _COLUMNS)
        label = truncate(f"{sign} {item.kind}", _KIND - 2)
        return Content.assemble(
            "▸ " if is_cursor else "  ",
            (when.ljust(_TIME), FAINT),
            (f"{step:>{_STEP - 2}}  " if has_step else "", FAINT),
            (label.ljust(_KIND), style),
            (text, style if item.kind in ("crash", "alert", "note", "edit") else ""),
        )

    def _item_at(self, line: int) -> int:
        return max(0, min(len(self._items) - 1, bisect_right(self._tops, line) - 1))

    def on_resize(self) -> None:
        self._arrange()

    def copied(self) -> CopyRequested | None:
        if (item := self.item) is None:
            return None
        text = clean_line(first_line(item.entry.text))
        return CopyRequested("\n".join([text, *(line.plain for line in item.below)]), f"the {item.kind}")

    def on_click(self, event: events.Click) -> None:
        self._move_to(self._item_at(event.y + self.scroll_offset.y))

    def render_line(self, y: int) -> Strip:
        width, line = self.scrollable_content_region.width, y + self.scroll_offset.y
        if line >= self._tops[-1]:
            return Strip.blank(width, self.rich_style)
        index = self._item_at(line)
        has_cursor = index == self._cursor_index and line == self._tops[index] + self._has_day(index)
        return self.painted(self._lines(index)[line - self._tops[index]], has_cursor=has_cursor)


def _index(items: Sequence[EventItem], item: EventItem) -> int | None:
    """Entries are compared by identity."""
    return next((index for index in range(len(items) - 1, -1, -1) if items[index].entry is item.entry), None)


def _nearest(items: Sequence[EventItem], moment: float) -> int:
    """The clock may have been set back: all of them are looked at."""
    return min(range(len(items)), key=lambda index: abs(items[index].entry.at - moment), default=0)
