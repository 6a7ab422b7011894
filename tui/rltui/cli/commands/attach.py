"""`attach`: the raw tmux pane of a component."""

from __future__ import annotations

import os
import sys

from rltui.cli.arguments import NAME
from rltui.cli.choosing import choose_experiment
from rltui.cli.command import Arguments, argument, command, flag
from rltui.client import launch
from rltui.core import hints
from rltui.errors import ExitCode, UsageError
from rltui.services.runs.experiment_files import ExperimentRecord


@command(
    "attach",
    argument("component", "C", "component id, or supervisor", completes="components"),
    flag("--readonly", "pass no keys on"),
    NAME,
)
def attach(arguments: Arguments) -> int:
    return show_pane(choose_experiment(arguments.name), arguments.component, readonly=arguments.readonly)


def show_pane(record: ExperimentRecord, component: str, *, readonly: bool = False) -> int:
    argv = launch.attach_command(record, component, readonly=readonly)
    if not sys.stdin.isatty():
        raise UsageError(
            "attach needs a terminal",
            hint=f"read the log instead: {hints.LOGS(component=component, name=record.name)}",
        )
    os.execvp(argv[0], argv)  # noqa: S606  (argument list, no shell)
    return int(ExitCode.FAILED)
