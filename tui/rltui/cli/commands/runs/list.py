"""`runs list`: all runs there are."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from rltui.base.text import did_you_mean, truncate, visible
from rltui.cli.arguments import JSON, positive
from rltui.cli.choosing import ready_index
from rltui.cli.colour import style_line
from rltui.cli.command import Arguments, argument, command, exclusive, flag
from rltui.cli.command_list import VERBS
from rltui.cli.output import print_csv, print_json
from rltui.cli.table import Column, paint_cell, print_table, room
from rltui.core import hints
from rltui.core.runs.row import RunRow
from rltui.core.runs.tree import run_tree
from rltui.services import screen_state
from rltui.services.runs.index import RunIndex, current_rows
from rltui.views.experiment import state_cell
from rltui.views.run import FIRST_TO_GO, RunColumn, check_names, column_of, columns_of, known_columns
from rltui.views.run_filter import RunFilter, parse_filter
from rltui.views.run_list import RunView, changes_among, sorted_by, usual_order

_LEAST_TEXT = 10
"""Characters that a text is cut to before a column leaves."""
_LEASTS: Mapping[str, int | None] = {"name": 40, "state": None, "changed": 24}
"""The same of columns that stay."""
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
    argument("--limit", "NUMBER", "only the first runs", type=positive),
    flag("--rebuild", "rebuild the index from all folders"),
    exclusive(
        flag("--csv", "CSV, all values in full"),
        JSON,
    ),
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
    sort_column = column_of(view.sort) if view.sort else None
    matches = matching_runs(index, arguments, now, [*columns, *([sort_column] if sort_column else [])])
    all_rows, configs = matches.all_rows, matches.configs
    if sort_column:
        rows = sorted_by(matches.rows, sort_column, configs, is_reversed=view.is_reversed)
    else:
        rows = usual_order(matches.rows)
    names: dict[str, str] = {row.id: row.name for row in all_rows}
    visible_rows = rows[: arguments.limit]
    beyond = len(rows) - len(visible_rows)
    changes = (
        changes_among(visible_rows, {row.id: row for row in all_rows})
        if any(column.id == "changed" for column in columns)
        else {}
    )
    listing = _ListedRuns(visible_rows, columns, configs, names, changes, now, beyond)
    if arguments.json:
        _print_json(listing, with_columns=arguments.columns is not None)
    elif arguments.csv:
        _print_csv(listing, is_chosen=arguments.columns is not None)
    else:
        _print_table(listing, all_rows, matches.run_filter, is_grouped=view.is_grouped)
    return 0


class MatchingRuns(NamedTuple):
    rows: Sequence[RunRow]
    all_rows: Sequence[RunRow]
    run_filter: RunFilter
    configs: Mapping[str, Mapping[str, Any]]
    """Configs of all runs, where the filter or a column needs them."""


def matching_runs(
    index: RunIndex, arguments: Arguments, now: float, columns: Sequence[RunColumn] = ()
) -> MatchingRuns:
    """The runs that FILTER and `--all` choose, and what `columns` of them need.

    Raises:
        UsageError: for a filter that is not understood, or a column that no run has.
    """
    all_rows = current_rows(index.rows())
    ids = {row.name: row.id for row in reversed(usual_order(all_rows))}
    run_filter = parse_filter(" ".join(arguments.filter), now=now, ids=ids)
    columns = [*run_filter.columns, *columns]
    needs_configs = any(column.of_config for column in columns)
    configs = index.configs(row.id for row in all_rows) if needs_configs else {}
    if all_rows:
        check_names(columns, configs)
    rows = run_filter.chosen(all_rows, configs, with_archived=arguments.all)
    return MatchingRuns(rows, all_rows, run_filter, configs)


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


def _print_json(listing: _ListedRuns, *, with_columns: bool) -> None:
    if not with_columns:
        print_json(listing.rows, is_compact=True)
        return
    documents, names = [], [field.name for field in fields(RunRow)]
    for row in listing.rows:
        values = {column.id: column.value(row, listing.configs.get(row.id, {})) for column in listing.columns}
        documents.append({name: getattr(row, name) for name in names} | {"columns": values})
    print_json(documents, is_compact=True)


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


def _print_table(
    listing: _ListedRuns, all_rows: Sequence[RunRow], run_filter: RunFilter, *, is_grouped: bool
) -> None:
    if not listing.rows:
        print(_empty_text(all_rows, run_filter))
    else:
        columns = [_shape(column, index) for index, column in enumerate(listing.columns)]
        print_table(columns, _cells(listing, is_grouped=is_grouped))
    for row in listing.rows:
        if row.is_unreadable:
            print(style_line(f"⚠ {row.name}: {row.reason.text}"))
    if listing.beyond:
        print(f"{listing.beyond} more than --limit {len(listing.rows)}")
    matches = run_filter.chosen(all_rows, listing.configs, with_archived=True)
    if hidden_count := len(matches) - len(listing.rows) - listing.beyond:
        print(f"{hidden_count} archived, not listed: {hints.RUNS_ALL}")


def _empty_text(all_rows: Sequence[RunRow], run_filter: RunFilter) -> str:
    if not any(row.trashed_at is None for row in all_rows):
        return f"no runs yet; start one: {hints.UP}, or {hints.DEMO}; or add some: {hints.ADD}"
    if not run_filter.text:
        return "no runs to list"
    guess = did_you_mean(run_filter.text.split()[0], VERBS["runs"])
    return f"no run of {len(all_rows)} matches {run_filter.text}{f' ({guess})' if guess else ''}"


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


def _shape(column: RunColumn, index: int) -> Column:
    """Name and state never go; of the others those of `FIRST_TO_GO` go first, then the last one."""
    least = _LEASTS.get(column.id, _LEAST_TEXT if column.kind in _ELASTIC else None)
    is_first = column.id in FIRST_TO_GO
    return Column(
        column.heading.upper(),
        column.is_right,
        least=least,
        cut="middle" if column.id == "name" else "start" if column.id == "folder" else "end",
        goes=_LATEST - FIRST_TO_GO.index(column.id) if is_first else 0 if column.id in _LEASTS else index + 1,
    )
