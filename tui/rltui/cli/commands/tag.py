"""`tag`: the tags of runs."""

from __future__ import annotations

from collections import Counter

from rltui.cli.arguments import JSON
from rltui.cli.choosing import ready_index
from rltui.cli.command import Arguments, argument, command, repeatable
from rltui.cli.output import print_json
from rltui.cli.run_changes import print_runs
from rltui.cli.table import Column, print_table
from rltui.core import hints
from rltui.core.runs import RunChange
from rltui.errors import UsageError
from rltui.services.runs import organize
from rltui.services.runs.index import RunIndex
from rltui.services.runs.references import find_run


@command(
    "tag",
    argument("word", "RUN|+TAG", "runs by name or id, and +TAG to add", nargs="*", completes="runs"),
    repeatable("--remove", "TAG,…", "tags to remove", completes="tags"),
    JSON,
)
def tag(arguments: Arguments) -> int:
    index = ready_index()
    names = [name for name in arguments.word if not name.startswith("+")]
    add = [tag for argument in arguments.word if argument.startswith("+") for tag in argument[1:].split(",")]
    remove = [tag for tags in arguments.remove for tag in tags.split(",")]
    if not names and (add or remove):
        raise UsageError("of which run?", hint=f"{hints.TAG}; {hints.TAG_REMOVE}")
    if not names:
        return _list_tags(index, as_json=arguments.json)
    rows = [find_run(index, name) for name in names]
    if add or remove:
        change = RunChange(add_tags=tuple(add), remove_tags=tuple(remove))
        rows = [organize.change_run(index, row, change) for row in rows]
    return print_runs(rows, [f"{row.name}: {' '.join(row.tags) or 'no tags'}" for row in rows], arguments)


def _list_tags(index: RunIndex, *, as_json: bool) -> int:
    counts = Counter(tag for row in index.rows() if row.trashed_at is None for tag in row.tags)
    if as_json:
        print_json(dict(sorted(counts.items())), is_compact=True)
    elif counts:
        columns = (Column("TAG", least=8), Column("RUNS", is_right=True))
        print_table(columns, [(tag, str(counts[tag])) for tag in sorted(counts)])
    else:
        print(f"no tags yet; add one: {hints.TAG}")
    return 0
