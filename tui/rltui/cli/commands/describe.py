"""`describe`: the note of a run."""

from __future__ import annotations

import sys

from rltui.cli.arguments import JSON, RUN
from rltui.cli.choosing import ready_index
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.run_changes import print_runs
from rltui.core.runs import RunChange
from rltui.errors import UsageError
from rltui.services.runs import organize
from rltui.services.runs.references import find_run


@command(
    "describe",
    RUN,
    argument("text", "TEXT", "the new note; - reads it from stdin", nargs="*"),
    flag("--clear", "remove it"),
    JSON,
)
def describe(arguments: Arguments) -> int:
    index = ready_index()
    row = find_run(index, arguments.run)
    text = sys.stdin.read() if arguments.text == ["-"] else " ".join(arguments.text)
    if arguments.clear and text:
        raise UsageError("--clear removes the note, a text replaces it", hint="say one of both")
    if text or arguments.clear:
        row = organize.change_run(index, row, RunChange(note=text))
    return print_runs([row], [row.note or f"{row.name} has no note"], arguments)
