"""`tag`, `describe`, `best`, `archive`, `unarchive`, `rm`, `restore`, `trash`: what people do with runs."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from itertools import chain
from typing import TYPE_CHECKING, TextIO

import orjson

from rltui.cli.choosing import ready_index
from rltui.cli.consent import require_consent
from rltui.cli.table import Column, print_table, room, table_lines
from rltui.core import hints
from rltui.core.runs import RunRow
from rltui.core.text import duration, listed, size_text
from rltui.core.times import span
from rltui.errors import RltuiError, UsageError
from rltui.services.runs import organize
from rltui.services.runs.catalog import find_run
from rltui.services.runs.index import RunIndex

if TYPE_CHECKING:
    from rltui.core.consent import Verb

_MOST_NAMED = 5
_TRASH = (
    Column("NAME", least=12, cut="middle"),
    Column("ID", goes=2),
    Column("SINCE", is_right=True),
    Column("SIZE", is_right=True),
    Column("FOLDER", least=14, cut="start", goes=1),
)


def tag(arguments: argparse.Namespace) -> int:
    index = ready_index()
    names = [word for word in arguments.word if not word.startswith("+")]
    add = [tag for word in arguments.word if word.startswith("+") for tag in word[1:].split(",")]
    remove = [tag for words in arguments.remove for tag in words.split(",")]
    if not names and (add or remove):
        raise UsageError("of which run?", hint=f"{hints.TAG}; {hints.TAG_REMOVE}")
    if not names:
        return _list_tags(index, as_json=arguments.json)
    rows = [find_run(index, name) for name in names]
    if add or remove:
        rows = [organize.set_tags(index, row, add=add, remove=remove) for row in rows]
    return _tell(rows, [f"{row.name}: {' '.join(row.tags) or 'no tags'}" for row in rows], arguments)


def add(arguments: argparse.Namespace) -> int:
    from rltui.client.observation import add as add_runs  # knows the frameworks

    found = [add_runs(folder, arguments.name) for folder in arguments.folder]
    for sentence in dict.fromkeys(sentence for each in found for sentence in each.told):
        print(sentence, file=sys.stderr)
    new, known = ([*chain(*kinds)] for kinds in zip(*((each.new, each.known) for each in found), strict=True))
    lines = [f"{row.name}: {row.state}, {row.folder}" for row in new]
    if known:
        lines.append(f"known already: {_named(known)}")
    if arguments.json:
        print(orjson.dumps({"new": new, "known": known}).decode())
    else:
        print("\n".join(lines))
    return 0


def _list_tags(index: RunIndex, *, as_json: bool) -> int:
    counts = Counter(tag for row in index.rows() if row.trashed_at is None for tag in row.tags)
    if as_json:
        print(orjson.dumps(dict(sorted(counts.items()))).decode())
    elif counts:
        columns = (Column("TAG", least=8), Column("RUNS", is_right=True))
        print_table(columns, [(tag, str(counts[tag])) for tag in sorted(counts)])
    else:
        print(f"no tags yet; add one: {hints.TAG}")
    return 0


def describe(arguments: argparse.Namespace) -> int:
    index = ready_index()
    row = find_run(index, arguments.run)
    text = sys.stdin.read() if arguments.text == ["-"] else " ".join(arguments.text)
    if arguments.clear and text:
        raise UsageError("--clear removes the note, a text replaces it", hint="say one of both")
    if text or arguments.clear:
        row = organize.set_note(index, row, text)
    return _tell([row], [row.note or f"{row.name} has no note"], arguments)


def best(arguments: argparse.Namespace) -> int:
    is_best = not arguments.remove
    return _each(arguments, lambda index, row: organize.set_best(index, row, is_best),
                 "marked as best" if is_best else "not marked any more")  # fmt: skip


def archive(arguments: argparse.Namespace) -> int:
    return _each(arguments, organize.archive, f"archived; see: {hints.RUNS_ALL}")


def unarchive(arguments: argparse.Namespace) -> int:
    return _each(arguments, organize.unarchive, "listed again")


def restore(arguments: argparse.Namespace) -> int:
    return _each(arguments, organize.restore, "is back")


def remove(arguments: argparse.Namespace) -> int:
    index = ready_index()
    return put_into_trash(index, [find_run(index, name) for name in arguments.run], arguments, verb="rm")


def put_into_trash(
    index: RunIndex,
    rows: Sequence[RunRow],
    arguments: argparse.Namespace,
    *,
    verb: Verb,
    kept: Sequence[tuple[RunRow, str]] = (),
) -> int:
    """Say what goes and what that frees, ask, and do it. `arguments`: `plan`, `yes`, `json`.

    `kept`: what a rule keeps, and why.
    """
    for row in rows:
        if row.is_running:
            raise organize.lives(row)
    sizes: dict[str, int] = {row.id: _size(row) for row in rows}
    if arguments.plan or not rows:
        _print_plan(rows, sizes, kept, as_json=arguments.json)
        return 0
    if not arguments.yes:
        _print_plan(rows, sizes, kept, as_json=False, stream_is_stderr=True)
    else:
        for row in rows:
            _print_others(row, sys.stderr)
    require_consent(verb, arguments, "put them into the trash?")
    gone = [organize.trash(index, row, with_others=True) for row in rows]
    total = size_text(sum(sizes.values()))
    text = (
        f"{_named(gone)} in the trash; back: {hints.RESTORE(run='RUN')}; to free {total}: {hints.TRASH_EMPTY}"
    )
    return _tell(gone, [text], arguments)


def _print_plan(
    rows: Sequence[RunRow],
    sizes: dict[str, int],
    kept: Sequence[tuple[RunRow, str]],
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
                    "there_before": organize.there_before(row),
                }
                for row in rows
            ],
            "keep": [{"id": row.id, "name": row.name, "why": why} for row, why in kept],
            "frees_bytes": total,
        }
        print(orjson.dumps(document).decode(), file=out)
        return
    lines = [("keep", row.name, why) for row, why in kept]
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
    """What goes besides that which the run wrote, and where its folder really is."""
    folder = organize.kept_in(row)
    if folder is not None and folder.is_symlink():
        print(f"{row.name}: {folder} is a link: what goes is {folder.resolve()}", file=out)
    if others := organize.there_before(row):
        shown = _shown(others)
        print(f"{row.name}: with what was in its folder before it, and no run wrote: {shown}", file=out)


def trash(arguments: argparse.Namespace) -> int:
    older_than = span(arguments.older_than) if arguments.older_than else 0.0
    if older_than is None:
        raise UsageError(f"--older-than {arguments.older_than!r} is no age", hint="so old: 12h, 30d, 2w")
    index, now = ready_index(), time.time()
    rows = [row for row in index.rows() if row.trashed_at is not None and now - row.trashed_at >= older_than]
    rows.sort(key=lambda row: row.trashed_at or 0.0, reverse=True)
    sizes: dict[str, int] = {row.id: _size(row) for row in rows}
    if not arguments.empty:
        return _list_trash(rows, sizes, now, as_json=arguments.json)
    total = size_text(sum(sizes.values()))
    if rows:
        if not arguments.yes:
            with redirect_stdout(sys.stderr):
                _list_trash(rows, sizes, now, as_json=False)
        require_consent("empty-trash", arguments, f"delete {_named(rows)}, {total}, for good?")
    problems = [problem for row in rows if (problem := _deleted(index, row))]
    if problems:
        raise RltuiError(
            "not everything could be deleted", details=problems, hint="ask again after seeing to it"
        )
    return _tell(rows, [f"deleted; {total} are free again" if rows else "the trash is empty"], arguments)


def _list_trash(rows: Sequence[RunRow], sizes: dict[str, int], now: float, *, as_json: bool) -> int:
    if as_json:
        documents = [
            {"id": row.id, "name": row.name, "folder": row.folder, "trashed_at": row.trashed_at,
             "bytes": sizes[row.id]} for row in rows
        ]  # fmt: skip
        print(orjson.dumps(documents).decode())
    elif not rows:
        print("the trash is empty")
    else:
        cells = [
            (row.name, row.id, duration(now - (row.trashed_at or now)), size_text(sizes[row.id]), row.folder)
            for row in rows
        ]
        print_table(_TRASH, cells)
        total = size_text(sum(sizes.values()))
        print(f"{total}: {hints.TRASH_EMPTY} deletes it, {hints.RESTORE(run='RUN')} brings it back")
    return 0


def _deleted(index: RunIndex, row: RunRow) -> str:
    """Why it could not be."""
    try:
        organize.delete_for_good(index, row)
    except RltuiError as error:
        return "; ".join((f"{row.name}: {error.title}", *error.details))
    return ""


def _each(arguments: argparse.Namespace, change: Callable[[RunIndex, RunRow], RunRow], text: str) -> int:
    index = ready_index()
    rows = [find_run(index, name) for name in arguments.run]  # a typo in the last one changes nothing
    changed = [change(index, row) for row in rows]
    return _tell(changed, [f"{row.name}: {text}" for row in changed], arguments)


def _tell(rows: Sequence[RunRow], lines: Sequence[str], arguments: argparse.Namespace) -> int:
    print(orjson.dumps(rows).decode() if arguments.json else "\n".join(lines))
    return 0


def _named(rows: Sequence[RunRow]) -> str:
    return _shown([row.name for row in rows])


def _shown(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return listed([*names[:_MOST_NAMED], f"{more} more"] if more > 1 else names)


def _size(row: RunRow) -> int:
    from rltui.services.runs.disk import size_of  # pydantic behind it takes 0.1 s

    folder = organize.kept_in(row)
    return size_of(folder) if folder is not None else 0
