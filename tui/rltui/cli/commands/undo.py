"""`undo`: the newest edit of the config is taken back, or made again."""

from __future__ import annotations

from rltui.cli.arguments import EDIT, RUN
from rltui.cli.choosing import choose
from rltui.cli.command import Arguments, command, flag
from rltui.cli.edits import edit_experiment, edit_request


@command(
    "undo",
    RUN,
    flag("--redo", "redo the last undone edit"),
    *EDIT,
    examples=(
        "undo demo --plan",
        "undo demo --restart",
        "undo demo --redo",
    ),
)
def undo(arguments: Arguments) -> int:
    request = edit_request("redo" if arguments.redo else "undo", arguments)
    return edit_experiment(choose(arguments, acts=True).record, request, arguments)
