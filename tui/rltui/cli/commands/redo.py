"""`redo`: the edit that was undone last is made again."""

from __future__ import annotations

from rltui.cli.arguments import EDIT
from rltui.cli.choosing import choose_experiment
from rltui.cli.command import Arguments, command
from rltui.cli.edits import edit_experiment, edit_request


@command(
    "redo",
    *EDIT,
)
def redo(arguments: Arguments) -> int:
    return edit_experiment(
        choose_experiment(arguments.name, acts=True), edit_request("redo", arguments), arguments
    )
