"""Tables: columns below their headings, in the width there is. Imports little: lists are asked for in loops.

On a terminal a table gives way in this order: columns in which nothing stands go; texts are cut, the longest
first, down to what their column says; columns go, by the order that they say; last, lines are cut. Where
there is no terminal nothing is cut and no column is missing.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from rltui.base.text import truncate
from rltui.cli.colour import strip_style, style, style_like
from rltui.cli.terminal import displayable
from rltui.views.table import Cell, Column, Cut
from rltui.views.table import Row as Resource

_GAP = 2
_LEAST_ROOM = 20
"""A terminal that says it is narrower is not believed."""
_HEAD_SHARE = 3
"""A name that is cut in the middle keeps one part in so many of its beginning."""

Row = Sequence[str] | str
"""Cells; or a line by itself, across all columns."""


class TableColumn(NamedTuple):
    """Alignment of a column's cells, and when they give way."""

    heading: str = ""
    is_right: bool = False
    """True for numbers, which align to the right."""
    least: int | None = None
    """Characters that a text may be cut to; `None`: it is never cut."""
    cut: Cut = "end"
    goes: int = 0
    """Columns go from the highest on; 0: never."""


def room(stream_name: Literal["stdout", "stderr"] = "stdout") -> int | None:
    """Characters of a line of the terminal, fewer if COLUMNS says so; `None` where the stream is none."""
    stream = sys.stdout if stream_name == "stdout" else sys.stderr
    if not stream.isatty():
        return None
    widths = [int(text) for text in (os.environ.get("COLUMNS", ""),) if text.isdecimal()]
    with suppress(OSError, ValueError):
        widths.append(os.get_terminal_size(stream.fileno()).columns)
    return max(_LEAST_ROOM, min(filter(None, widths), default=80))


def print_table(columns: Sequence[TableColumn], rows: Iterable[Row], *, indent: str = "") -> None:
    lines = table_lines(columns, rows, width=room(), indent=indent)
    if lines:
        print("\n".join(lines))


def print_view(columns: Sequence[Column[Resource]], rows: Iterable[Resource], now: float) -> None:
    """A resource, in these columns of its view."""
    print_table(view_shapes(columns), view_cells(columns, rows, now))


def view_lines(
    columns: Sequence[Column[Resource]],
    rows: Iterable[Resource],
    now: float,
    *,
    width: int | None,
    indent: str = "",
) -> list[str]:
    return table_lines(view_shapes(columns), view_cells(columns, rows, now), width=width, indent=indent)


def view_shapes(columns: Sequence[Column[Resource]]) -> list[TableColumn]:
    return [
        TableColumn(column.title.upper(), column.is_right, column.least, column.cut, column.goes)
        for column in columns
    ]


def view_cells(columns: Sequence[Column[Resource]], rows: Iterable[Resource], now: float) -> list[list[str]]:
    return [[paint_cell(column.cell(row, now)) for column in columns] for row in rows]


def paint_cell(cell: Cell) -> str:
    length = len(cell.text) if cell.length is None else cell.length
    return style(cell.text[:length], cell.role) + cell.text[length:]


