"""`runs trash`: what lies in the trash, and its deletion for good."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout

from rltui.base.text import duration, size_text
from rltui.cli.arguments import YES, age_s, listing
from rltui.cli.choosing import ready_index
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.commands.runs import print_runs
from rltui.cli.commands.runs.rm import names_text, size_bytes
from rltui.cli.consent import require_consent
from rltui.cli.output import print_rows
from rltui.cli.table import TableColumn, print_table
from rltui.core import hints
from rltui.core.runs.row import RunRow
from rltui.errors import RltuiError
from rltui.services.runs import organize
from rltui.services.runs.index import RunIndex

_TRASH = (
    TableColumn("NAME", least=12, cut="middle"),
    TableColumn("ID", goes=2),
    TableColumn("SINCE", is_right=True),
    TableColumn("SIZE", is_right=True),
    TableColumn("FOLDER", least=14, cut="start", goes=1),
)


@command(
    "runs trash",
    flag("--empty", "delete the runs for good; asks first"),
    argument("--older-than", "AGE", "only runs that were moved there earlier: 30d, 12h"),
    YES,
    *listing("only the newest"),
    examples=(
        "runs trash",
        "runs trash --empty --older-than 30d",
    ),
)
def trash(arguments: Arguments) -> int:
    least_s = age_s("--older-than", arguments.older_than) if arguments.older_than else 0.0
    index, now = ready_index(), time.time()
    rows = [row for row in index.trashed() if now - (row.trashed_at or 0.0) >= least_s]
    rows.sort(key=lambda row: row.trashed_at or 0.0, reverse=True)
    sizes: dict[str, int] = {row.id: size_bytes(row) for row in rows}
    if not arguments.empty:
        return _list_trash(rows, sizes, now, arguments)
    total = size_text(sum(sizes.values()))
    if rows:
        if not arguments.yes:
            with redirect_stdout(sys.stderr):
                _list_trash(rows, sizes, now, None)
        require_consent("empty-trash", arguments, f"delete {names_text(rows)}, {total}, for good?")
    problems = [problem for row in rows if (problem := _delete(index, row))]
    if problems:
        raise RltuiError(
            "not everything could be deleted", details=problems, hint="solve this, then run it again"
        )
    return print_runs(rows, [f"deleted; {total} freed" if rows else "the trash is empty"], arguments)


def _list_trash(
    rows: Sequence[RunRow], sizes: dict[str, int], now: float, arguments: Arguments | None
) -> int:
    """Print them, as the arguments say; without these as a table."""
    if arguments is not None and arguments.json:
        documents = [
            {"id": row.id, "name": row.name, "folder": row.folder, "trashed_at": row.trashed_at,
             "bytes": sizes[row.id]} for row in rows
        ]  # fmt: skip
        print_rows(arguments, "runs", documents)
    elif not rows:
        print("the trash is empty")
    else:
        cells = [
            (row.name, row.id, duration(now - (row.trashed_at or now)), size_text(sizes[row.id]), row.folder)
            for row in rows
        ]
        print_table(_TRASH, cells)
        total = size_text(sum(sizes.values()))
        print(f"{total}: to delete: {hints.TRASH_EMPTY}; to restore: {hints.RESTORE(run='RUN')}")
    return 0


def _delete(index: RunIndex, row: RunRow) -> str:
    """Delete a run for good; returns why it could not be, or nothing."""
    try:
        organize.delete_for_good(index, row)
    except RltuiError as error:
        return "; ".join((f"{row.name}: {error.title}", *error.details))
    return ""
