"""The knob table: rows below their sections' headings, drawn on demand; the cursor keeps to its knob."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from rltui.base.text import count_text, truncate
from rltui.core.config.report import KnobInfo, KnobTable, Problem
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext, key_of
from rltui.ui.key_bindings import bind, keys
from rltui.ui.state import ExperimentState, StagedEdits
from rltui.ui.styles import CURSOR_SIGN, FAINT, SEVERITY_MARKS
from rltui.ui.text import clean_line, file_name
from rltui.ui.widgets.row_list import Row, RowList, list_keys
from rltui.views.knob import (
    NOTHING_STAGED,
    KnobGroups,
    by_section,
    change_text,
    knob_groups,
    name_in_section,
    origin_text,
    readers_text,
    worst_problem,
)

_INDENT = "  "
"""A knob's name below its heading; a mark or the cursor takes its first cell."""
_STAGED_MARK = "+"
"""It stands before a knob whose new value is collected, not written."""
_MIN_VALUE_WIDTH = 9
_READERS_WIDTHS = (11, 5, 3)
"""Cells for the readers, the most first: two names, one name, initials."""
_MAX_WIDTH = 64
"""Rows do not grow beyond it: the eye must find from a name to its value."""


def value_style(knob: KnobInfo, staged: Mapping[str, Any] = NOTHING_STAGED) -> str:
    if knob.key in staged:
        return "bold $text-accent"
    return "bold $text-warning" if knob.changed else ("" if knob.is_set else FAINT)


def row_mark(
    knob: KnobInfo, problem: Problem | None, staged: Mapping[str, Any] = NOTHING_STAGED
) -> tuple[str, str]:
    if problem is not None:
        return SEVERITY_MARKS[problem.severity]
    return (_STAGED_MARK, "bold $text-accent") if knob.key in staged else (" ", "")


def unwritten(state: ExperimentState) -> tuple[str, ...]:
    """Losses if the app ends now, a line for every one: collected edits, texts that came out of an editor."""
    edits = state.staged.edits
    lines = [
        f"{clean_line(knob.key)} {clean_line(change_text(knob, edits))}"
        for knob in state.knobs
        if knob.key in edits
    ]
    return (*lines, *(f"the text of {clean_line(path)}" for path in state.drafts))


@dataclass(frozen=True, slots=True)
class KnobColumns:
    """Widths that all rows of a table share."""

    width: int
    """A row has at most `_MAX_WIDTH` unless the table needs more."""
    values: int
    """The least width of a value beside a long name; a short name leaves it more."""
    readers: int
    """The last column; 0 leaves it out."""


