"""The list of all runs as a person has it: which of them, in which order, under which heading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rltui.base.text import truncate
from rltui.core.config.data import short_names
from rltui.core.experiment.states import RUN_STATES
from rltui.core.runs.row import RunRow
from rltui.core.runs.tree import TreeLine, run_tree
from rltui.errors import RltuiError
from rltui.services.runs.query import RunQuery
from rltui.views.run import DEFAULT_COLUMNS, RunColumn, change_value_text, columns_of
from rltui.views.run_filter import RunFilter, run_query
from rltui.views.table import Cell

if TYPE_CHECKING:
    from rltui.core.runs.queue import QueueEntry, RunQueue  # 12 ms, which a list need not pay

Line: TypeAlias = "TreeLine | QueueEntry"
"""A run, the heading of a sweep, or what waits in the queue."""
USUAL = "usual"
"""The order that is none of a column."""
_LEAST_KEY = 3
"""Characters that the name of a key is cut to: fewer do not tell which key it is."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A person's choice of columns and sort order, saved between sessions."""

    columns: tuple[str, ...] = DEFAULT_COLUMNS
    """Ids of the columns, in their order."""
    sort: str = ""
    """Id of a column; empty: the usual order."""
    is_reversed: bool = False
    is_grouped: bool = False
    """Forks below their parents, sweeps together."""

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> RunView:
        """Restore a saved view (`asdict`); the default where it is missing or invalid."""
        try:
            columns = tuple(column.id for column in columns_of(map(str, saved["columns"])))
            sort = "".join(column.id for column in columns_of([str(saved["sort"])] if saved["sort"] else ()))
            is_reversed, is_grouped = saved["is_reversed"] is True, saved["is_grouped"] is True
        except (KeyError, TypeError, RltuiError):
            return cls()
        return cls(columns or DEFAULT_COLUMNS, sort, is_reversed, is_grouped)


def line_key(line: Line) -> str:
    """The cursor stays on the line with this key."""
    return line.key if isinstance(line, TreeLine) else f"queue:{line.id}"


def waiting_entries(queue: RunQueue) -> list[QueueEntry]:
    """Entries that the queue has not started yet, the next first."""
    entries = [entry for entry in queue.entries if entry.state in ("queued", "starting")]
    return sorted(entries, key=lambda entry: -entry.priority)


def changes_among(rows: Sequence[RunRow], by_id: Mapping[str, RunRow]) -> dict[str, str]:
    """The config keys in which these runs differ, such as `lr=1e-5 seed=2`, by the id of a run.

    All runs have one base: a fork has the changes of its ancestors too (`by_id`: of all runs).
    Keys that are equal in all rows are left out. In a sweep each run has the keys in which its runs differ,
    also where it keeps the value of the base.
    """
    base: dict[str, str] = {}
    values = {row.id: _changes_from_base(row, by_id, base) for row in rows}
    in_all = {key: {changes.get(key, base[key]) for changes in values.values()} for key in base}
    names = short_names(tuple(key for key, texts in in_all.items() if len(texts) > 1))
    by_group: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.group:
            by_group.setdefault(row.group, {}).update(dict.fromkeys(values[row.id]))
    texts: dict[str, str] = {}
    for row in rows:
        changes = values[row.id]
        keys = {**row.changed, **changes, **by_group.get(row.group, {})}
        shown = [(names[key], changes.get(key, base[key])) for key in keys if key in names]
        texts[row.id] = " ".join(f"{name}={text}" for name, text in shown if text)
    return texts


def shorten_changes(text: str, cells: int) -> str:
    """Cut the names of keys, the longest first, so that the values can be read: `lr=1e-5 ba…=128`."""
    words = [word.partition("=") for word in text.split(" ")]
    while sum(len("".join(word)) + 1 for word in words) - 1 > cells:
        longest = max(range(len(words)), key=lambda index: len(words[index][0]) if words[index][1] else 0)
        name, sign, value = words[longest]
        if not sign or len(name) <= _LEAST_KEY:
            break
        words[longest] = (truncate(name, len(name) - 1), sign, value)
    return " ".join(map("".join, words))


def _changes_from_base(row: RunRow, by_id: Mapping[str, RunRow], base: dict[str, str]) -> Mapping[str, str]:
    """The changes of a run and its ancestors; values that the oldest of them changed go into `base`."""
    lineage = [row]
    while (parent := by_id.get(lineage[-1].parent)) is not None and parent not in lineage:
        lineage.append(parent)
    changes: dict[str, str] = {}
    for ancestor in reversed(lineage):
        for key, (old, new) in ancestor.changed.items():
            if key not in changes:
                base.setdefault(key, "" if old is None else change_value_text(key, old))
            changes[key] = change_value_text(key, new)
    return changes


