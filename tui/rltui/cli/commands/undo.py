"""`undo`: the newest edit of the config is taken back, or made again."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rltui.cli.arguments import EDIT, RUN
from rltui.cli.choosing import choose
from rltui.cli.command import Arguments, command, flag
from rltui.cli.edits import FileTakeBack, edit_experiment, edit_request, execute_edit
from rltui.errors import UsageError


@command(
    "undo",
    RUN,
    flag("--redo", "redo the last undone edit"),
    *EDIT,
    examples=(
        "undo demo --restart",
        "undo demo --redo",
        "undo rl.toml",
    ),
)
def undo(arguments: Arguments) -> int:
    action: Literal["undo", "redo"] = "redo" if arguments.redo else "undo"
    request = edit_request(action, arguments)
    if arguments.run is None or not arguments.run.endswith(".toml"):
        return edit_experiment(choose(arguments, acts=True).record, request, arguments)
    from rltui.services.config.file_history import owner_of
    from rltui.services.config.files import named

    (path,) = named([Path(arguments.run)])
    if (record := owner_of(path)) is not None:
        return edit_experiment(record, request, arguments)
    if arguments.restart:
        raise UsageError("--restart needs a run", hint="leave it out")
    execute_edit(FileTakeBack(path, action).request_plan, request, arguments)
    return 0