def plain_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line per row, whatever the width; the first row is the head."""
    head, *body = rows
    return table_lines([TableColumn(title) for title in head], body, width=None)


def table_lines(
    columns: Sequence[TableColumn], rows: Iterable[Row], *, width: int | None, indent: str = ""
) -> list[str]:
    """A line for each row, in `width` characters if given. Headings stand above the first row with cells."""
    plain_rows = [row if isinstance(row, str) else [_one_line(cell) for cell in row] for row in rows]
    cells = [row for row in plain_rows if not isinstance(row, str)]
    head = [displayable(column.heading) for column in columns]
    available = None if width is None else width - len(indent)
    visible, widths = _fit(columns, head, cells, available)
    column_texts = [
        _column(columns[index], [row[index] for row in cells], widths[index]) for index in visible
    ]
    lines, row_number = [], 0
    for row in plain_rows:
        if isinstance(row, str):
            lines.extend(wrap(displayable(row), width))
            continue
        if not row_number and any(head):
            aligned = [
                _align(columns[index], truncate(head[index], widths[index]), widths[index])
                for index in visible
            ]
            lines.append(style(_join(indent, aligned, width), "head"))
        aligned = [
            _align(columns[index], text[row_number], widths[index])
            for index, text in zip(visible, column_texts, strict=True)
        ]
        lines.append(_join(indent, aligned, width))
        row_number += 1
    return lines


def clip(line: str, width: int | None) -> str:
    return line if width is None or width_of(line) <= width else truncate(strip_style(line), width)


def wrap(line: str, width: int | None) -> list[str]:
    """The line in pieces of `width`, the further ones indented as the first."""
    if width is None or width_of(line) <= width:
        return [line]
    import textwrap  # rarely needed

    text = strip_style(line)
    space = text[: len(text) - len(text.lstrip())]
    space = space if len(space) < width // 2 else ""
    pieces = textwrap.wrap(
        text.strip(), width, initial_indent=space, subsequent_indent=space, break_on_hyphens=False
    )
    return [style_like(line.lstrip(), piece) for piece in pieces]


@functools.lru_cache(maxsize=1 << 16)
def width_of(text: str) -> int:
    """Number of cells that the text takes on a terminal."""
    text = strip_style(text)
    return len(text) if text.isascii() else sum(map(_sign_width, text))


@functools.cache
def _sign_width(sign: str) -> int:
    import unicodedata  # names that are not ASCII are few

    return 0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def _one_line(cell: str) -> str:
    return displayable(cell.replace("\n", " ").replace("\t", " ")) if cell else ""


def _fit(
    columns: Sequence[TableColumn], head: Sequence[str], cells: Sequence[Sequence[str]], available: int | None
) -> tuple[list[int], dict[int, int]]:
    """Indices of the columns that are shown, and the width of each."""
    every = range(len(columns))
    widths = {
        index: max([width_of(head[index]), *(width_of(row[index]) for row in cells)]) for index in every
    }
    if available is None:
        return list(every), widths
    visible = [index for index in every if any(row[index] for row in cells)] or [0]
    least = {
        index: widths[index]
        if columns[index].least is None
        else min(widths[index], max(columns[index].least or 0, width_of(head[index])))
        for index in visible
    }

    def over(widths_of: dict[int, int]) -> int:
        return sum(widths_of[index] for index in visible) + _GAP * (len(visible) - 1) - available

    while over(least) > 0 and (droppable := [index for index in visible if columns[index].goes]):
        visible.remove(max(droppable, key=lambda index: columns[index].goes))
    while (too_much := over(widths)) > 0:
        longest = max(visible, key=lambda index: widths[index] - least[index])
        if widths[longest] == least[longest]:
            break
        second_width = max([widths[index] - least[index] for index in visible if index != longest], default=0)
        slack = widths[longest] - least[longest]
        widths[longest] -= min(too_much, max(1, slack - second_width))
    return visible, widths


def _column(column: TableColumn, cells: Sequence[str], width: int) -> list[str]:
    long = [strip_style(cell) for cell in cells if width_of(cell) > width]
    if not long:
        return list(cells)
    common = len(os.path.commonprefix(long)) if len(long) > 1 else 0  # noqa: RUF071 - no paths
    return [
        cell
        if width_of(cell) <= width
        else style_like(cell, _cut(strip_style(cell), width, column.cut, common))
        for cell in cells
    ]


def _cut(text: str, width: int, side: str, common: int) -> str:
    head_width = width // _HEAD_SHARE
    tail_width = width - head_width - 1
    if side == "start":
        text = f"…{text[len(text) - width + 1 :]}"
    elif (
        side == "middle" and head_width < common < len(text) - tail_width
    ):  # what tells it from the others is kept
        text = f"{text[:head_width]}…{truncate(text[common:], tail_width)}"
    elif side == "middle" and head_width:
        text = f"{text[:head_width]}…{text[len(text) - tail_width :]}"
    while width_of(text) > width:
        text = truncate(text, min(width, len(text) - 1))
    return text


def _align(column: TableColumn, cell: str, width: int) -> str:
    space = " " * (width - width_of(cell))
    return f"{space}{cell}" if column.is_right else f"{cell}{space}"


def _join(indent: str, cells: Sequence[str], width: int | None) -> str:
    return clip(f"{indent}{(' ' * _GAP).join(cells)}".rstrip(), width)
