"""`shell`: what starts only when somebody asks for it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from rltui.cli.waiting import plan_of, wait_until_settled
from rltui.client import launch
from rltui.client.by_hand import SHELL, shell_request
from rltui.client.wire import Wire
from rltui.core.api import ALIVE_STATES, Request
from rltui.errors import ConflictError, ExitCode, UsageError
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.observed import refuse_observed


def shell(arguments: argparse.Namespace) -> int:
    """Start one, unless it lives, and become tmux that shows it."""
    record = launch.choose(arguments.name)
    refuse_observed(record)
    request = shell_request(record, like=arguments.like, command=arguments.command)
    with launch.reach(record) as wire:
        if not _lives(wire, SHELL):
            _start(wire, request)
        elif arguments.like or arguments.command:
            raise ConflictError(
                f"{record.name} has a shell already",
                hint=f"`rltui shell -n {record.name}` shows it; for another, leave that one with `exit`, or "
                f"`rltui stop shell -n {record.name}`",
            )
    if arguments.detach or not sys.stdin.isatty():
        print(f"to type into it: rltui attach shell -n {record.name}", file=sys.stderr)
        return 0
    return show(record, SHELL)


def show(record: ExperimentRecord, component: str, *, readonly: bool = False) -> int:
    """Become tmux, showing the component's pane."""
    argv = launch.attach_command(record, component, readonly=readonly)
    if not sys.stdin.isatty():
        raise UsageError("attach needs a terminal", hint=f"read the log instead: rltui logs {component}")
    os.execvp(argv[0], argv)  # noqa: S606  (argument list, no shell)
    return int(ExitCode.FAILED)


def _lives(wire: Wire, component: str) -> bool:
    states = {each["id"]: each["state"] for each in wire.call("status")["components"]}
    return states.get(component) in {*ALIVE_STATES, "waiting"}


def _start(wire: Wire, request: Request) -> dict[str, Any]:
    """Returns the status once what was asked for runs, or has ended."""
    plan_of(wire, "execute", request)
    return wait_until_settled(wire, set(request.components), timeout_s=None)
