"""`undo`: the newest edit of the config is taken back."""

from __future__ import annotations

from rltui.cli.arguments import EDIT
from rltui.cli.choosing import choose_experiment
from rltui.cli.command import Arguments, command
from rltui.cli.edits import edit_experiment, edit_request


@command(
    "undo",
    *EDIT,
)
def undo(arguments: Arguments) -> int:
    return edit_experiment(
        choose_experiment(arguments.name, acts=True), edit_request("undo", arguments), arguments
    )
