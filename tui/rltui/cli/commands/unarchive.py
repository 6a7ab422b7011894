"""`unarchive`: archived runs are listed again."""

from __future__ import annotations

import argparse

from rltui.cli.arguments import JSON, RUNS
from rltui.cli.command import command
from rltui.cli.run_changes import change_runs
from rltui.services.runs import organize


@command(
    "unarchive",
    RUNS,
    JSON,
)
def unarchive(arguments: argparse.Namespace) -> int:
    return change_runs(arguments, organize.unarchive, "listed again")
