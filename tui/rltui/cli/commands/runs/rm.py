"""`runs rm`: runs are put into the trash."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rltui.base.text import join_first, size_text
from rltui.cli.arguments import JSON, PLAN, RUNS, YES
from rltui.cli.choosing import ready_index
from rltui.cli.command import Arguments, command
from rltui.cli.commands.runs import print_runs
from rltui.cli.consent import require_consent
from rltui.cli.output import print_json
from rltui.cli.table import TableColumn, room, table_lines
from rltui.core import hints
from rltui.core.runs.row import RunRow
from rltui.services.runs import organize
from rltui.services.runs.index import RunIndex
from rltui.services.runs.references import find_run

if TYPE_CHECKING:
    from rltui.core.experiment.consent import Verb

_MOST_NAMED = 5


@command(
    "runs rm",
    RUNS,
    PLAN,
    YES,
    JSON,
    examples=("runs rm demo --plan",),
)
def remove(arguments: Arguments) -> int:
    index = ready_index()
    return put_into_trash(index, [find_run(index, name) for name in arguments.run], arguments, verb="rm")


def put_into_trash(
    index: RunIndex,
    rows: Sequence[RunRow],
    arguments: Arguments,
    *,
    verb: Verb,
    spared: Sequence[tuple[RunRow, str]] = (),
) -> int:
    """Say what goes and what that frees, ask, and do it. `arguments`: `plan`, `yes`, `json`.

    `spared`: what a rule keeps, and why.
    """
    for row in rows:
        if row.is_alive:
            raise organize.running_error(row)
    sizes: dict[str, int] = {row.id: size_bytes(row) for row in rows}
    if arguments.json and (arguments.plan or not rows):
        print_json(_plan_document(rows, sizes, spared), is_compact=True)
        return 0
    if arguments.plan or not rows:
        print("\n".join(_plan_lines(rows, sizes, spared, room())))
        return 0
    lines = [*_details(rows)] if arguments.yes else _plan_lines(rows, sizes, spared, room("stderr"))
    sys.stderr.writelines(f"{line}\n" for line in lines)
    require_consent(verb, arguments, "move them to the trash?")
    entries = [organize.trash(index, row, with_others=True) for row in rows]
    total = size_text(sum(sizes.values()))
    restore = hints.RESTORE(run=entries[0].name if len(entries) == 1 else "RUN")
    back = f"to restore: {restore}; to free {total}: {hints.TRASH_EMPTY}"
    return print_runs(entries, [f"{names_text(entries)} in the trash; {back}"], arguments)


def _plan_document(
    rows: Sequence[RunRow], sizes: Mapping[str, int], spared: Sequence[tuple[RunRow, str]]
) -> dict[str, object]:
    return {
        "go": [
            {
                "id": row.id,
                "name": row.name,
                "folder": row.folder,
                "bytes": sizes[row.id],
                "there_before": organize.entries_before_run(row),
            }
            for row in rows
        ],
        "keep": [{"id": row.id, "name": row.name, "why": reason} for row, reason in spared],
        "frees_bytes": sum(sizes.values()),
    }


def _plan_lines(
    rows: Sequence[RunRow],
    sizes: Mapping[str, int],
    spared: Sequence[tuple[RunRow, str]],
    width: int | None,
) -> list[str]:
    cells = [("keep", row.name, reason) for row, reason in spared]
    cells += [("trash", row.name, f"{size_text(sizes[row.id])}  {row.folder}") for row in rows]
    columns = (TableColumn(), TableColumn(least=12, cut="middle"), TableColumn(least=14))
    total = f"{len(rows)} to the trash, {size_text(sum(sizes.values()))}" if rows else "nothing to move"
    return [*table_lines(columns, cells, width=width), total, *_details(rows, with_observed=True)]


def _details(rows: Sequence[RunRow], *, with_observed: bool = False) -> Iterator[str]:
    """Say what goes besides a run's own files, and where its folder really is."""
    for row in rows:
        folder = organize.folder_to_trash(row)
        if folder is not None and folder.is_symlink():
            yield f"{row.name}: {folder} is a link; its target moves: {folder.resolve()}"
        if other_entries := organize.entries_before_run(row):
            names = join_first(other_entries, _MOST_NAMED)
            yield f"{row.name}: includes files that were in its folder before the run: {names}"
        if with_observed and row.observed:
            yield f"{row.name}: rltui only observed it; its files in {row.folder} are kept"


def names_text(rows: Sequence[RunRow]) -> str:
    return join_first([row.name for row in rows], _MOST_NAMED)


def size_bytes(row: RunRow) -> int:
    from rltui.services.runs.disk import size_of  # pydantic behind it takes 0.1 s

    folder = organize.folder_to_trash(row)
    return size_of(folder) if folder is not None else 0
