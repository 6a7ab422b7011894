"""The journal as a list by time: a line for each entry, and below it what belongs to it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from rltui.base.text import age, truncate
from rltui.core.experiment.events import (
    author,
    author_name,
    author_words,
    detail_lines,
    display_kind,
    first_line,
)
from rltui.core.experiment.journal import JournalEntry
from rltui.ui.plan_view import diff_lines
from rltui.ui.styles import CURSOR, FAINT, STYLES
from rltui.ui.text import clean, clean_line
from rltui.views.event import VIEW, Event, event_details, event_look

_BOLD = ("bad", "busy", "key")
"""Roles of what should be seen at once; a note, a resume and a restart are bold by theirs."""
_COLUMNS = VIEW.named(("when", "step"), is_brief=True)
_TIME, _STEP, _KIND, _WHO = 10, 8, 14, 18
"""Cells of the columns before the text, their gap included."""
_STEP_FROM = 72
"""A narrower list has the step only below the entry under the cursor."""
_WHO_FROM = 100
"""Likewise of who did it."""
_MOST_BELOW = 12
"""Lines of a diff that an entry shows unless the cursor is on it."""


@dataclass(frozen=True, slots=True)
class EventItem:
    key: str
    """Number of the entry in the journal."""
    entry: JournalEntry
    event: Event
    authors: frozenset[str]
    """The result of `author_words`."""
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

    @classmethod
    def of(cls, entry: JournalEntry, number: int) -> EventItem:
        """Texts of the entry are cleaned here."""
        data = entry.data
        if isinstance(diff := data.get("diff"), str):
            more = detail_lines(entry.text, {})
            below = [*map(Content, map(clean, more)), *diff_lines(diff)]
        else:
            below = [Content(clean(line)) for line in detail_lines(entry.text, data)]
        kind = clean_line(display_kind(entry.kind, data))
        row = {"data": data, "by": None if entry.by is None else entry.by.fields}
        by, who = clean_line(author(row)), clean_line(author_name(row))
        event = Event(entry.at, kind, entry.text, entry.step, entry.component, entry.attempt, data, by, who)
        return cls(
            str(number),
            entry,
            event,
            author_words(row),
            time.strftime("%Y-%m-%d %A", time.localtime(entry.at)),
            tuple(below),
        )


class EventRows:
    """Rows of a `RowList`: the items, oldest first, below the headings of their days."""

    def __init__(
        self,
        items: Sequence[EventItem],
        width: int,
        selected: str | None,
        now: float,
        *,
        is_folded: bool,
    ) -> None:
        """`is_folded`: what belongs to an entry is hidden, but below the one under the cursor."""
        self._width, self._selected, self._now, self._is_folded = width, selected, now, is_folded
        self._has_who = width >= _WHO_FROM and any(item.event.who for item in items)
        self._rows: list[EventItem | str] = []
        self.keys: list[str | None] = []
        self.heights: list[int] = []
        day = ""
        for item in items:
            if item.day != day:
                day = item.day
                self._rows.append(day)
                self.keys.append(None)
                self.heights.append(1)
            self._rows.append(item)
            self.keys.append(item.key)
            below = 0 if is_folded else len(item.below)
            self.heights.append(1 + (below if below <= _MOST_BELOW else _MOST_BELOW + 1))
        if selected in self.keys:
            index = self.keys.index(selected)
            self.heights[index] = len(self.lines(index))

    def lines(self, index: int) -> list[Content]:
        """They are cut to the width."""
        row = self._rows[index]
        if isinstance(row, str):
            return [Content.styled(f"── {row} ──", FAINT)]
        lines = self._lines(row, is_selected=row.key == self._selected)
        return [line.truncate(self._width, ellipsis=True) for line in lines]

    def _lines(self, item: EventItem, *, is_selected: bool) -> list[Content]:
        has_step = self._width >= _STEP_FROM
        has_who = self._has_who
        indent = 2 + _TIME + (_STEP if has_step else 0) + _KIND + (_WHO if has_who else 0)
        text = clean_line(first_line(item.entry.text))
        wrapped = textwrap.wrap(text, max(20, self._width - indent)) if is_selected else [text]
        head = wrapped[0] if wrapped else ""
        lines = [_head(item, head, is_selected=is_selected, has_step=has_step, has_who=has_who)]
        lines += [Content(" " * indent + line) for line in wrapped[1:]]
        below = item.below
        if is_selected:
            facts = [clean_line(fact) for fact in event_details(item.event, has_step=has_step)]
            facts.append(f"{age(max(0.0, self._now - item.entry.at))} ago")
            lines.append(Content.styled(" " * indent + " · ".join(facts), FAINT))
        elif self._is_folded:
            return lines
        elif len(below) > _MOST_BELOW:
            below = below[:_MOST_BELOW]
        lines += [Content("    ") + line for line in below]
        if more := len(item.below) - len(below):
            lines.append(Content.styled(f"    … {more} more lines", FAINT))
        return lines


def _head(item: EventItem, text: str, *, is_selected: bool, has_step: bool, has_who: bool) -> Content:
    sign, style = item.look
    when, step = (column.cell(item.event, 0.0).text for column in _COLUMNS)
    label = truncate(f"{sign} {item.kind}", _KIND - 2)
    return Content.assemble(
        CURSOR if is_selected else "  ",
        (when.ljust(_TIME), FAINT),
        (f"{step:>{_STEP - 2}}  " if has_step else "", FAINT),
        (label.ljust(_KIND), style),
        (truncate(item.event.who, _WHO - 2).ljust(_WHO) if has_who else "", FAINT),
        (text, style if item.kind in ("crash", "alert", "note", "edit") else ""),
    )
