"""`serve`: the other end of a link, started by an rltui on another machine."""

from __future__ import annotations

import os
import sys

from rltui.cli.command import Arguments, command, flag
from rltui.core import hints
from rltui.errors import ExitCode, UsageError


@command(
    "serve",
    flag("--stdio", "talk over stdin and stdout"),
    is_local=True,
)
def serve(arguments: Arguments) -> int:
    """The other end of a link, on stdin and stdout.

    Raises:
        UsageError: where a person called it.
    """
    if not arguments.stdio or sys.stdin.isatty():
        raise UsageError("only an rltui on another machine starts serve", hint=f"there: {hints.OF_HOST}")
    from rltui.client.laptop.serving import serve as answer

    read_fd, write_fd = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # nothing else may be written there
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    answer(read_fd, write_fd)
    return int(ExitCode.DONE)
