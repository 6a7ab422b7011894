"""`restart`: components restart, and those that must restart with them."""

from __future__ import annotations

from rltui.cli.arguments import COMPONENTS, RESUME
from rltui.cli.command import Arguments, command
from rltui.cli.component_actions import execute


@command(
    "restart",
    *COMPONENTS,
    RESUME,
    examples=(
        "restart demo/trainer",
        "restart demo --from best --plan",
        "restart demo -c trainer -c orchestrator --yes",
    ),
)
def restart(arguments: Arguments) -> int:
    return execute("restart", arguments)