@dataclass(frozen=True, slots=True)
class RunListing:
    """The lines of the list, with the data that columns need."""

    lines: Sequence[Line] = ()
    columns: Sequence[RunColumn] = ()
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Configs by run id, where a column needs them."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of all runs, by id."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """The text of the column `changed` (`changes_among`), by run id."""
    view: RunView = RunView()
    marked: frozenset[str] = frozenset()
    folded: frozenset[str] = frozenset()

    def text(self, column: RunColumn, row: RunRow, now: float) -> str:
        """A cell, neither cut nor sanitized."""
        if column.id == "changed":
            return self.changes.get(row.id, "")
        return column.text(row, self.configs.get(row.id, {}), now=now, names=self.names)

    def above(self, line: TreeLine) -> TreeLine | None:
        """The parent of a line, or the heading of its sweep."""
        lines = [line for line in self.lines if isinstance(line, TreeLine)]
        depth = len(line.branch)
        earlier_lines = lines[: lines.index(line)][::-1]
        return next((line for line in earlier_lines if len(line.branch) < depth), None)


@dataclass(frozen=True, slots=True)
class RunSelection:
    """Columns, order and filters of the list: the saved view, and changes for the moment."""

    view: RunView = RunView()
    with_archived: bool = False
    filter: RunFilter | None = None
    folded: frozenset[str] = frozenset()
    with_host: bool = False
    """The runs are of several machines."""

    @property
    def columns(self) -> tuple[RunColumn, ...]:
        name, *other_columns = self.view.columns
        return columns_of((name, *(("host",) if self.with_host else ()), *other_columns))

    @property
    def needs_configs(self) -> bool:
        return self.query.needs_config or any(column.of_config for column in self.columns)

    def sorted_by_adjacent(self, columns: int) -> RunView:
        """Moves by so many among the visible columns and the default order."""
        names = [USUAL, *(column.id for column in self.columns)]
        sort = self.view.sort or USUAL
        return self.sorted_by(names[([*names, sort].index(sort) + columns) % len(names)])

    def sorted_by(self, name: str) -> RunView:
        """`USUAL` stands for the default order."""
        return replace(self.view, sort="" if name == USUAL else name, is_reversed=False)

    @property
    def query(self) -> RunQuery:
        """The query of the list: living runs first, and never those in the trash."""
        sort = columns_of([self.view.sort])[0] if self.view.sort else None
        return run_query(
            self.filter,
            with_archived=self.with_archived,
            with_trashed=False,
            sort=sort,
            is_reversed=self.view.is_reversed,
            living_first=True,
        )

    def lines(self, rows: Sequence[RunRow], queue: Sequence[QueueEntry] = ()) -> list[Line]:
        """Living runs, or trees with such; what waits in the queue; the others. `rows`: what `query` selects,
        in its order.
        """
        if self.view.is_grouped:
            lines = run_tree(rows, self.folded)
            living = _living_lines(lines)
        else:
            lines = [TreeLine(row.id, row, (), is_parent=False) for row in rows]
            living = sum(row.is_alive for row in rows)
        listed_entries = {row.entry for row in rows}
        waiting = [entry for entry in queue if entry.id not in listed_entries] if self.filter is None else []
        return [*lines[:living], *waiting, *lines[living:]]


def _living_lines(tree: Sequence[TreeLine]) -> int:
    """The number of lines up to the end of the last tree in which something runs."""
    end, is_living = 0, False
    for count, line in enumerate(tree, start=1):
        rows = line.members if line.row is None else (line.row, *line.members)
        is_living = any(row.is_alive for row in rows) or (is_living and bool(line.branch))
        if is_living:
            end = count
    return end


def title_facts(
    rows: Sequence[RunRow],
    selection: RunSelection,
    lines: Sequence[Line],
    queue: RunQueue,
    *,
    archive_key: str,
) -> list[Cell]:
    """Facts behind the title: how many run, wait and are listed, and in which order.

    `lines`: the visible ones. `archive_key`: lists the archived ones.
    """
    view = selection.view
    present = [row for row in rows if row.trashed_at is None]
    archived = sum(row.archived_at is not None for row in present)
    count = len(present) - archived
    running = sum(row.is_alive and not RUN_STATES[row.state].has_ended for row in rows)
    facts = [Cell(f"{running} running", "good")] if running else []
    if waiting := len(waiting_entries(queue)):
        facts.append(Cell(f"{waiting} queued{', paused' if queue.paused else ''}", "busy"))
    if selection.filter is not None:
        match_count = sum(isinstance(line, TreeLine) and line.row is not None for line in lines)
        facts.append(Cell(f"{match_count:,} of {count:,}: {selection.filter.text}", "head"))
    else:
        facts.append(Cell(f"{count:,} in total", "faint"))
    more = "" if selection.with_archived else f" ({archive_key})"
    facts += [Cell(f"{archived:,} archived{more}", "faint")] if archived else []
    order = f"by {view.sort}" if view.sort else ""
    order = f"{order} reversed".strip() if view.is_reversed else order
    return facts + ([Cell(order, "faint")] if order else [])
