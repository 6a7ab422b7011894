"""`runs`: all runs there are. The short verbs are here: what people say of runs, and their restoring."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rltui.cli.arguments import JSON, NAMED_RUN, RUNS
from rltui.cli.choosing import ready_index
from rltui.cli.command import Arguments, argument, command, flag, repeatable
from rltui.cli.output import print_json, print_outcome
from rltui.cli.table import TableColumn, print_table
from rltui.core import hints
from rltui.core.runs.row import RunChange, RunRow
from rltui.errors import UsageError
from rltui.services.runs.index import RunIndex
from rltui.services.runs.references import find_run


@command(
    "runs tag",
    argument(
        "word", "RUN|+TAG", "runs, and +TAG to add (default: list all tags)", nargs="*", completes="runs"
    ),
    repeatable("--remove", "TAG,…", "tags to remove", completes="tags"),
    JSON,
    examples=(
        "runs tag",
        "runs tag demo +baseline",
    ),
)
def tag(arguments: Arguments) -> int:
    names = [name for name in arguments.word if not name.startswith("+")]
    add = [tag for argument in arguments.word if argument.startswith("+") for tag in argument[1:].split(",")]
    remove = [tag for tags in arguments.remove for tag in tags.split(",")]
    if not names and (add or remove):
        raise UsageError("no run named", hint=f"{hints.TAG}; {hints.TAG_REMOVE}")
    if not names:
        return _list_tags(ready_index(), as_json=arguments.json)
    rows = _changed(names, RunChange(add_tags=tuple(add), remove_tags=tuple(remove)))
    return print_runs(rows, [f"{row.name}: {' '.join(row.tags) or 'no tags'}" for row in rows], arguments)


def _list_tags(index: RunIndex, *, as_json: bool) -> int:
    counts = index.tags()
    if as_json:
        print_json(counts, is_compact=True)
    elif counts:
        columns = (TableColumn("TAG", least=8), TableColumn("RUNS", is_right=True))
        print_table(columns, [(tag, str(count)) for tag, count in counts.items()])
    else:
        print(f"no tags yet; add one: {hints.TAG}")
    return 0


@command(
    "runs rename",
    NAMED_RUN,
    argument("name", "NAME", "the new name"),
    JSON,
    examples=("runs rename demo baseline",),
)
def rename(arguments: Arguments) -> int:
    from rltui.client.local_runs import LocalRuns

    index = ready_index()
    before = find_run(index, arguments.run)
    row = LocalRuns(index).change(before.id, RunChange(name=arguments.name))
    return print_runs([row], [f"{before.name} is now {row.name}"], arguments)


@command(
    "runs note",
    NAMED_RUN,
    argument("text", "TEXT", "the new note (default: show it); - reads it from stdin", nargs="*"),
    flag("--clear", "remove the note"),
    JSON,
    examples=(
        "runs note demo",
        'runs note demo "warm-up of 10 steps"',
    ),
)
def note(arguments: Arguments) -> int:
    text = sys.stdin.read() if arguments.text == ["-"] else " ".join(arguments.text)
    if arguments.clear and text:
        raise UsageError("--clear and TEXT cannot be combined", hint="give one of the two")
    (row,) = _changed([arguments.run], RunChange(note=text if text or arguments.clear else None))
    return print_runs([row], [row.note or f"{row.name} has no note"], arguments)


@command(
    "runs star",
    RUNS,
    flag("--off", "remove the star"),
    JSON,
    examples=(
        "runs star demo",
        "runs star demo --off",
    ),
)
def star(arguments: Arguments) -> int:
    text = "star removed" if arguments.off else "★"
    return _change(arguments, RunChange(is_best=not arguments.off), text)


@command(
    "runs archive",
    RUNS,
    JSON,
    examples=("runs archive demo",),
)
def archive(arguments: Arguments) -> int:
    return _change(arguments, RunChange(is_archived=True), f"archived; listed by: {hints.RUNS_ALL}")


@command(
    "runs unarchive",
    RUNS,
    JSON,
    examples=("runs unarchive demo",),
)
def unarchive(arguments: Arguments) -> int:
    return _change(arguments, RunChange(is_archived=False), "listed again")


@command(
    "runs restore",
    RUNS,
    JSON,
    examples=("runs restore demo",),
)
def restore(arguments: Arguments) -> int:
    return _change(arguments, RunChange(is_trashed=False), "restored")


def _change(arguments: Arguments, change: RunChange, text: str) -> int:
    rows = _changed(arguments.run, change)
    return print_runs(rows, [f"{row.name}: {text}" for row in rows], arguments)


def _changed(names: Sequence[str], change: RunChange) -> list[RunRow]:
    """The runs after the change, which may be none."""
    from rltui.services.runs import organize  # which `rltui runs` need not pay

    index = ready_index()
    rows = [find_run(index, name) for name in names]  # a typo in the last one changes nothing
    return [organize.change_run(index, row, change) for row in rows]


def print_runs(rows: Sequence[RunRow], lines: Sequence[str], arguments: Arguments) -> int:
    print_outcome(rows, "\n".join(lines) + "\n", as_json=arguments.json, is_compact=True)
    return 0
