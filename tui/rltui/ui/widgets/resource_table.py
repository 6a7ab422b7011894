"""A view (`views/table.py`) as the rows of a `RowList`: columns that fit, and below one row more of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic

from textual.content import Content

from rltui.base.text import truncate
from rltui.ui.paragraphs import hanging, labelled
from rltui.ui.styles import CURSOR, FAINT, STYLES
from rltui.ui.text import clean_line, progress_bar
from rltui.ui.widgets.row_list import Row
from rltui.views.table import Cell, Column, View
from rltui.views.table import Row as Resource

_GAP = "  "
BAR = 12
_BELOW = "    "
_LEAST_LABEL = 8


def bar_of(share: float) -> Content:
    """A bar of `BAR` cells."""
    full, empty = progress_bar(share, BAR)
    return Content.assemble((full, "$primary"), (empty, FAINT))


@dataclass(frozen=True, slots=True)
class ResourceTable(Generic[Resource]):
    view: View[Resource]
    columns: tuple[Column[Resource], ...]
    """The first is at the left."""
    style: Callable[[Resource], str] = lambda _: ""
    """The style of a whole row."""
    bar: Callable[[Resource], float | None] | None = None
    """The value of a bar behind the columns, relative to the largest or to 1; where there is room."""
    last_least: int | None = None
    """Cells of the last column that are worth another one; `None`: as many as its texts need."""

    def rows(
        self,
        resources: Sequence[Resource],
        width: int,
        selected: str | None,
        now: float,
        details: Callable[[Resource], Iterable[tuple[str, str]]],
    ) -> tuple[Row, ...]:
        """The head, and a row for each; below the selected one its `details`, labels with texts, but those
        that the row shows whole are left out.
        """
        cells = [[column.cell(resource, now) for column in self.columns] for resource in resources]
        cells = [[Cell(clean_line(text), role, length) for text, role, length in row] for row in cells]
        room = width - len(CURSOR)
        fitting = self._fitting(cells, room)
        used_cells = sum(cells + len(_GAP) for _, cells in fitting)
        shares = [None if self.bar is None else self.bar(resource) for resource in resources]
        largest = max([1.0, *(share for share in shares if share is not None)])
        titles = [Cell(column.title) for column in self.columns]
        rows = [Row(None, (self._line(_GAP, titles, fitting, width, FAINT),))]
        for resource, row, share in zip(resources, cells, shares, strict=True):
            key = self.view.key(resource)
            line = self._line(CURSOR if key == selected else _GAP, row, fitting, width, self.style(resource))
            if share is not None and used_cells + BAR <= room:
                line = line.pad_right(max(0, used_cells + len(CURSOR) - line.cell_length))
                line += bar_of(share / largest)
            below: list[Content] = []
            if key == selected:
                shown = self._shown(row, fitting, width)
                more = [
                    (label, text) for label, text in details(resource) if text and not {label, text} & shown
                ]
                below = _labelled_lines(more, width - len(_BELOW))
            rows.append(Row(key, (line, *(Content(_BELOW) + more_line for more_line in below))))
        return tuple(rows)

    def _shown(self, row: Sequence[Cell], fitting: Sequence[tuple[int, int]], width: int) -> set[str]:
        """The names and the texts of the cells that the row shows whole."""
        shown, end = set(), len(CURSOR)
        for index, cells in fitting:
            if (text := row[index].text) and end + len(text) <= width:
                shown |= {text, self.columns[index].name}
            end += cells + len(_GAP)
        return shown

    def _line(
        self, mark: str, cells: Sequence[Cell], fitting: Sequence[tuple[int, int]], width: int, style: str
    ) -> Content:
        """Behind its mark, cut to the width; a cell in the style of its role, or as the whole row."""
        text, spans = mark, []
        for index, cells_wide in fitting:
            cell = cells[index]
            if self.columns[index].is_right:
                text += " " * (cells_wide - len(cell.text))
            if cell.role is not None:
                length = len(cell.text) if cell.length is None else cell.length
                spans.append((STYLES[cell.role], len(text), len(text) + length))
            text += cell.text if self.columns[index].is_right else f"{cell.text:<{cells_wide}}"
            text += _GAP
        line = Content.styled(truncate(text.rstrip(), width), style)
        for role_style, begin, end in spans:
            line = line.stylize(role_style, begin, end)
        return line

    def _fitting(self, cells: Sequence[Sequence[Cell]], room: int) -> list[tuple[int, int]]:
        """Places of the columns that something stands in, and their widths, as far as there is room."""
        places = [index for index in range(len(self.columns)) if any(row[index].text for row in cells)]
        last = len(self.columns) - 1
        widths = {}
        for index in places:
            longest = max(len(row[index].text) for row in cells)
            if index == last and self.last_least is not None:
                longest = min(longest, self.last_least)
            widths[index] = max(len(self.columns[index].title), longest)
        for spare in sorted(places, key=lambda index: -self.columns[index].goes):
            if (
                sum(widths[index] + len(_GAP) for index in places) - len(_GAP) <= room
                or not self.columns[spare].goes
            ):
                break
            places.remove(spare)
        return [(index, widths[index]) for index in places]


def _labelled_lines(rows: Sequence[tuple[str, str]], width: int) -> list[Content]:
    """Labels and texts below each other, the texts wrapped."""
    label_width = max([_LEAST_LABEL, *(len(label) for label, _ in rows)]) + len(_GAP)
    lines = [(label, hanging(clean_line(text), width - label_width, "")) for label, text in rows]
    return [line for label, below in lines for line in labelled(label, below, label_width)]
