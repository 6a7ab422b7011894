"""Changes to rows of the index of runs, and how they are printed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from rltui.cli.choosing import ready_index
from rltui.cli.command import Arguments
from rltui.cli.consent import require_consent
from rltui.cli.output import print_json
from rltui.cli.table import Column, room, table_lines
from rltui.core import hints
from rltui.core.runs import RunChange, RunRow
from rltui.core.text import join_words, size_text
from rltui.services.runs import organize
from rltui.services.runs.catalog import find_run
from rltui.services.runs.index import RunIndex

if TYPE_CHECKING:
    from rltui.core.consent import Verb

_MOST_NAMED = 5


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
        if row.is_running:
            raise organize.running_error(row)
    sizes: dict[str, int] = {row.id: size_bytes(row) for row in rows}
    if arguments.plan or not rows:
        _print_plan(rows, sizes, spared, as_json=arguments.json)
        return 0
    if not arguments.yes:
        _print_plan(rows, sizes, spared, as_json=False, stream_is_stderr=True)
    else:
        for row in rows:
            _print_others(row, sys.stderr)
    require_consent(verb, arguments, "put them into the trash?")
    entries = [organize.trash(index, row, with_others=True) for row in rows]
    total = size_text(sum(sizes.values()))
    back = f"back: {hints.RESTORE(run='RUN')}; to free {total}: {hints.TRASH_EMPTY}"
    text = f"{names_text(entries)} in the trash; {back}"
    return print_runs(entries, [text], arguments)


def _print_plan(
    rows: Sequence[RunRow],
    sizes: dict[str, int],
    spared_rows: Sequence[tuple[RunRow, str]],
    *,
    as_json: bool,
    stream_is_stderr: bool = False,
) -> None:
    out = sys.stderr if stream_is_stderr else sys.stdout
    total = sum(sizes.values())
    if as_json:
        document = {
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
            "keep": [{"id": row.id, "name": row.name, "why": reason} for row, reason in spared_rows],
            "frees_bytes": total,
        }
        print_json(document, is_compact=True)
        return
    lines = [("keep", row.name, reason) for row, reason in spared_rows]
    lines += [("trash", row.name, f"{size_text(sizes[row.id])}  {row.folder}") for row in rows]
    if lines:
        columns = (Column(), Column(least=12, cut="middle"), Column(least=14))
        width = room("stderr" if stream_is_stderr else "stdout")
        print("\n".join(table_lines(columns, lines, width=width)), file=out)
    print(f"{len(rows)} to the trash, {size_text(total)}" if rows else "nothing goes", file=out)
    for row in rows:
        _print_others(row, out)
        if row.observed:
            print(f"{row.name}: rltui only looked at it; its files in {row.folder} stay", file=out)


def _print_others(row: RunRow, out: TextIO) -> None:
    """Name what goes besides the run's own files, and where its folder really is."""
    folder = organize.folder_to_trash(row)
    if folder is not None and folder.is_symlink():
        print(f"{row.name}: {folder} is a link: what goes is {folder.resolve()}", file=out)
    if other_entries := organize.entries_before_run(row):
        names = _few_names(other_entries)
        print(f"{row.name}: with what was in its folder before it, and no run wrote: {names}", file=out)


def change_runs(arguments: Arguments, change: RunChange, text: str) -> int:
    index = ready_index()
    rows = [find_run(index, name) for name in arguments.run]  # a typo in the last one changes nothing
    changed_rows = [organize.change_run(index, row, change) for row in rows]
    return print_runs(changed_rows, [f"{row.name}: {text}" for row in changed_rows], arguments)


def print_runs(rows: Sequence[RunRow], lines: Sequence[str], arguments: Arguments) -> int:
    if arguments.json:
        print_json(rows, is_compact=True)
    else:
        print("\n".join(lines))
    return 0


def names_text(rows: Sequence[RunRow]) -> str:
    return _few_names([row.name for row in rows])


def _few_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return join_words([*names[:_MOST_NAMED], f"{more} more"] if more > 1 else names)


def size_bytes(row: RunRow) -> int:
    from rltui.services.runs.disk import size_of  # pydantic behind it takes 0.1 s

    folder = organize.folder_to_trash(row)
    return size_of(folder) if folder is not None else 0
