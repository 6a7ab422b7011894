"""`runs list`: all runs there are."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rltui.base.shorten import rounded
from rltui.base.text import did_you_mean, truncate, visible
from rltui.cli.arguments import FIELDS, FULL, JSON, limit_option
from rltui.cli.choosing import ready_index
from rltui.cli.colour import style_line
from rltui.cli.command import Arguments, argument, command, exclusive, flag
from rltui.cli.output import print_csv, print_json, print_rows
from rltui.cli.table import TableColumn, paint_cell, print_table, room
from rltui.core import hints
from rltui.core.command_list import VERBS
from rltui.core.runs.row import RunRow
from rltui.core.runs.tree import run_tree
from rltui.services import screen_state
from rltui.services.runs.index import RunIndex
from rltui.services.runs.query import RunQuery
from rltui.views.experiment import state_cell
from rltui.views.run import FIRST_TO_GO, RunColumn, check_names, column_of, columns_of, known_columns
from rltui.views.run_filter import RunFilter, parse_filter, run_query
from rltui.views.run_list import RunView, changes_among

_LEAST_TEXT = 10
"""Characters that a text is cut to before a column leaves."""
_LEASTS: Mapping[str, int | None] = {"name": 40, "state": None, "changed": 24}
"""The same of columns that stay."""
_MOST_ROWS = 500
"""Runs of which a short document may have some."""
_MEASURED = ("metrics", "levels", "sparkline")
"""Fields whose numbers have six digits in a document that is not --full; else most of it is digits."""
_LATEST = 1000
"""A rank that no column has."""
_ELASTIC = frozenset({"text", "words", "config"})
FILTER = argument(
    "filter",
    "FILTER",
    "part of a name, tag:baseline, 'reward > 0.8 and lr < 1e-5'",
    nargs="*",
)


@dataclass(frozen=True, slots=True)
class _ListedRuns:
    rows: Sequence[RunRow]
    columns: Sequence[RunColumn]
    configs: Mapping[str, Mapping[str, Any]]
    """Configs of all runs, where the filter or a column needs them."""
    names: Mapping[str, str]
    """Run id → name, of every run."""
    changes: Mapping[str, str]
    now: float
    beyond: int
    """Number of runs that `--limit` leaves out."""


@command(
    "runs list",
    FILTER,
    argument(
        "--sort",
        "COLUMN",
        "sort by this column: numbers descending, text ascending",
        completes="run_columns",
    ),
    flag("--reverse", "reverse the order"),
    argument(
        "--columns",
        "COLUMN,…",
        "fields, metrics or config keys to show; +NAME adds one",
        completes="run_columns",
    ),
    flag("--all", "include archived runs"),
    flag("--group", "group forks and sweeps below their parents"),
    flag("--rebuild", "rebuild the index from all folders"),
    exclusive(
        flag("--csv", "CSV, all values in full"),
        JSON,
    ),
    limit_option("only the first runs"),
    FULL,
    FIELDS,
    examples=(
        "runs",
        "runs 'reward > 0.1' --sort reward --columns +lr",
        "runs tag:good --csv",
    ),
)
def list_runs(arguments: Arguments) -> int:
    gc.disable()  # thousands of rows are made and none is let go; looking through them took half of the time
    try:
        return _list(arguments)
    finally:
        gc.enable()


def _list(arguments: Arguments) -> int:
    index, view, now = ready_index(rebuild=arguments.rebuild), _view(arguments), time.time()
    columns = columns_of(view.columns)
    sort = column_of(view.sort) if view.sort else None
    run_filter, configs = typed_filter(index, arguments, now, [*columns, *([sort] if sort else [])])
    query = filter_query(run_filter, arguments, sort=sort, is_reversed=view.is_reversed)
    rows = index.select(query, arguments.limit)
    beyond = 0 if arguments.limit is None else index.count(query) - len(rows)
    has_changes = any(column.id == "changed" for column in columns)
    changes = changes_among(rows, _with_ancestors(index, rows)) if has_changes else {}
    listing = _ListedRuns(rows, columns, configs, index.names(), changes, now, beyond)
    if arguments.json:
        _print_json(listing, arguments)
    elif arguments.csv:
        _print_csv(listing, is_chosen=arguments.columns is not None)
    else:
        if rows:
            _print_table(listing, is_grouped=view.is_grouped)
        else:
            print(_empty_text(index, run_filter))
        with_archived = filter_query(run_filter, arguments, with_archived=True)
        if hidden_count := index.count(with_archived) - len(rows) - beyond:
            print(f"{hidden_count} archived, not listed: {hints.RUNS_ALL}")
    return 0


def typed_filter(
    index: RunIndex, arguments: Arguments, now: float, columns: Sequence[RunColumn] = ()
) -> tuple[RunFilter, Mapping[str, Mapping[str, Any]]]:
    """FILTER, and the configs of all runs, where it or one of `columns` needs them.

    Raises:
        UsageError: for a filter that is not understood, or a column that no run has.
    """
    run_filter = parse_filter(" ".join(arguments.filter), now=now)
    columns = [*run_filter.columns, *columns]
    configs = index.all_configs() if any(column.of_config for column in columns) else {}
    if configs:
        check_names(columns, configs)
    return run_filter, configs


def filter_query(
    run_filter: RunFilter,
    arguments: Arguments,
    *,
    with_archived: bool = False,
    sort: RunColumn | None = None,
    is_reversed: bool = False,
) -> RunQuery:
    """The runs that a filter selects. Archived and trashed ones are left out if neither the filter nor
    `--all` asks about that.
    """
    column_ids = {column.id for column in run_filter.columns}
    return run_query(
        run_filter,
        with_archived=with_archived or arguments.all or "archived" in column_ids,
        with_trashed="trashed" in column_ids,
        sort=sort,
        is_reversed=is_reversed,
    )


def _with_ancestors(index: RunIndex, rows: Sequence[RunRow]) -> dict[str, RunRow]:
    """The rows and those that they were forked from, by id."""
    by_id: dict[str, RunRow] = {}
    while rows:
        by_id |= {row.id: row for row in rows}
        rows = index.having({row.parent for row in rows if row.parent} - by_id.keys())
    return by_id


def _view(arguments: Arguments) -> RunView:
    """The view that the arguments describe; the rest as the screen saved it, where a person looks."""
    saved_view = RunView() if arguments.json or arguments.csv else RunView.of(screen_state.load_state("runs"))
    names = saved_view.columns
    if arguments.columns is not None:
        column_names = [
            column_name.strip() for column_name in arguments.columns.split(",") if column_name.strip()
        ]
        extra_names = [column_name[1:] for column_name in column_names if column_name.startswith("+")]
        names = (
            *(saved_view.columns if len(extra_names) == len(column_names) else ()),
            *(column_name.lstrip("+") for column_name in column_names),
        )
    sort = saved_view.sort if arguments.sort is None else arguments.sort
    is_reversed = (
        arguments.reverse
        if arguments.sort is not None or not saved_view.sort
        else (saved_view.is_reversed != arguments.reverse)
    )
    return RunView(names, sort, is_reversed, arguments.group or saved_view.is_grouped)


# --- shapes -------------------------------------------------------------------------------------------------


def _print_json(listing: _ListedRuns, arguments: Arguments) -> None:
    if arguments.full and arguments.columns is None and not arguments.fields:
        print_json({"runs": listing.rows}, is_compact=True)
        return
    is_short = not arguments.full and arguments.limit is None
    documents = []
    for row in listing.rows[:_MOST_ROWS] if is_short else listing.rows:
        document = asdict(row)
        if not arguments.full:
            document |= {name: rounded(document[name]) for name in _MEASURED}
        if arguments.columns is not None:
            config = listing.configs.get(row.id, {})
            document["columns"] = {column.id: column.value(row, config) for column in listing.columns}
        documents.append(document)
    left_out = {"runs": listing.beyond + len(listing.rows) - len(documents)}
    print_rows(arguments, "runs", documents, left_out=left_out)


def _print_csv(listing: _ListedRuns, *, is_chosen: bool) -> None:
    """Times as numbers of seconds, nothing rounded."""
    columns = listing.columns
    if not is_chosen:
        every = [column for column in known_columns() if column.id not in ("trend", "changed", "age")]
        columns_with_values = [
            column for column in every if any(column.value(row, {}) is not None for row in listing.rows)
        ]
        columns = columns_with_values or every
    configs = listing.configs
    rows = ([_cell(column.value(row, configs.get(row.id, {}))) for column in columns] for row in listing.rows)
    print_csv([column.id for column in columns], rows)


def _cell(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else value


def _print_table(listing: _ListedRuns, *, is_grouped: bool) -> None:
    columns = [_shape(column, index) for index, column in enumerate(listing.columns)]
    print_table(columns, _cells(listing, is_grouped=is_grouped))
    for row in listing.rows:
        if row.is_unreadable:
            print(style_line(f"⚠ {row.name}: {row.reason.text}"))
    if listing.beyond:
        print(f"{listing.beyond} more than --limit {len(listing.rows)}")


def _empty_text(index: RunIndex, run_filter: RunFilter) -> str:
    if not index.count(run_query(with_trashed=False)):
        return f"no runs yet; start one: {hints.UP}, or {hints.DEMO}; or add some: {hints.ADD}"
    if not run_filter.text:
        return "no runs to list"
    guess = did_you_mean(run_filter.text.split()[0], VERBS["runs"])
    count = index.count(run_query())
    return f"no run of {count} matches {run_filter.text}{f' ({guess})' if guess else ''}"


def _cells(listing: _ListedRuns, *, is_grouped: bool) -> list[list[str]]:
    """A line for each run, and for the head of each sweep where they are grouped."""
    cells = []
    for line in run_tree(listing.rows) if is_grouped else ():
        if line.row is None:
            head = f"{line.branch}{line.group} ({len(line.members)})"
            cells.append([head if column.id == "name" else "" for column in listing.columns])
        else:
            cells.append(_row_cells(listing, line.row, line.branch))
    return cells if is_grouped else [*cells, *(_row_cells(listing, row) for row in listing.rows)]


def _row_cells(listing: _ListedRuns, row: RunRow, branch: str = "") -> list[str]:
    config = listing.configs.get(row.id, {})
    is_cut = room() is not None
    cells = []
    for column in listing.columns:
        text = (
            listing.changes.get(row.id, "")
            if column.id == "changed"
            else column.text(row, config, now=listing.now, names=listing.names)
        )
        text = visible(text)
        if column.id == "name":
            text = f"{branch}{'★ ' if row.is_best else ''}{text}"
        elif is_cut:
            text = truncate(text, column.widest)
        cells.append(paint_cell(state_cell(row.state, row.reason)) if column.id == "state" else text)
    return cells


def _shape(column: RunColumn, index: int) -> TableColumn:
    """Name and state never go; of the others those of `FIRST_TO_GO` go first, then the last one."""
    least = _LEASTS.get(column.id, _LEAST_TEXT if column.kind in _ELASTIC else None)
    is_first = column.id in FIRST_TO_GO
    return TableColumn(
        column.heading.upper(),
        column.is_right,
        least=least,
        cut="middle" if column.id == "name" else "start" if column.id == "folder" else "end",
        goes=_LATEST - FIRST_TO_GO.index(column.id) if is_first else 0 if column.id in _LEASTS else index + 1,
    )
