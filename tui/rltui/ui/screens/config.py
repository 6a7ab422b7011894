"""The config screen: every key of the files, what is wrong with them, and what follows from them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Static

from rltui.base.text import truncate
from rltui.core.config.knobs import pattern, rank
from rltui.core.config.report import KnobInfo, KnobTable, Problem
from rltui.ui import verbs
from rltui.ui.actions import Footer, InPalette, KeyContext
from rltui.ui.base_screen import EXPERIMENT_KEYS, BaseScreen
from rltui.ui.commands.config import CONFIG_KEYS, ConfigCommands
from rltui.ui.copying import CopyRequested
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.key_bindings import bind, keys
from rltui.ui.plan_view import derived_lines, figures
from rltui.ui.state import AppState
from rltui.ui.styles import FAINT, SEVERITY_MARKS
from rltui.ui.text import clean_line, file_name, value_text
from rltui.ui.widgets.bars import KeyBar, TitleLine
from rltui.ui.widgets.knob_table import (
    knob_detail,
    name_cells,
    row_mark,
    table_note,
    value_style,
)
from rltui.ui.widgets.row_list import Row, RowList, list_keys
from rltui.views.knob import change_text, name_in_section, readers_text, section_of, worst_problem

_GAP = 2
_EXTRA = (("default", 10), ("running", 10), ("unit", 9), ("readers", 12), ("meaning", 24))
"""Columns after name and value, with the cells that they have before another one is left out."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    words: str = ""
    """All of them must be in the key, the meaning or the value."""
    only_changed: bool = False

    def rank(self, knob: KnobInfo, staged: Mapping[str, Any], problem: Problem | None) -> int | None:
        """0 is the best match; `None`: the knob is not listed."""
        if self.only_changed and not (knob.changed or knob.key in staged or problem is not None):
            return None
        return rank(self.words.split(), knob.key, knob.help, value_text(knob.value))

    def marked(self, line: Content) -> Content:
        return line.highlight_regex(pattern(self.words.split()), style="underline") if self.words else line


@dataclass(frozen=True, slots=True)
class Columns:
    name: int
    value: int
    extra: Mapping[str, int]


