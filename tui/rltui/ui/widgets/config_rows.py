"""The config screen's rows: every key of the files in columns, filtered. Pure functions."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textual.content import Content

from rltui.core.config_report import KnobInfo, KnobTable, Problem
from rltui.core.knobs import pattern, rank
from rltui.core.text import shortened
from rltui.ui.text import clean_line, value_text
from rltui.ui.widgets.knob_rows import (
    SEVERITY_MARKS,
    change_text,
    name_cells,
    readers_text,
    row_mark,
    value_look,
    worst_problem,
)
from rltui.ui.widgets.knob_sections import name_in_section, section_of
from rltui.ui.widgets.row_list import Row

_FAINT = "$foreground 60%"
_GAP = 2
_EXTRA = (("default", 10), ("running", 10), ("unit", 9), ("readers", 12), ("meaning", 24))
"""Columns after name and value, in the order they are left out last, with the fewest cells they take."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """What a person wants to see."""

    words: str = ""
    """All of them must be in the key, the meaning or the value."""
    only_changed: bool = False

    def rank(self, knob: KnobInfo, staged: Mapping[str, Any], problem: Problem | None) -> int | None:
        """How likely `knob` is meant, 0 the likeliest; `None`: it is not shown."""
        if self.only_changed and not (knob.changed or knob.key in staged or problem is not None):
            return None
        return rank(self.words.split(), knob.key, knob.help, value_text(knob.value))

    def marked(self, line: Content) -> Content:
        """With the places that were looked for."""
        return line.highlight_regex(pattern(self.words.split()), style="underline") if self.words else line


@dataclass(frozen=True, slots=True)
class Columns:
    """Cells of name, value and the others that there is room for."""

    name: int
    value: int
    extra: Mapping[str, int]


def columns_for(knobs: Sequence[KnobInfo], staged: Mapping[str, Any], width: int) -> Columns:
    """Share out `width` cells; what is left over goes to the meaning, or else to the value."""
    names = max((len(clean_line(name_in_section(knob.key))) for knob in knobs), default=0)
    values = max((len(change_text(knob, staged)) for knob in knobs), default=0)
    room = max(0, width - 2)
    name = min(max(names, 8), max(8, room * 2 // 5))
    value = min(max(values, 8), max(8, room // 4))
    left = room - name - value - _GAP
    extra: dict[str, int] = {}
    for column, least in _EXTRA:
        if left < least + _GAP:
            break
        extra[column] = least
        left -= least + _GAP
    if "meaning" in extra:
        extra["meaning"] += left
    else:
        value += max(0, min(left, values - value))
    return Columns(name, value, extra)


def heading(columns: Columns) -> Content:
    """What the columns hold."""
    cells = ["  " + "key".ljust(columns.name), "value".ljust(columns.value)]
    cells += [column.ljust(cells_of) for column, cells_of in columns.extra.items()]
    return Content.styled((" " * _GAP).join(cells), _FAINT)


def config_rows(
    table: KnobTable, staged: Mapping[str, Any], row_filter: RowFilter, width: int
) -> tuple[Row, ...]:
    """A heading per file and section, a row per key below it; where words are looked for, the likeliest
    first.
    """
    sections: dict[tuple[str, str], list[KnobInfo]] = {}
    ranked = [
        (found, knob)
        for knob in (*table.knobs, *table.others)
        if (found := row_filter.rank(knob, staged, worst_problem(knob, table.problems))) is not None
    ]
    for _, knob in sorted(ranked, key=lambda pair: pair[0]):
        sections.setdefault((knob.file, section_of(knob.key)), []).append(knob)
    columns = columns_for((*table.knobs, *table.others), staged, width)
    rows: list[Row] = []
    for (file, section), knobs in sections.items():
        name = f"  {clean_line(file.rpartition('/')[2])}" if len(table.files) > 1 else ""
        rows.append(Row(None, (Content.assemble((clean_line(section), "bold"), (name, _FAINT)),)))
        rows.extend(
            Row(knob.key, (row_filter.marked(_line(knob, columns, table, staged)),)) for knob in knobs
        )
    return tuple(rows)


def _line(knob: KnobInfo, columns: Columns, table: KnobTable, staged: Mapping[str, Any]) -> Content:
    name = name_cells(knob.key, columns.name)
    if not knob.known:
        name = name.stylize(_FAINT)
    value = shortened(change_text(knob, staged), columns.value).ljust(columns.value)
    line = Content.assemble(
        row_mark(knob, worst_problem(knob, table.problems), staged),
        " ",
        name,
        " " * (columns.name - name.cell_length + _GAP),
        (value, value_look(knob, staged)),
    )
    for column, cells in columns.extra.items():
        line += Content.styled(" " * _GAP + shortened(_cell(knob, column, cells), cells).ljust(cells), _FAINT)
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
            return readers_text(knob.readers, cells)
        case _:
            return clean_line(knob.help) if knob.known else "not in the knob table"


def problem_rows(problems: Sequence[Problem], width: int) -> tuple[Row, ...]:
    """A row per problem, errors first, with its place."""
    order = list(SEVERITY_MARKS)
    rows = []
    for at, problem in sorted(enumerate(problems), key=lambda item: order.index(item[1].severity)):
        mark, style = SEVERITY_MARKS[problem.severity]
        place = ""
        if problem.file:
            place = clean_line(problem.file.rpartition("/")[2]) + (f":{problem.line}" if problem.line else "")
        text = f"{place} {clean_line(problem.message)}".strip()
        lines = textwrap.wrap(text, max(8, width - 2)) or [""]
        contents = [Content.assemble((f"{mark} ", style), (lines[0], style))]
        contents.extend(Content.styled(f"  {line}", style) for line in lines[1:])
        rows.append(Row(str(at), tuple(contents)))
    return tuple(rows)
