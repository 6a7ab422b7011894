"""`events`, `attach`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from rltui.cli.terminal import while_read
from rltui.client import launch
from rltui.errors import ExitCode, UsageError
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.journal import read_entries


def events(arguments: argparse.Namespace) -> int:
    """Print the journal."""
    record = launch.choose(arguments.name)
    entries = read_entries(ControlFolder(Path(record.output_dir)).journal_file)
    if not arguments.follow:
        if arguments.json:
            print(json.dumps(list(entries), ensure_ascii=False))
        for entry in () if arguments.json else entries:
            print(_event_line(entry))
        return 0
    with while_read():
        for entry in chain(entries, _new_entries(record)):
            print(json.dumps(entry) if arguments.json else _event_line(entry), flush=True)
    return 0


def _new_entries(record: ExperimentRecord) -> Iterator[dict[str, Any]]:
    wire = launch.connect(record)
    if wire is None:
        raise UsageError(f"{record.name} does not run: there is nothing to follow")
    with wire:
        for kind, data in wire.events():
            if kind == "journal":
                yield data


def _event_line(entry: dict[str, Any]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["at"]))
    return f"{when}  {entry['kind']:<10} {entry['text']}"


def attach(arguments: argparse.Namespace) -> int:
    """Become tmux, showing the component's pane."""
    record = launch.choose(arguments.name)
    argv = launch.attach_command(record, arguments.component, readonly=arguments.readonly)
    if not sys.stdin.isatty():
        raise UsageError(
            "attach needs a terminal", hint=f"read the log instead: rltui logs {arguments.component}"
        )
    os.execvp(argv[0], argv)  # noqa: S606  (argument list, no shell)
    return int(ExitCode.FAILED)
