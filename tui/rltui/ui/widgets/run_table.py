"""The table of runs. Of thousands only the lines in view are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from rltui.core.queue import QueueEntry
from rltui.core.run_tree import TreeLine
from rltui.core.runs import RunRow
from rltui.core.states import RUN_STATES
from rltui.ui.paragraphs import truncate_cells
from rltui.ui.styles import FAINT, STYLES
from rltui.ui.text import clean_line, progress_bar
from rltui.views.run import RunColumn, sweep_texts
from rltui.views.run_list import RunListing, line_key

_GAP = "  "
_GUTTER = 2
"""Cells for the cursor and the mark of a run."""
_CURSOR, _MARK, _BEST, _WAITS = "▸", "◆", "★", "◌"
_NAME_LEAST = 18
_TEXT_LEAST = 8
"""Cells of a text column that is worth showing."""
_BAR = 8
_BAR_FROM = 110
"""Cells of a table that has room for bars."""
_USUAL_WIDTHS = {
    "number": 8, "steps": 6, "time": 16, "age": 6, "seconds": 6, "bytes": 8, "flag": 4,
}  # fmt: skip
"""Columns of a kind share a width, so that they stay put while values change."""
_OWN_WIDTHS = {"step": 9, "trend": 12, "state": 7}
_LEVEL_WIDTH = 12
"""`0.967±0.0148`, of a mean and its deviation."""
_STYLES = {
    "trend": "$text-success",
    "age": FAINT,
    "duration": FAINT,
    "tags": "$text-accent",
    "changed": FAINT,
}
_LAST_TO_FIT = ("state",)
"""The sign before the name says it as well."""


class RunTable:
    """Lays out a line for each run, with the columns that there is room for."""

    def __init__(self) -> None:
        self._longest = _Longest()
        self._layout = RunLayout(RunListing(), (), 0, 0)

    def layout(self, listing: RunListing, width: int) -> RunLayout:
        """The same as before, where listing and width are."""
        if listing is not self._layout.listing or width != self._layout.width:
            tree = [line for line in listing.lines if isinstance(line, TreeLine)]
            widths = self._longest.of([line.row for line in tree if line.row is not None], listing)
            widths["name"] += max((len(line.branch) for line in tree), default=0)
            bar = _BAR + 1 if width >= _BAR_FROM else 0
            columns = _fitting(listing.columns, widths, width - _GUTTER, bar)
            self._layout = RunLayout(listing, columns, width, bar)
        return self._layout


@dataclass(frozen=True, eq=False)
class RunLayout:
    listing: RunListing
    columns: Sequence[tuple[RunColumn, int]]
    """Each with its cells."""
    width: int
    bar: int
    """Cells of a bar and the gap before it; 0: there is no room."""

    @cached_property
    def keys(self) -> Sequence[str]:
        return [line_key(line) for line in self.listing.lines]

    @property
    def head(self) -> Content:
        """The names of the columns."""
        view = self.listing.view
        fragments: list[tuple[str, str]] = [(" " * _GUTTER, "")]
        for index, (column, cells) in enumerate(self.columns):
            is_sorted = column.id == view.sort
            arrow = ("↑" if view.is_reversed else "↓") if is_sorted else ""
            heading = f"  {column.heading}" if column.id == "name" else column.heading
            text = _cell(f"{heading}{arrow}", cells, is_right=column.is_right and column.id != "trend")
            fragments += [(_GAP if index else "", ""), (text, f"bold {FAINT}" if is_sorted else FAINT)]
        return Content.assemble(*fragments).truncate(self.width)


@dataclass(frozen=True)
class RunRows:
    """Rows of a `RowList`, keyed as the lines of the listing."""

    layout: RunLayout
    selected: str | None
    now: float

    @property
    def keys(self) -> Sequence[str]:
        return self.layout.keys

    @property
    def heights(self) -> Sequence[int]:
        return [1] * len(self.keys)

    def lines(self, index: int) -> tuple[Content]:
        line, key = self.layout.listing.lines[index], self.keys[index]
        cursor = _CURSOR if key == self.selected else " "
        mark = _MARK if key in self.layout.listing.marked else " "
        if not isinstance(line, TreeLine):
            fragments = self._waiting_spans(line)
        else:
            fragments = self._heading(line) if line.row is None else self._run(line, line.row)
        content = Content.assemble((f"{cursor}{mark}", "bold $text-accent"), *fragments)
        return (content.truncate(self.layout.width, ellipsis=True),)

    def _run(self, line: TreeLine, row: RunRow) -> list[tuple[str, str]]:
        listing = self.layout.listing
        is_past = row.archived_at is not None
        config = listing.configs.get(row.id, {})
        fragments: list[tuple[str, str]] = []
        for index, (column, cells) in enumerate(self.layout.columns):
            fragments.append((_GAP if index else "", ""))
            if column.id == "name":
                fragments += self._name_parts(line, row, cells)
                continue
            text = clean_line(column.text(row, config, now=self.now, names=listing.names))
            style = _STYLES.get(column.id, "")
            if column.id == "state":
                style = STYLES[RUN_STATES[row.state].role]
            elif column.id == "trend" and not row.is_running:
                style = FAINT
            elif column.id == "step" and self.layout.bar:
                fragments += _step_parts(row, text, cells)
                continue
            fragments.append((_cell(text, cells, is_right=column.is_right and column.id != "trend"), style))
        return [(text, FAINT) for text, _ in fragments] if is_past else fragments

    def _name_parts(self, line: TreeLine, row: RunRow, cells: int) -> list[tuple[str, str]]:
        badge = RUN_STATES[row.state]
        signs = f"{_BEST} " if row.is_best else ""
        hidden = f" +{len(line.members)}" if line.members else ""
        room = cells - len(line.branch) - 2 - len(signs) - len(hidden)
        name = clean_line(row.name)
        text = truncate_cells(name, max(1, room))
        used = len(line.branch) + 2 + len(signs) + cell_len(text) + len(hidden)
        return [
            (line.branch, FAINT),
            (f"{badge.sign} ", STYLES[badge.role]),
            (signs, "$text-warning"),
            (text, "bold" if row.is_running else ""),
            (hidden, FAINT),
            (" " * max(0, cells - used), ""),
        ]

    def _heading(self, line: TreeLine) -> list[tuple[str, str]]:
        sign = "▸" if line.key in self.layout.listing.folded else "▾"
        name = f"{sign} {clean_line(line.group)}"
        return [
            (line.branch, FAINT),
            (name, "bold $text-accent"),
            (f"{_GAP}{' · '.join(map(clean_line, sweep_texts(line.members)))}", FAINT),
        ]

    def _waiting_spans(self, entry: QueueEntry) -> list[tuple[str, str]]:
        cells = next((cells for column, cells in self.layout.columns if column.id == "name"), _NAME_LEAST)
        name = _cell(clean_line(entry.name), cells - 2)
        reason = clean_line(entry.why) or ("starts" if entry.state == "starting" else "waits")
        summary = f"{clean_line(entry.told)}{_GAP}" if entry.told else ""
        return [
            (f"{_WAITS} ", "$text-warning"),
            (name, ""),
            (_GAP, ""),
            (reason, "$text-warning"),
            (f"{_GAP}{summary}", FAINT),
        ]


def _step_parts(row: RunRow, text: str, cells: int) -> list[tuple[str, str]]:
    """The figures, and behind them a bar of a run that goes on."""
    text_part = (_cell(text, cells - _BAR - 1, is_right=True), "")
    if not (row.is_running and row.step is not None and row.max_steps):
        return [text_part, (" " * (_BAR + 1), "")]
    full, empty = progress_bar(row.step / row.max_steps, _BAR)
    return [text_part, (" ", ""), (full, "$primary"), (empty, FAINT)]


def _cell(text: str, cells: int, *, is_right: bool = False) -> str:
    text = truncate_cells(text, cells)
    return " " * (cells - cell_len(text)) + text if is_right else set_cell_size(text, cells)


def _is_flexible(column: RunColumn) -> bool:
    return column.id not in _OWN_WIDTHS and column.kind not in _USUAL_WIDTHS


class _Longest:
    """Widths of the longest texts by column. A run that has not changed is not measured again."""

    def __init__(self) -> None:
        self._width_cache: dict[str, tuple[RunRow, list[int]]] = {}
        self._columns: tuple[str, ...] = ()

    def of(self, rows: Sequence[RunRow], listing: RunListing) -> dict[str, int]:
        """Cells by the id of a column; columns that no run has a text for are missing."""
        columns = [column for column in listing.columns if _is_flexible(column)]
        ids = tuple(column.id for column in columns)
        if ids != self._columns:
            self._columns, self._width_cache = ids, {}
        widths = [0] * len(columns)
        for row in rows:
            entry = self._width_cache.get(row.id)
            if entry is None or entry[0] is not row:
                config = listing.configs.get(row.id, {})
                texts = (column.text(row, config, now=0.0, names=listing.names) for column in columns)
                entry = self._width_cache[row.id] = (row, [cell_len(text) for text in texts])
            widths = list(map(max, widths, entry[1]))
        heads = [len(column.heading) for column in columns]
        run_widths = {
            id_: max(entry, head) if entry else 0 for id_, entry, head in zip(ids, widths, heads, strict=True)
        }
        run_widths["name"] = max(_NAME_LEAST, run_widths.get("name", 0) + 4)
        for column in listing.columns:
            if column.id not in run_widths:
                fixed = _LEVEL_WIDTH if column.level_of else _OWN_WIDTHS.get(column.id)
                default_width = fixed or _USUAL_WIDTHS[column.kind]
                run_widths[column.id] = max(
                    default_width, len(column.heading) + (column.id == listing.view.sort)
                )
        return run_widths


def _fitting(
    columns: Sequence[RunColumn], ideal_widths: Mapping[str, int], width: int, bar: int
) -> list[tuple[RunColumn, int]]:
    """Columns with widths, in their order. The first ones have priority; texts give way."""
    least: dict[str, int] = {}
    for column in sorted(columns, key=lambda column: column.id in _LAST_TO_FIT):
        if not (cells := ideal_widths[column.id]):
            continue
        if _is_flexible(column):
            cells = min(cells, _NAME_LEAST if column.id == "name" else max(_TEXT_LEAST, len(column.heading)))
        elif column.id == "step":
            cells += bar
        if sum(least.values()) + len(_GAP) * len(least) + cells <= width or not least:
            least[column.id] = cells
    fitting_columns = [column for column in columns if column.id in least]
    spare = width - sum(least.values()) - len(_GAP) * (len(least) - 1)
    for column in sorted(fitting_columns, key=lambda column: column.id != "name"):
        if _is_flexible(column):
            more = max(0, min(spare, min(ideal_widths[column.id], column.widest + 4) - least[column.id]))
            least[column.id] += more
            spare -= more
    return [(column, least[column.id]) for column in fitting_columns]
