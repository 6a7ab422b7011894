"""`mcp`: the MCP server, as a program of its own in place of this one."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from rltui.base.interpreter import module_command
from rltui.cli.command import Arguments, command
from rltui.core import hints
from rltui.errors import RltuiError


@command(
    "mcp",
    examples=("mcp",),
    epilog="To register it with the program of an agent: rltui help mcp-clients",
)
def serve(_: Arguments) -> int:
    """Serve until the client leaves.

    Raises:
        RltuiError: if the extra is missing.
    """
    if find_spec("mcp") is None:
        raise RltuiError("the MCP server needs the Python package mcp", hint="pip install 'rltui[mcp]'")
    if sys.stdin.isatty():
        print(f"waiting for a client on stdin; ctrl+c ends it, see {hints.HELP_MCP}", file=sys.stderr)
    argv = module_command("rltui.mcp_server")
    os.execv(argv[0], argv)  # noqa: S606 - no shell
