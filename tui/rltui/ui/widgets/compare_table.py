"""Runs beside each other as rows: a column for each run, as many as there is room for."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content

from rltui.core.config.data import short_names
from rltui.core.runs.compare import Comparison
from rltui.ui.actions import key_of
from rltui.ui.paragraphs import hanging, truncate_cells
from rltui.ui.styles import CURSOR, FAINT
from rltui.ui.text import clean_line
from rltui.ui.widgets.row_list import Row
from rltui.views.comparison import BEST, ComparedRow, compared_rows, remark_text

_GAP = 1
_WIDEST_COLUMNS = (32, 26, 20, 16, 12)
"""Cells of a column, the most first."""
_WIDEST_NAME = 26
_MORE = "  9 more →"
_LEAST_LABEL = 16
_HEADINGS = {"run": "Runs", "config": "Config", "metric": "Metrics", "eval": "Evaluations"}


@dataclass(frozen=True, slots=True)
class CompareTable:
    head: Content
    """The names of the runs, over their columns."""
    rows: tuple[Row, ...]
    last: int
    """Place behind the last run that is seen."""


def compare_table(
    comparison: Comparison, width: int, selected: str | None, *, first: int, all_keys: bool
) -> CompareTable:
    """`first`: index of the first visible run; `selected`: the row that shows more."""
    all_rows = compared_rows(comparison, all_keys=all_keys)
    names = [clean_line(run.name) for run in comparison.runs]
    columns = _RunColumns(all_rows, names, width, first)
    rows: list[Row] = []
    section = ""
    for row in all_rows:
        if row.part != section:
            section = row.part
            rows += [Row(None, (Content(""),))] if rows else []
            rows.append(Row(None, (_heading(comparison, section, all_keys=all_keys),)))
        is_selected = row_key(row) == selected
        lines = [columns.line(row, is_selected=is_selected)]
        if is_selected and columns.cuts(row):
            lines += _full_row(row, names, width)
        rows.append(Row(row_key(row), tuple(lines)))
    if not comparison.differing and not all_keys:
        rows.append(
            Row(
                None,
                (Content.styled(f"  no config keys differ; {key_of('filter')} shows all", FAINT),),
            )
        )
    if remark := remark_text(comparison):
        lines = hanging(remark, width - len(CURSOR), FAINT)
        rows += [Row(None, (Content(""),)), Row(None, tuple(Content("  ") + line for line in lines))]
    return CompareTable(columns.head(names), tuple(rows), columns.last)


def row_key(row: ComparedRow) -> str:
    return f"{row.part}:{row.label}"


def _heading(comparison: Comparison, section: str, *, all_keys: bool) -> Content:
    text = _HEADINGS[section]
    if section == "config":
        differing = len(comparison.differing)
        text += f" · {differing} of {len(comparison.keys)} keys {'differs' if differing == 1 else 'differ'}"
        text += "" if all_keys or not differing else ", the rest are equal"
    return Content.styled(f"  {text}", f"bold {FAINT}")


class _RunColumns:
    """Visible runs and their widths: wide values give way, until all have room or are narrow enough."""

    def __init__(self, rows: tuple[ComparedRow, ...], names: list[str], width: int, first: int) -> None:
        keys = tuple(row.label for row in rows if row.part == "config")
        self._names = {row.label: clean_line(row.label) for row in rows}
        max_label = max(_LEAST_LABEL, width * 3 // 10)
        if max(map(cell_len, self._names.values()), default=0) > max_label:
            self._names |= {key: clean_line(short) for key, short in short_names(keys).items()}
        self._label = min(max_label, max(map(cell_len, self._names.values()), default=0))
        ideal_widths = [
            max(cell_len(name) + len(BEST), *(_cell_width(row, index) for row in rows))
            for index, name in enumerate(names)
        ]
        room = width - len(CURSOR) - self._label
        for widest in _WIDEST_COLUMNS:
            self._widths = [min(widest, ideal) for ideal in ideal_widths]
            if sum(self._widths) + _GAP * len(names) <= room:
                break
        self.first = self.last = min(first, len(names) - 1)
        if sum(width + _GAP for width in self._widths[self.first :]) > room:
            room -= len(_MORE)
        while self.last < len(names) and room >= self._widths[self.last] + _GAP:
            room -= self._widths[self.last] + _GAP
            self.last += 1
        if self.last == self.first:  # not even one fits: it is cut
            self._widths[self.first] = max(len(BEST) + 1, room - _GAP)
            self.last += 1

    def head(self, names: list[str]) -> Content:
        more = f"← {self.first} more" if self.first else ""
        line = Content.styled(f"  {truncate_cells(more, self._label):<{self._label}}", FAINT)
        for index in range(self.first, self.last):
            line += _at_right(
                truncate_cells(names[index], self._widths[index] - len(BEST)), self._widths[index], "bold"
            )
        hidden_count = len(names) - self.last
        return line + Content.styled(f"  {hidden_count} more →", FAINT) if hidden_count else line

    def line(self, row: ComparedRow, *, is_selected: bool) -> Content:
        """Label and values. Of the config, what is not as in the first run stands out."""
        label = _tail(self._names[row.label], self._label)
        line = Content(CURSOR if is_selected else "  ") + Content(label.ljust(self._label))
        for index in range(self.first, self.last):
            style = "$text-success bold" if index in row.best else ""
            if row.part == "config":
                style = "$text-warning" if row.cells[index] != row.cells[0] else ""
            width = self._widths[index]
            cell = truncate_cells(clean_line(row.cells[index]), width - len(BEST)) + (
                BEST if index in row.best else ""
            )
            line += _at_right(cell, width, style, is_best=index in row.best)
        return line

    def cuts(self, row: ComparedRow) -> bool:
        is_cut = any(_cell_width(row, index) > width for index, width in enumerate(self._widths))
        hides = self.first > 0 or self.last < len(self._widths)
        return is_cut or hides or clean_line(row.label) != _tail(self._names[row.label], self._label)


def _full_row(row: ComparedRow, names: list[str], width: int) -> list[Content]:
    indent = " " * (len(CURSOR) + 2)
    room = max(1, width - len(indent))
    lines = hanging(clean_line(row.label), room, "bold")
    widest = min(_WIDEST_NAME, max(map(cell_len, names)))
    for index, name in enumerate(names):
        value = clean_line(row.cells[index]) + (BEST if index in row.best else "")
        lines += hanging(f"{truncate_cells(name, widest):<{widest}}  {value}", room, FAINT)
    return [Content(indent) + line for line in lines]


def _cell_width(row: ComparedRow, index: int) -> int:
    """The sign of the best stands behind the value and counts."""
    return cell_len(clean_line(row.cells[index])) + len(BEST)


def _at_right(text: str, width: int, style: str, *, is_best: bool = False) -> Content:
    if not is_best:
        width -= len(BEST)
    line = Content(" " * (_GAP + max(0, width - cell_len(text)))) + Content.styled(text, style)
    return line if is_best else line + " " * len(BEST)


def _tail(text: str, width: int) -> str:
    """The end of a key tells more than its beginning."""
    return text if len(text) <= width else f"…{text[len(text) - width + 1 :]}"
