"""`runs add`: runs that rltui did not start are taken into the list."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path

from rltui.cli.arguments import JSON, name_option
from rltui.cli.command import Arguments, argument, command
from rltui.cli.commands.runs.rm import names_text
from rltui.cli.output import print_outcome


@command(
    "runs add",
    argument(
        "folder",
        "FOLDER",
        "folder of a run or of vf-eval results, or a folder that contains them",
        nargs="+",
        type=Path,
        completes="folders",
    ),
    name_option("name of a single run (default: that of its folder)"),
    JSON,
    examples=("runs add outputs",),
)
def add(arguments: Arguments) -> int:
    from rltui.client.observation import add as add_runs  # knows the frameworks

    additions = [add_runs(folder, arguments.name) for folder in arguments.folder]
    for sentence in dict.fromkeys(sentence for addition in additions for sentence in addition.messages):
        print(sentence, file=sys.stderr)
    new, known_runs = (
        [*chain(*kinds)]
        for kinds in zip(*((addition.new, addition.known) for addition in additions), strict=True)
    )
    lines = [f"{row.name}: {row.state}, {row.folder}" for row in new]
    if known_runs:
        lines.append(f"added already: {names_text(known_runs)}")
    document = {"new": new, "known": known_runs}
    print_outcome(document, "\n".join(lines) + "\n", as_json=arguments.json, is_compact=True)
    return 0
