"""`attach`: the raw tmux pane of a component."""

from __future__ import annotations

import os
import sys

from rltui.cli.arguments import COMPONENT, RUN
from rltui.cli.choosing import choose
from rltui.cli.command import Arguments, command, flag
from rltui.client import launch
from rltui.core import hints
from rltui.errors import ExitCode, UsageError
from rltui.services.runs.experiment_files import ExperimentRecord


@command(
    "attach",
    RUN,
    COMPONENT,
    flag("--readonly", "pass no keys on"),
    examples=(
        "attach",
        "attach demo/trainer",
        "attach demo -c inference --readonly",
    ),
)
def attach(arguments: Arguments) -> int:
    record, components = choose(arguments, acts=True)
    if len(components) != 1:
        raise UsageError("attach shows one component", hint=f"name it: {hints.ATTACH_TO}")
    return show_pane(record, components[0], readonly=arguments.readonly)


def show_pane(record: ExperimentRecord, component: str, *, readonly: bool = False) -> int:
    argv = launch.attach_command(record, component, readonly=readonly)
    if not sys.stdin.isatty():
        raise UsageError(
            "attach needs a terminal",
            hint=f"read the log instead: {hints.LOGS(component=component, name=record.name)}",
        )
    os.execvp(argv[0], argv)  # noqa: S606  (argument list, no shell)
    return int(ExitCode.FAILED)
