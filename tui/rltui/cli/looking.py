"""`attach`."""

from __future__ import annotations

import argparse
import os
import sys

from rltui.client import launch
from rltui.errors import ExitCode, UsageError


def attach(arguments: argparse.Namespace) -> int:
    """Become tmux, showing the component's pane."""
    record = launch.choose(arguments.name)
    argv = launch.attach_command(record, arguments.component, readonly=arguments.readonly)
    if not sys.stdin.isatty():
        raise UsageError(
            "attach needs a terminal", hint=f"read the log instead: rltui logs {arguments.component}"
        )
    os.execvp(argv[0], argv)  # noqa: S606  (argument list, no shell)
    return int(ExitCode.FAILED)
