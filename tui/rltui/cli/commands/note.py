"""`note`: a sentence is kept in the journal."""

from __future__ import annotations

import sys

from rltui.cli.arguments import JSON, NAME
from rltui.cli.choosing import choose_experiment
from rltui.cli.command import Arguments, argument, command
from rltui.cli.output import print_json
from rltui.client import launch
from rltui.core.events import first_line
from rltui.services.runs.journal import journal_of


@command(
    "note",
    argument("text", "TEXT", "what is to be remembered; - reads it from stdin", nargs="+"),
    NAME,
    JSON,
)
def note(arguments: Arguments) -> int:
    record = choose_experiment(arguments.name)
    text = sys.stdin.read() if arguments.text == ["-"] else " ".join(arguments.text)
    wire = launch.connect(record)
    if wire is None:
        entry = journal_of(record).note(text).model_dump()
    else:
        with wire:
            entry = wire.call("note", {"text": text})
    if arguments.json:
        print_json(entry)
    else:
        at_step = "" if entry["step"] is None else f" at step {entry['step']}"
        print(f"noted{at_step}: {first_line(entry['text'])}")
    return 0
