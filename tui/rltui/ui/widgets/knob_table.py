"""The knob table: rows below their sections' headings, drawn on demand; the cursor keeps to its knob."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual
from textual.widgets import Static

from rltui.core.config_report import KnobInfo, KnobTable
from rltui.ui.actions import Scope, bindings
from rltui.ui.staged_edits import StagedEdits
from rltui.ui.text import clean_line
from rltui.ui.widgets.knob_rows import (
    heading_line,
    knob_columns,
    knob_detail,
    knob_line,
    table_note,
    worst_problem,
)
from rltui.ui.widgets.knob_sections import Heading, sectioned


class KnobRows(ScrollView, can_focus=True):
    """The rows and the cursor, which steps over headings."""

    BINDINGS = bindings(Scope.KNOB_TABLE)
    COMPONENT_CLASSES: ClassVar[set[str]] = {"knob-rows--cursor", "knob-rows--cursor-unfocused"}

    position: reactive[int] = reactive(0)
    """Knob under the cursor, counted from the top without headings."""

    @dataclass
    class EditRequested(Message):
        """A person wants to change `knob`."""

        knob: KnobInfo

    @dataclass
    class CursorMoved(Message):
        """The cursor is on another knob, or its knob has changed."""

        knob: KnobInfo | None

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.table = KnobTable()
        self.staged = StagedEdits()
        self._rows: tuple[Heading | KnobInfo, ...] = ()
        self._knob_rows: tuple[int, ...] = ()

    @property
    def knob(self) -> KnobInfo | None:
        """The knob under the cursor."""
        knobs = self.shown
        return knobs[self.position] if self.position < len(knobs) else None

    @property
    def shown(self) -> list[KnobInfo]:
        """The knobs that have a row, from the top."""
        return [row for row in self._rows if isinstance(row, KnobInfo)]

    def show(self, table: KnobTable, staged: StagedEdits) -> None:
        """Take over new values; the cursor stays on its key."""
        key = self.knob.key if self.knob else None
        self.table = table
        self.staged = staged
        self._rows = sectioned(tuple(knob for knob in table.knobs if _is_worth_a_row(knob, staged)))
        self._knob_rows = tuple(at for at, row in enumerate(self._rows) if isinstance(row, KnobInfo))
        self.virtual_size = Size(0, len(self._rows))
        self.position = self._position_of(key)
        self.refresh()
        self.post_message(self.CursorMoved(self.knob))

    def _position_of(self, key: str | None) -> int:
        """Of the knob `key`, or about where the cursor is where there is no such knob."""
        keys = [knob.key for knob in self.shown]
        return keys.index(key) if key in keys else min(self.position, max(0, len(keys) - 1))

    def render_line(self, y: int) -> Strip:
        """Row `y` of what is visible."""
        at = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        if at >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        match self._rows[at]:
            case Heading() as heading:
                line = heading_line(heading)
            case knob:
                columns = knob_columns(self.table, width, self.staged.edits)
                problem = worst_problem(knob, self.table.problems)
                line = knob_line(knob, columns, problem, self.staged.edits)
        line = line.pad_right(max(0, width - line.cell_length))
        return self._styled(line, at_cursor=self._row_of(self.position) == at)

    def _row_of(self, position: int) -> int | None:
        return self._knob_rows[position] if position < len(self._knob_rows) else None

    def _styled(self, line: Content, *, at_cursor: bool) -> Strip:
        style = self.visual_style
        if at_cursor:
            name = "knob-rows--cursor" if self.has_focus else "knob-rows--cursor-unfocused"
            style = self.get_visual_style(name)
            if self.has_focus:
                line = Content("▸") + line[1:]
        return Visual.to_strips(self, line, line.cell_length, 1, style)[0]

    def watch_position(self, before: int, position: int) -> None:
        """Keep the cursor in sight, and with it the heading just above."""
        row = self._row_of(position)
        if row is not None:
            top = row - 1 if isinstance(self._rows[row - 1], Heading) else row
            self.scroll_to_region(Region(0, top, 1, row - top + 1), animate=False, force=True)
        for changed in (self._row_of(before), row):
            if changed is not None:
                self.refresh_line(changed)
        self.post_message(self.CursorMoved(self.knob))

    def watch_has_focus(self, _has_focus: bool) -> None:
        """The cursor looks different."""
        super().watch_has_focus(_has_focus)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Select; twice edits."""
        row = event.y + self.scroll_offset.y
        if row in self._knob_rows:
            self.position = self._knob_rows.index(row)
            if event.chain == 2:
                self.action_edit()

    def action_cursor(self, knobs: int) -> None:
        """Move by so many knobs, stopping at the ends."""
        self.position = max(0, min(len(self._knob_rows) - 1, self.position + knobs))

    def action_page(self, pages: int) -> None:
        """Move by what is visible."""
        if self._knob_rows:
            row = self._knob_rows[self.position] + pages * max(1, self.size.height - 1)
            at = bisect_left(self._knob_rows, row) if pages > 0 else bisect_right(self._knob_rows, row) - 1
            self.position = max(0, min(len(self._knob_rows) - 1, at))

    def action_cursor_to_end(self, last: bool) -> None:
        """To the first or last knob."""
        self.position = max(0, len(self._knob_rows) - 1) if last else 0

    def action_edit(self) -> None:
        """Ask for the editor."""
        if self.knob is not None:
            self.post_message(self.EditRequested(self.knob))


def _is_worth_a_row(knob: KnobInfo, staged: StagedEdits) -> bool:
    """Of hundreds, those that people turn, or have turned; the config screen has all."""
    return knob.main or knob.is_set or knob.changed or knob.key in staged.edits


class KnobPanel(Vertical):
    """The table, and below it what the knob under the cursor is."""

    BORDER_TITLE = "Knobs"

    def __init__(self, *, classes: str | None = None, readonly: bool = False) -> None:
        super().__init__(classes=classes)
        self._readonly = readonly

    def compose(self) -> ComposeResult:
        """Rows and detail."""
        yield KnobRows()
        yield Static(id="knob-detail", markup=False)

    @property
    def rows(self) -> KnobRows:
        """The table."""
        return self.query_one(KnobRows)

    def show(self, table: KnobTable, staged: StagedEdits) -> None:
        """Take over new values."""
        if table != self.rows.table or staged != self.rows.staged:
            self.rows.show(table, staged)
            self._update_titles()

    def on_resize(self) -> None:
        """A folded panel has no lower border: its note goes into the title."""
        self._update_titles()

    def _update_titles(self) -> None:
        table = self.rows.table
        files = ", ".join(clean_line(path.rpartition("/")[2]) for path in table.files)
        title = Content.styled("Knobs", "bold")
        if files and (hidden := len(table.knobs) - len(self.rows.shown)):
            files += f" · 6: {hidden} more"
        if files:
            title += Content.styled(f" · {files}", "$foreground 60%")
        note = table_note(table, self.rows.staged, readonly=self._readonly)
        if self.styles.border_bottom[0] in ("", "none") and note:
            title += Content(" · ") + note
        self.border_title = title
        self.border_subtitle = note

    @on(KnobRows.CursorMoved)
    def _show_detail(self, event: KnobRows.CursorMoved) -> None:
        problem = worst_problem(event.knob, self.rows.table.problems) if event.knob else None
        detail = self.query_one("#knob-detail", Static)
        detail.border_title = Content(clean_line(event.knob.key)) if event.knob else None
        detail.update(knob_detail(event.knob, problem))