def columns_for(knobs: Sequence[KnobInfo], staged: Mapping[str, Any], width: int) -> Columns:
    """Share out `width` cells. What is left over goes to the columns whose texts are cut, from the left."""
    room = max(0, width - 2)
    ideals = {
        "name": max((len(clean_line(name_in_section(knob.key))) for knob in knobs), default=0),
        "value": max((len(clean_line(change_text(knob, staged))) for knob in knobs), default=0),
    }
    widths = {
        "name": min(max(ideals["name"], 8), max(8, room * 2 // 5)),
        "value": min(max(ideals["value"], 8), max(8, room // 4)),
    }
    remaining = room - sum(widths.values()) - _GAP
    for column, least in _EXTRA:
        ideals[column] = max((len(_cell(knob, column, room)) for knob in knobs), default=0)
        cells = max(len(column), min(least, ideals[column]))
        if ideals[column] and remaining >= cells + _GAP:
            widths[column] = cells
            remaining -= cells + _GAP
    for column, cells in widths.items():
        more = max(0, min(remaining, ideals[column] - cells))
        widths[column] += more
        remaining -= more
    name, value = widths.pop("name"), widths.pop("value")
    return Columns(name, value, widths)


def heading(columns: Columns) -> Content:
    cells = ["  " + "key".ljust(columns.name), "value".ljust(columns.value)]
    cells += [column.ljust(cells_of) for column, cells_of in columns.extra.items()]
    return Content.styled((" " * _GAP).join(cells), FAINT)


def config_rows(
    table: KnobTable, staged: Mapping[str, Any], row_filter: RowFilter, width: int
) -> tuple[Row, ...]:
    """A heading per file and section, a row per key below it; where words are looked for, the likeliest
    first.
    """
    sections: dict[tuple[str, str], list[KnobInfo]] = {}
    ranked = [
        (rank, knob)
        for knob in (*table.knobs, *table.others)
        if (rank := row_filter.rank(knob, staged, worst_problem(knob, table.problems))) is not None
    ]
    for _, knob in sorted(ranked, key=lambda pair: pair[0]):
        sections.setdefault((knob.file, section_of(knob.key)), []).append(knob)
    columns = columns_for((*table.knobs, *table.others), staged, width)
    rows: list[Row] = []
    for (file, section), knobs in sections.items():
        name = f"  {file_name(file)}" if len(table.files) > 1 else ""
        rows.append(Row(None, (Content.assemble((clean_line(section), "bold"), (name, FAINT)),)))
        rows.extend(
            Row(knob.key, (row_filter.marked(_line(knob, columns, table, staged)),)) for knob in knobs
        )
    return tuple(rows)


def _line(knob: KnobInfo, columns: Columns, table: KnobTable, staged: Mapping[str, Any]) -> Content:
    name = name_cells(name_in_section(knob.key), columns.name)
    if not knob.known:
        name = name.stylize(FAINT)
    value = truncate(clean_line(change_text(knob, staged)), columns.value).ljust(columns.value)
    line = Content.assemble(
        row_mark(knob, worst_problem(knob, table.problems), staged),
        " ",
        name,
        " " * (columns.name - name.cell_length + _GAP),
        (value, value_style(knob, staged)),
    )
    for column, cells in columns.extra.items():
        line += Content.styled(" " * _GAP + truncate(_cell(knob, column, cells), cells).ljust(cells), FAINT)
    return line


def _cell(knob: KnobInfo, column: str, cells: int) -> str:
    match column:
        case "default":
            return value_text(knob.default) if knob.known else ""
        case "running":
            return value_text(knob.running) if knob.is_running else "–"
        case "unit":
            return clean_line(knob.unit)
        case "readers":
            return clean_line(readers_text(knob.readers, cells))
        case _:
            return clean_line(knob.help) if knob.known else "not in the knob table"


def problem_rows(problems: Sequence[Problem], width: int) -> tuple[Row, ...]:
    order = list(SEVERITY_MARKS)
    rows = []
    for index, problem in sorted(enumerate(problems), key=lambda item: order.index(item[1].severity)):
        mark, style = SEVERITY_MARKS[problem.severity]
        position = ""
        if problem.file:
            position = file_name(problem.file) + (f":{problem.line}" if problem.line else "")
        text = f"{position} {clean_line(problem.message)}".strip()
        lines = textwrap.wrap(text, max(8, width - 2)) or [""]
        contents = [Content.assemble((f"{mark} ", style), (lines[0], style))]
        contents.extend(Content.styled(f"  {line}", style) for line in lines[1:])
        rows.append(Row(str(index), tuple(contents)))
    return tuple(rows)


class ConfigScreen(BaseScreen):
    place = KeyContext.CONFIG

    CSS_PATH: ClassVar = ["config.tcss"]
    BINDINGS = keys(
        KeyContext.CONFIG, *EXPERIMENT_KEYS, *list_keys("moved_list."), *CONFIG_KEYS,
        bind(verbs.OPEN, "edit", "Edit the knob; from a problem, go to its knob", label="edit",
             palette=InPalette.NO,
             changes=True),
        bind(verbs.EDIT, "edit_knob", footer=Footer.YES),
        bind(verbs.KNOB_DIFF, "config.show_pending", footer=Footer.YES),
        bind(verbs.KNOB_CONVERT, "config.convert"),
        bind(verbs.FILTER, "toggle_changed", "Filter: changed, collected or wrong keys, or all",
             footer=Footer.YES),
        bind(verbs.SEARCH, "search", "Search keys, meanings and values", footer=Footer.YES),
        bind(verbs.PANE_NEXT, "switch_list", "Go to the problems and back; enter goes to the knob",
             footer=Footer.YES),
        bind(verbs.PANE_PREVIOUS, "switch_list"),
        bind(verbs.BACK, footer=Footer.YES),
    )  # fmt: skip
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012 - as Textual declares it

    def __init__(self, app_state: AppState) -> None:
        super().__init__(app_state)
        self.config = ConfigCommands(self, self.state, self.commands, lambda: self.cursor_knob)
        self.state.watch("config", self.reload)
        self.state.watch("connection", self.reload)
        self._filter = RowFilter()
        self._cached: tuple[object, tuple[Row, ...]] | None = None
        self._title = TitleLine(id="config-title")
        self._heading = Static(id="config-heading", markup=False)
        self._rows = RowList(self._make_rows, id="config-rows")
        self._detail = Static(id="config-detail", markup=False)
        self._derived = Static(id="config-derived", markup=False)
        self._problems = RowList(
            lambda width, _: problem_rows(self.state.table.problems, width), id="config-problems"
        )

    def compose(self) -> ComposeResult:
        yield self._title
        yield KeyBar()
        with Container(id="config-body"):
            with Vertical(id="config-left"):
                yield self._heading
                yield self._rows
            with Vertical(id="config-right"):
                yield self._detail
                yield self._derived
                yield self._problems

    def on_mount(self) -> None:
        self._derived.border_title = "Derived values"
        self._problems.border_title = "Problems"
        self._rows.focus()

    def on_screen_resume(self) -> None:
        self.reload()

    def on_resize(self) -> None:
        self.call_after_refresh(self.reload)

    # values in

    def reload(self) -> None:
        if not self.is_open:
            return
        table = self.state.table
        files = ", ".join(map(file_name, table.files))
        note = table_note(table, self.state.staged, readonly=self.experiment.readonly)
        only = "only changed" if self._filter.only_changed else ""
        self._title.update(self.state.heading("Config", (only, "bold"), note or "", (files, FAINT)))
        self._rows.reload()
        if self.aim and self._rows.keys:
            self._rows.go_to(self.aim)
            self.aim = ""
        self._problems.set_class(bool(self.state.table.problems), "-shown")
        self._problems.reload()
        self.call_after_refresh(self._problems.refresh, layout=True)  # its height follows its lines
        self._show_derived()
        self._show_detail()
        self.refresh_bindings()

    def _show_derived(self) -> None:
        derived = self.state.table.derived
        self._derived.set_class(bool(derived), "-shown")
        if self.has_class("-wide"):
            self._derived.update(Content("\n").join(derived_lines(derived)))
        else:
            self._derived.update(Content(" · ").join(figures(derived)))

    # rows

    def _make_rows(self, width: int, selected: str | None) -> tuple[Row, ...]:
        """They do not depend on the cursor, so moving it makes none anew."""
        del selected
        state = (self.state.table, self.state.staged, self._filter, width)
        if self._cached is None or self._cached[0] != state:
            staged = self.state.staged.edits
            self._cached = (state, config_rows(self.state.table, staged, self._filter, width))
            columns = columns_for(self.state.knobs, staged, width)
            self._heading.update(heading(columns), layout=False)
        return self._cached[1]

    @property
    def cursor_knob(self) -> KnobInfo | None:
        return next((knob for knob in self.state.knobs if knob.key == self._rows.key), None)

    def copied(self) -> CopyRequested | None:
        return (
            self._problems.copied()
            if self.focused is self._problems
            else self.config.copied() or super().copied()
        )

    @on(RowList.Moved, "#config-rows")
    def _show_detail(self) -> None:
        knob = self.cursor_knob
        self._detail.border_title = Content(clean_line(knob.key)) if knob is not None else None
        nothing = Content.styled("No match. esc shows all keys.", FAINT)
        self._detail.update(knob_detail(knob) if knob is not None else nothing)
        problem = worst_problem(knob, self.state.table.problems) if knob is not None else None
        if problem is not None:
            self._problems.go_to(str(self.state.table.problems.index(problem)))
        self.refresh_bindings()

    # search and filter

    def action_search(self) -> None:
        placeholder = "words from keys, meanings or values"
        line = SearchLine.of_rows(self._rows, self._filter.words, placeholder, "key", show=self._search_for)
        self.app.push_screen(line)

    def _search_for(self, words: str) -> None:
        self._filter = RowFilter(words, self._filter.only_changed)
        self.reload()
        if words:
            self._rows.move_to_end(last=False)  # to the likeliest

    def action_toggle_changed(self) -> None:
        self._filter = RowFilter(self._filter.words, not self._filter.only_changed)
        self.reload()

    def action_back(self) -> None:
        if self._filter.words:
            self._search_for("")
        else:
            self.action_show_overview()

    # keys

    @property
    def moved_list(self) -> RowList:
        return self._problems if self.focused is self._problems else self._rows

    def action_switch_list(self) -> None:
        (self._rows if self.focused is self._problems else self._problems).focus()

    def action_edit_knob(self) -> None:
        if self.focused is self._problems:
            self._go_to_problem()
        elif (knob := self.cursor_knob) is not None:
            self.config.edit(knob)

    action_edit = action_edit_knob

    def _go_to_problem(self) -> None:
        if self._problems.key is None:
            return
        problem = self.state.table.problems[int(self._problems.key)]
        if not any(knob.key == problem.key for knob in self.state.knobs):
            self.notify("This problem names no key", markup=False)
            return
        self._filter = RowFilter()
        self._rows.reload()
        self._rows.go_to(problem.key or "")
        self._rows.focus()
        self.reload()

    def enabled(self, command: str, *arguments: object) -> bool:
        match command:
            case "switch_list":
                return bool(self.state.table.problems)
            case "edit_knob":
                return bool(self.state.knobs)
            case _:
                return super().enabled(command, *arguments)
