"""`stop`: components stop, and what depends on them."""

from __future__ import annotations

from rltui.cli.arguments import COMPONENTS
from rltui.cli.command import Arguments, command, flag
from rltui.cli.component_actions import execute


@command(
    "stop",
    *COMPONENTS,
    flag("--kill", "kill at once, without a clean end"),
    examples=(
        "stop demo",
        "stop demo/trainer --plan",
        "stop demo -c trainer --kill",
    ),
)
def stop(arguments: Arguments) -> int:
    return execute("stop", arguments)
