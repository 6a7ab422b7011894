"""`unarchive`: archived runs are listed again."""

from __future__ import annotations

from rltui.cli.arguments import JSON, RUNS
from rltui.cli.command import Arguments, command
from rltui.cli.run_changes import change_runs
from rltui.core.runs import RunChange


@command(
    "unarchive",
    RUNS,
    JSON,
)
def unarchive(arguments: Arguments) -> int:
    return change_runs(arguments, RunChange(is_archived=False), "listed again")
