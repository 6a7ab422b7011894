"""`archive`: runs are listed no longer, unless asked for."""

from __future__ import annotations

from rltui.cli.arguments import JSON, RUNS
from rltui.cli.command import Arguments, command
from rltui.cli.run_changes import change_runs
from rltui.core import hints
from rltui.core.runs import RunChange


@command(
    "archive",
    RUNS,
    JSON,
)
def archive(arguments: Arguments) -> int:
    return change_runs(arguments, RunChange(is_archived=True), f"archived; see: {hints.RUNS_ALL}")
