"""The table of runs. Of thousands only the lines in view are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from rltui.core.experiment.states import RUN_STATES
from rltui.core.runs.queue import QueueEntry
from rltui.core.runs.row import RunRow
from rltui.core.runs.tree import TreeLine
from rltui.ui.paragraphs import truncate_cells
from rltui.ui.styles import CURSOR_SIGN, FAINT, STYLES
from rltui.ui.text import clean_line, progress_bar
from rltui.views.run import FIRST_TO_GO, RunColumn, sweep_texts
from rltui.views.run_list import RunListing, line_key, shorten_changes

_GAP = "  "
_GUTTER = 2
"""Cells for the cursor and the mark of a run."""
_MARK, _BEST = "◆", "★"
_NAME_LEAST = 18
_TEXT_LEAST = 8
"""Cells of a text column that is worth showing."""
_BAR = 8
_USUAL_WIDTHS = {
    "number": 8, "steps": 6, "time": 16, "age": 6, "seconds": 6, "bytes": 8, "flag": 4,
}  # fmt: skip
"""Columns of a kind share a width, so that they stay put while values change."""
_OWN_WIDTHS = {"trend": 12}
_LEVEL_WIDTH = 12
"""`0.967±0.0148`, of a mean and its deviation; a narrow table has the mean alone …"""
_MEAN_WIDTH = 6
"""… in so many cells at least, so that no changed key is cut."""
_STYLES = {
    "trend": "$text-success",
    "age": FAINT,
    "duration": FAINT,
    "tags": "$text-accent",
}
_CUT_LAST = {"changed": _TEXT_LEAST, "name": _NAME_LEAST}
"""Texts that are cut once those have left, to so many cells."""


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
            room, gap = width - _GUTTER, len(_GAP)
            fitting = _fitting(listing.columns, widths, room, gap)
            if fitting.get("changed", 0) < widths.get("changed", 0):
                gap = 1  # rather that than a changed key that is cut
                fitting = _fitting(listing.columns, widths, room, gap)
            bar = _BAR + 1 if "step" in fitting and _spare(fitting, room, gap) > _BAR else 0
            cells = {id_: cells + bar if id_ == "step" else cells for id_, cells in fitting.items()}
            columns = [(column, cells[column.id]) for column in listing.columns if column.id in cells]
            self._layout = RunLayout(listing, columns, width, bar, gap)
        return self._layout


@dataclass(frozen=True, eq=False)
class RunLayout:
    listing: RunListing
    columns: Sequence[tuple[RunColumn, int]]
    """Each with its cells."""
    width: int
    bar: int
    """Cells of a bar and the gap before it; 0: there is no room."""
    gap: int = len(_GAP)
    """Cells between two columns."""

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
            bar = self.bar if column.id == "step" else 0
            if cells < len(heading):
                heading = heading.partition("(")[0]
            text = _cell(f"{heading}{arrow}", cells - bar, is_right=column.is_right and column.id != "trend")
            text += " " * bar
            fragments += [
                (" " * self.gap if index else "", ""),
                (text, f"bold {FAINT}" if is_sorted else FAINT),
            ]
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
        cursor = CURSOR_SIGN if key == self.selected else " "
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
        fragments: list[tuple[str, str]] = []
        for index, (column, cells) in enumerate(self.layout.columns):
            fragments.append((" " * self.layout.gap if index else "", ""))
            if column.id == "name":
                fragments += self._name_parts(line, row, cells)
                continue
            text = clean_line(listing.text(column, row, self.now))
            text = shorten_changes(text, cells) if column.id == "changed" else text
            text = text.partition("±")[0] if column.level_of and cells < _LEVEL_WIDTH else text
            style = _STYLES.get(column.id, "")
            if column.id == "state":
                style = STYLES[RUN_STATES[row.state].role]
                text = text if cell_len(text) <= cells else row.state
            elif column.id == "trend" and not row.is_alive:
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
            (text, "bold" if row.is_alive else ""),
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
        """The reason stands between the name and what is changed, which keeps its column."""
        widths = {column.id: cells for column, cells in self.layout.columns}
        name = _cell(clean_line(entry.name), widths.get("name", _NAME_LEAST) - 2)
        badge = RUN_STATES[entry.state]
        reason = " · ".join(filter(None, (badge.word, clean_line(entry.why))))
        changed = clean_line(entry.told)
        if changed and "changed" in widths:
            ids = list(widths)
            between = ids[1 : ids.index("changed")]
            gap = self.layout.gap
            reason = _cell(reason, sum(widths[id_] + gap for id_ in between) - gap)
            changed = shorten_changes(changed, widths["changed"])
        return [
            (f"{badge.sign} ", STYLES[badge.role]),
            (name, ""),
            (" " * self.layout.gap, ""),
            (reason, STYLES[badge.role]),
            (f"{' ' * self.layout.gap}{changed}", FAINT),
        ]


def _step_parts(row: RunRow, text: str, cells: int) -> list[tuple[str, str]]:
    """The figures, and behind them a bar of a run that goes on."""
    text_part = (_cell(text, cells - _BAR - 1, is_right=True), "")
    if not (row.is_alive and not RUN_STATES[row.state].has_ended and row.step is not None and row.max_steps):
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
        columns = [column for column in listing.columns if _is_flexible(column) and column.id != "changed"]
        ids = tuple(column.id for column in columns)
        if ids != self._columns:
            self._columns, self._width_cache = ids, {}
        widths = [0] * len(columns)
        for row in rows:
            entry = self._width_cache.get(row.id)
            if entry is None or entry[0] is not row:
                texts = (listing.text(column, row, 0.0) for column in columns)
                entry = self._width_cache[row.id] = (row, [cell_len(text) for text in texts])
            widths = list(map(max, widths, entry[1]))
        heads = [len(column.heading) for column in columns]
        run_widths = {
            id_: max(entry, head) if entry else 0 for id_, entry, head in zip(ids, widths, heads, strict=True)
        }
        changed_width = max(map(cell_len, listing.changes.values()), default=0)
        run_widths["changed"] = max(changed_width, len("changed")) if changed_width else 0
        signs = 4 if any(row.is_best for row in rows) else 2
        run_widths["name"] = max(_NAME_LEAST, run_widths.get("name", 0) + signs)
        for column in listing.columns:
            if column.id not in run_widths:
                if rows and all(column.value(row, listing.configs.get(row.id, {})) is None for row in rows):
                    run_widths[column.id] = 0
                    continue
                fixed = _LEVEL_WIDTH if column.level_of else _OWN_WIDTHS.get(column.id)
                if column.id == "step":  # as wide as at its end
                    last_steps = {max(row.step or 0, row.max_steps or 0) for row in rows}
                    fixed = max((2 * len(str(step)) + 1 for step in last_steps), default=0)
                default_width = fixed or _USUAL_WIDTHS[column.kind]
                run_widths[column.id] = max(
                    default_width, len(column.heading) + (column.id == listing.view.sort)
                )
        return run_widths


def _fitting(
    columns: Sequence[RunColumn], ideal_widths: Mapping[str, int], width: int, gap: int
) -> dict[str, int]:
    """Cells by the id of a column, in their order.

    Names and changed keys are whole as long as a column of `FIRST_TO_GO` can leave; other texts give way
    before that. Then the last columns leave; the name stays.
    """
    ideals, widths = {}, {}
    for column in columns:
        if cells := ideal_widths[column.id]:
            is_text = _is_flexible(column)
            ideals[column.id] = min(cells, column.widest + 4) if is_text else cells
            is_cut = is_text and column.id not in _CUT_LAST
            least = max(_TEXT_LEAST, len(column.heading)) if is_cut else cells
            widths[column.id] = min(ideals[column.id], least)
    levels = {
        column.id: max(_MEAN_WIDTH, len(column.heading.partition("(")[0]))
        for column in columns
        if column.level_of
    }
    others = [id_ for id_ in reversed(widths) if id_ not in (*FIRST_TO_GO, *_CUT_LAST, "state")]
    for id_, least in (
        *((id_, 0) for id_ in FIRST_TO_GO),
        *levels.items(),
        *_CUT_LAST.items(),
        *((id_, 0) for id_ in (*others, "changed", "state")),
        ("name", 1),
    ):
        if (lacking := -_spare(widths, width, gap)) <= 0:
            break
        if id_ in widths:
            widths[id_] = min(widths[id_], max(least, widths[id_] - lacking)) if least else 0
            widths = {name: cells for name, cells in widths.items() if cells}
    for id_, cells in widths.items():
        widths[id_] += max(0, min(_spare(widths, width, gap), ideals[id_] - cells))
    return widths


def _spare(widths: Mapping[str, int], width: int, gap: int) -> int:
    return width - sum(widths.values()) - gap * (len(widths) - 1)
