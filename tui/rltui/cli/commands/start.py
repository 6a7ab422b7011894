"""`start`: components start, and what they need."""

from __future__ import annotations

from rltui.cli.arguments import COMPONENTS, RESUME
from rltui.cli.command import Arguments, command
from rltui.cli.component_actions import execute


@command(
    "start",
    *COMPONENTS,
    RESUME,
    examples=(
        "start demo",
        "start demo/trainer",
        "start demo --from-scratch --plan",
    ),
)
def start(arguments: Arguments) -> int:
    return execute("start", arguments)