def knob_columns(table: KnobTable, width: int, staged: Mapping[str, Any] = NOTHING_STAGED) -> KnobColumns:
    """Share out `width` cells: names and values first, then as much of the readers as all rows have left."""
    values = max(_MIN_VALUE_WIDTH, width // 3)
    longest = max(
        (
            len(clean_line(name_in_section(knob.key)))
            + min(len(clean_line(change_text(knob, staged))), values)
            for knob in table.knobs
        ),
        default=0,
    )
    needed = len(_INDENT) + longest + 1
    readers = 0
    for max_readers in _READERS_WIDTHS:
        readers = max(
            (len(clean_line(readers_text(knob.readers, max_readers))) for knob in table.knobs), default=0
        )
        if needed + 1 + readers <= width:
            break
    else:
        readers = 0
    return KnobColumns(min(width, max(_MAX_WIDTH, needed + 1 + readers)), values, readers)


def name_cells(name_or_key: str, width: int) -> Content:
    """A dotted name; where it is too long, its first elements give way."""
    path, dot, name = clean_line(name_or_key).rpartition(".")
    prefix = path + dot
    if len(prefix) + len(name) > width:
        prefix = "…" if prefix and len(name) < width else ""
    return Content.assemble((prefix, FAINT), (truncate(name, width), ""))


def knob_line(
    knob: KnobInfo,
    columns: KnobColumns,
    problem: Problem | None,
    staged: Mapping[str, Any] = NOTHING_STAGED,
    *,
    has_section: bool = True,
) -> Content:
    """`has_section`: the heading of its section stands above."""
    width = columns.width - len(_INDENT) - (columns.readers + 1 if columns.readers else 0)
    value = clean_line(change_text(knob, staged))
    full_name = name_in_section(knob.key) if has_section else knob.key
    value = truncate(value, max(columns.values, width - len(clean_line(full_name)) - 1))
    name = name_cells(full_name, max(0, width - len(value) - 1))
    line = Content.assemble(
        row_mark(knob, problem, staged),
        _INDENT[1:],
        name,
        " " * (width - name.cell_length - len(value)),
        (value, value_style(knob, staged)),
    )
    if columns.readers:
        readers = clean_line(readers_text(knob.readers, columns.readers)).ljust(columns.readers)
        line += Content.styled(f" {readers}", FAINT)
    return line


def knob_detail(knob: KnobInfo | None, problem: Problem | None = None) -> Content:
    """The lines under the table: what is wrong with the knob, what it is, what it may be."""
    if knob is None:
        return Content("")
    spans: list[tuple[str, str]] = []
    if problem is not None:
        mark, style = SEVERITY_MARKS[problem.severity]
        spans.append((f"{mark} {clean_line(problem.message)}\n", style))
    if knob.help:
        spans.append((f"{clean_line(knob.help)}\n", ""))
    spans.append((clean_line(origin_text(knob)), FAINT))
    return Content.assemble(*spans)


def table_note(table: KnobTable, staged: StagedEdits | None = None, *, readonly: bool = False) -> Content:
    """A border shows problems, collected edits and values that do not count yet, with the key for them."""
    spans: list[tuple[str, str]] = []
    errors = sum(problem.is_error for problem in table.problems)
    if errors:
        spans.append((f"✗ {count_text(errors, 'error')}", "$text-error"))
    if staged:
        spans.append((" · " if spans else "", ""))
        spans.append((f"+ {len(staged)} collected: {key_of('write')} writes", "bold $text-accent"))
    if change_count := sum(knob.changed for knob in (*table.knobs, *table.others)):
        apply = key_of("knob.apply")
        text = "1 change needs" if change_count == 1 else f"{change_count} changes need"
        spans.append((" · " if spans else "", ""))
        spans.append((f"{text} a restart{'' if readonly else f': {apply}'}", "$text-warning"))
    return Content.assemble(*spans)


class KnobRows(RowList):
    """Pinned and changed knobs come first, then those that are turned most, then the others, by section."""

    BINDINGS = keys(
        KeyContext.KNOB_TABLE, *list_keys(),
        bind(verbs.OPEN, "edit", "Edit the knob", label="edit", palette=InPalette.WHILE_FOCUSED,
             changes=True),
        bind(verbs.PIN, "pin", "Pin the knob to the top, or unpin it", footer=Footer.YES),
    )  # fmt: skip
    place: ClassVar = KeyContext.KNOB_TABLE
    cursor_mark = CURSOR_SIGN

    @dataclass
    class EditRequested(Message):
        knob: KnobInfo

    @dataclass
    class PinsChanged(Message):
        """A person wants these first from now on."""

        pins: tuple[str, ...]

    def __init__(self) -> None:
        super().__init__(self._make)
        self.table = KnobTable()
        self.staged = StagedEdits()
        self._pins: tuple[str, ...] = ()
        self._groups = KnobGroups()
        self._made: tuple[int, tuple[Row, ...]] | None = None
        """The rows and the width that they were made for."""
        self.is_placed = False
        """Someone put the cursor where it is. Before that it is on the first knob, whichever that is."""

    @property
    def knob(self) -> KnobInfo | None:
        return next((knob for knob in self.visible_knobs if knob.key == self.key), None)

    @property
    def about(self) -> str:
        knob = self.knob
        return "" if knob is None else f"{knob.key}: {knob.help}" if knob.help else knob.key

    @property
    def visible_knobs(self) -> list[KnobInfo]:
        """The knobs that have a row."""
        groups = self._groups
        return [*groups.pinned, *groups.changed, *groups.few, *groups.rest]

    @property
    def lines_needed(self) -> int:
        """All rows and headings count."""
        groups = self._groups
        sections = [*by_section(groups.few), *by_section(groups.rest)]
        return len(self.visible_knobs) + len(sections) + bool(groups.pinned) + bool(groups.changed)

    def show(
        self, table: KnobTable, staged: StagedEdits, pins: tuple[str, ...] = (), edited: Collection[str] = ()
    ) -> None:
        """The cursor stays on its key, once someone has been there."""
        if not self.is_placed:
            self.key = None
        self.table, self.staged, self._pins = table, staged, pins
        self._groups = knob_groups(table, staged.edits, pins=pins, edited=edited)
        self._made = None
        self.reload()
        self.refresh()

    def begin_at(self, key: str) -> None:
        """Put the cursor there, also where its row is still to come."""
        self.is_placed = True
        if self.keys:
            self.go_to(key)
        else:
            self.key = key

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.is_placed = self.is_placed or has_focus

    def _make(self, width: int, selected: str | None) -> tuple[Row, ...]:
        del selected
        if self._made is None or self._made[0] != width:
            columns, groups = knob_columns(self.table, width, self.staged.edits), self._groups
            rows = [
                *self._section("pinned", groups.pinned, columns, has_section=False),
                *self._section("changed", groups.changed, columns, has_section=False),
            ]
            for section, knobs in by_section(groups.few).items():
                rows += self._section(section, knobs, columns)
            for section, knobs in by_section(groups.rest).items():
                rows += self._section(f"{section} · more", knobs, columns)
            self._made = width, tuple(rows)
        return self._made[1]

    def _section(
        self, heading: str, knobs: Sequence[KnobInfo], columns: KnobColumns, *, has_section: bool = True
    ) -> list[Row]:
        if not knobs:
            return []
        rows = [Row(None, (Content.styled(clean_line(heading), FAINT),))]
        for knob in knobs:
            problem = worst_problem(knob, self.table.problems)
            line = knob_line(knob, columns, problem, self.staged.edits, has_section=has_section)
            rows.append(Row(knob.key, (line,)))
        return rows

    def on_click(self, event: events.Click) -> None:
        """The first one selects; the second edits."""
        if event.chain == 2 and self.row_at(event.y) == self.key:
            self.action_edit()

    action_move, action_move_pages, action_move_to_end = RowList.move, RowList.move_pages, RowList.move_to_end

    def action_edit(self) -> None:
        """Ask for the editor."""
        if self.knob is not None:
            self.post_message(self.EditRequested(self.knob))

    def action_pin(self) -> None:
        if (knob := self.knob) is not None:
            other_pins = tuple(pin for pin in self._pins if pin != knob.key)
            self.post_message(
                self.PinsChanged(other_pins if knob.key in self._pins else (*self._pins, knob.key))
            )


_DETAIL_ROWS = 4
_HIGH_ROWS = 10
"""The least height with room for the detail."""


class KnobPanel(Vertical):
    """The table, and below it what the knob under the cursor is."""

    BORDER_TITLE = "Knobs"

    def __init__(self, *, classes: str | None = None, readonly: bool = False) -> None:
        super().__init__(classes=classes)
        self._readonly = readonly
        self._rendered: tuple[object, ...] = ()
        self.rows = KnobRows()

    def compose(self) -> ComposeResult:
        yield self.rows
        yield Static(id="knob-detail", markup=False)

    def rows_needed(self, width: int) -> int:
        """Rows that show all knobs and a detail, with the frame around them."""
        del width
        return self.rows.lines_needed + _DETAIL_ROWS + 2

    def show(
        self, table: KnobTable, staged: StagedEdits, pins: tuple[str, ...] = (), edited: Collection[str] = ()
    ) -> None:
        """`pins` and `edited`: as `knob_groups`."""
        if (table, staged, pins, edited) != self._rendered:
            self._rendered = table, staged, pins, edited
            self.rows.show(table, staged, pins, edited)
            self._update_titles()
            self._show_detail()

    def on_resize(self) -> None:
        """A folded panel has no lower border: its note goes into the title. A low one has no detail."""
        self.set_class(self.size.height >= _HIGH_ROWS, "-high")
        self._update_titles()

    def _update_titles(self) -> None:
        table = self.rows.table
        files = ", ".join(map(file_name, table.files))
        title = Content.styled("Knobs", "bold")
        if files:
            title += Content.styled(f" · {files}", FAINT)
        note = table_note(table, self.rows.staged, readonly=self._readonly)
        if self.styles.border_bottom[0] in ("", "none") and note:
            title += Content(" · ") + note
        self.border_title = title
        self.border_subtitle = note

    @on(RowList.Moved)
    def _show_detail(self) -> None:
        knob = self.rows.knob
        problem = worst_problem(knob, self.rows.table.problems) if knob else None
        detail = self.query_one("#knob-detail", Static)
        detail.border_title = Content(clean_line(knob.key)) if knob else None
        detail.update(knob_detail(knob, problem))
