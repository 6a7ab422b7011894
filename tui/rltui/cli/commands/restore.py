"""`restore`: runs are taken out of the trash."""

from __future__ import annotations

from rltui.cli.arguments import JSON, RUNS
from rltui.cli.command import Arguments, command
from rltui.cli.run_changes import change_runs
from rltui.core.runs import RunChange


@command(
    "restore",
    RUNS,
    JSON,
)
def restore(arguments: Arguments) -> int:
    return change_runs(arguments, RunChange(is_trashed=False), "is back")
