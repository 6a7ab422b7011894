"""`best`: runs are marked as the best ones."""

from __future__ import annotations

from rltui.cli.arguments import JSON, RUNS
from rltui.cli.command import Arguments, command, flag
from rltui.cli.run_changes import change_runs
from rltui.core.runs import RunChange


@command(
    "best",
    flag("--remove", "take the mark away"),
    RUNS,
    JSON,
)
def best(arguments: Arguments) -> int:
    is_best = not arguments.remove
    text = "marked as best" if is_best else "not marked any more"
    return change_runs(arguments, RunChange(is_best=is_best), text)
