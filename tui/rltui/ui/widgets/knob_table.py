"""The knob table: one row per knob, drawn on demand; the cursor stays on its knob when values change."""

from __future__ import annotations

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

from rltui.core.api import KnobInfo, KnobTable
from rltui.ui.actions import Scope, bindings
from rltui.ui.text import clean_line
from rltui.ui.widgets.knob_rows import knob_detail, knob_line, table_note, value_width, worst_problem


class KnobRows(ScrollView, can_focus=True):
    """The rows and the cursor."""

    BINDINGS = bindings(Scope.KNOB_TABLE)
    COMPONENT_CLASSES: ClassVar[set[str]] = {"knob-rows--cursor", "knob-rows--cursor-unfocused"}

    position: reactive[int] = reactive(0)
    """Row of the cursor."""

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

    @property
    def knob(self) -> KnobInfo | None:
        """The knob under the cursor."""
        return self.table.knobs[self.position] if self.position < len(self.table.knobs) else None

    def show(self, table: KnobTable) -> None:
        """Take over new values; the cursor stays on its key."""
        key = self.knob.key if self.knob else None
        self.table = table
        self.virtual_size = Size(0, len(table.knobs))
        keys = [knob.key for knob in table.knobs]
        self.position = keys.index(key) if key in keys else min(self.position, max(0, len(keys) - 1))
        self.refresh()
        self.post_message(self.CursorMoved(self.knob))

    def render_line(self, y: int) -> Strip:
        """Row `y` of what is visible."""
        row = y + self.scroll_offset.y
        width = self.size.width
        if row >= len(self.table.knobs):
            return Strip.blank(width, self.rich_style)
        knob = self.table.knobs[row]
        line = knob_line(
            knob,
            width=width,
            values=value_width(self.table, width),
            problem=worst_problem(knob, self.table.problems),
        )
        return self._styled(line.pad_right(max(0, width - line.cell_length)), at_cursor=row == self.position)

    def _styled(self, line: Content, *, at_cursor: bool) -> Strip:
        style = self.visual_style
        if at_cursor:
            name = "knob-rows--cursor" if self.has_focus else "knob-rows--cursor-unfocused"
            style = self.get_visual_style(name)
            if self.has_focus:
                line = Content("▸") + line[1:]
        return Visual.to_strips(self, line, self.size.width, 1, style)[0]

    def watch_position(self) -> None:
        """Keep the cursor in sight."""
        self.scroll_to_region(Region(0, self.position, 1, 1), animate=False, force=True)
        self.refresh()
        self.post_message(self.CursorMoved(self.knob))

    def watch_has_focus(self, _has_focus: bool) -> None:
        """The cursor looks different."""
        super().watch_has_focus(_has_focus)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Select; twice edits."""
        row = event.y + self.scroll_offset.y
        if row < len(self.table.knobs):
            self.position = row
            if event.chain == 2:
                self.action_edit()

    def action_cursor(self, rows: int) -> None:
        """Move by `rows`, stopping at the ends."""
        self.position = max(0, min(len(self.table.knobs) - 1, self.position + rows))

    def action_page(self, pages: int) -> None:
        """Move by what is visible."""
        self.action_cursor(pages * max(1, self.size.height - 1))

    def action_cursor_to_end(self, last: bool) -> None:
        """To the first or last knob."""
        self.position = max(0, len(self.table.knobs) - 1) if last else 0

    def action_edit(self) -> None:
        """Ask for the editor."""
        if self.knob is not None:
            self.post_message(self.EditRequested(self.knob))


class KnobPanel(Vertical):
    """The table, and below it what the knob under the cursor is."""

    BORDER_TITLE = "Knobs"

    def compose(self) -> ComposeResult:
        """Rows and detail."""
        yield KnobRows()
        yield Static(id="knob-detail", markup=False)

    @property
    def rows(self) -> KnobRows:
        """The table."""
        return self.query_one(KnobRows)

    def show(self, table: KnobTable) -> None:
        """Take over new values."""
        if table != self.rows.table:
            self.rows.show(table)
            self._update_titles()

    def on_resize(self) -> None:
        """A folded panel has no lower border: its note goes into the title."""
        self._update_titles()

    def _update_titles(self) -> None:
        table = self.rows.table
        files = ", ".join(clean_line(path.rpartition("/")[2]) for path in table.files)
        title = Content.styled("Knobs", "bold")
        if files:
            title += Content.styled(f" · {files}", "$foreground 60%")
        note = table_note(table)
        if self.styles.border_bottom[0] in ("", "none") and note:
            title += Content(" · ") + note
        self.border_title = title
        self.border_subtitle = note

    @on(KnobRows.CursorMoved)
    def _show_detail(self, event: KnobRows.CursorMoved) -> None:
        event.stop()
        problem = worst_problem(event.knob, self.rows.table.problems) if event.knob else None
        self.query_one("#knob-detail", Static).update(knob_detail(event.knob, problem))
