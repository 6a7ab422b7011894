"""`best`: runs are marked as the best ones."""

from __future__ import annotations

from rltui.cli.arguments import JSON, RUNS
from rltui.cli.command import Arguments, command, flag
from rltui.cli.run_changes import change_runs
from rltui.services.runs import organize


@command(
    "best",
    flag("--remove", "take the mark away"),
    RUNS,
    JSON,
)
def best(arguments: Arguments) -> int:
    is_best = not arguments.remove
    return change_runs(arguments, lambda index, row: organize.set_best(index, row, is_best),
                 "marked as best" if is_best else "not marked any more")  # fmt: skip
