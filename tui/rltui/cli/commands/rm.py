"""`rm`: runs are put into the trash."""

from __future__ import annotations

from rltui.cli.arguments import JSON, RUNS, YES
from rltui.cli.choosing import ready_index
from rltui.cli.command import Arguments, command, flag
from rltui.cli.run_changes import put_into_trash
from rltui.services.runs.references import find_run


@command(
    "rm",
    flag("--plan", "only say what would go, and what it frees"),
    YES,
    RUNS,
    JSON,
)
def remove(arguments: Arguments) -> int:
    index = ready_index()
    return put_into_trash(index, [find_run(index, name) for name in arguments.run], arguments, verb="rm")
