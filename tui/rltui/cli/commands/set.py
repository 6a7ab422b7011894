"""`set`: knobs are edited, all in one write."""

from __future__ import annotations

from pathlib import Path

from rltui.cli.arguments import EDIT, FRAMEWORK, RUN
from rltui.cli.choosing import choose, separate_words
from rltui.cli.command import Arguments, argument, command, flag, repeatable
from rltui.cli.edits import FileEdits, edit_experiment, edit_request, execute_edit
from rltui.core import hints
from rltui.core.config.knobs import split_assignments
from rltui.errors import UsageError


@command(
    "set",
    RUN,
    argument(
        "edit",
        "KEY=VALUE",
        "knob and value (none: no value); rl.toml: set them in that file",
        nargs="*",
        completes="edits",
    ),
    repeatable("--unset", "KEY", "remove a key; back to its default", completes="knobs"),
    flag("--force", "accept unknown keys, and values that only rltui's own rules refuse"),
    *EDIT,
    FRAMEWORK,
    examples=(
        "set demo lr=1e-5 --plan",
        "set demo lr=1e-5 --restart",
        "set rl.toml batch_size=64",
    ),
)
def set_knobs(arguments: Arguments) -> int:
    from rltui.services.config.files import named

    separate_words(arguments, "edit", lambda word: "=" not in word and not word.endswith(".toml"))
    files = [text for text in arguments.edit if text.endswith(".toml") and "=" not in text]
    assignments = [text for text in arguments.edit if text not in files]
    edits: dict[str, str | None] = {**split_assignments(assignments)}
    for key in arguments.unset:
        if key in edits:
            raise UsageError(f"{key} is both set and unset", hint="give each knob once")
        edits[key] = None
    if not edits:
        raise UsageError("nothing to set", hint=f"{hints.SET(name=arguments.run)}, or --unset KEY")
    request = edit_request("set", arguments, edits=edits, force=arguments.force)
    if not files:
        return edit_experiment(choose(arguments, acts=True).record, request, arguments)
    if arguments.run is not None or arguments.restart:
        raise UsageError(
            "RUN and --restart cannot be combined with files", hint="leave them out, or the files"
        )
    file_edits = FileEdits(named([Path(name) for name in files]), arguments.framework)
    execute_edit(file_edits.request_plan, request, arguments)
    return 0
