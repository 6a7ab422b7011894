"""`rltui [NAME]`, `rltui CONFIG…`: which experiment to open."""

from __future__ import annotations

import argparse
import gc
import sys

from rltui.cli.app import show, show_readonly
from rltui.cli.parser import is_file_name
from rltui.cli.status import list_lines, row_of
from rltui.cli.terminal import chosen
from rltui.client import launch
from rltui.errors import UsageError
from rltui.services.runs.experiment_files import ExperimentRecord


def open_experiment(arguments: argparse.Namespace) -> int:
    """Attach to an experiment, or create it and let the TUI ask before anything starts."""
    gc.disable()  # what is made until the app is shown, stays; looking through it took a tenth of the time
    if arguments.readonly:
        return show_readonly(launch.choose(_name_to_watch(arguments)))
    if not arguments.config and not arguments.layout and arguments.given.is_plain:
        return show(_chosen(arguments.name))
    if len(arguments.config) == 1 and arguments.given.is_plain and not is_file_name(arguments.config[0]):
        return show(launch.choose(arguments.config[0]))
    from rltui.cli.running import open_config  # knows the frameworks, which attaching needs not

    return open_config(arguments)


def _chosen(name: str | None) -> ExperimentRecord:
    """The experiment to attach to; where several may be meant, a person chooses from the list."""
    try:
        return launch.choose(name)
    except launch.UnclearChoiceError as error:
        lines = list_lines([row_of(record) for record in error.candidates])
        if not sys.stdin.isatty() or not sys.stdout.isatty():
            raise UsageError(error.title, details=lines, hint="open one: rltui NAME") from None
        names = [record.name for record in error.candidates]
        choice = chosen(lines[0], dict(zip(names, lines[1:], strict=True)))
        if choice is None:
            raise UsageError("nothing was opened", hint="open one: rltui NAME") from None
        return error.candidates[names.index(choice)]


def _name_to_watch(arguments: argparse.Namespace) -> str | None:
    """The experiment to look at, `None` for the one there is.

    Raises:
        UsageError: for arguments that would create one.
    """
    names = [*arguments.config, *([arguments.name] if arguments.name else [])]
    creating = [
        arguments.layout,
        arguments.framework,
        arguments.output_dir,
        arguments.workspace,
        arguments.resume,
        arguments.new,
        arguments.force,
        not arguments.given.is_plain,
    ]
    if any(creating) or len(names) > 1:
        raise UsageError(
            "--readonly only looks at an experiment that runs, it creates none",
            hint="rltui --readonly NAME, without further options",
        )
    if names and names[0].endswith(".toml"):
        raise UsageError(
            f"--readonly takes the name of an experiment, {names[0]!r} is a config file",
            hint="`rltui ls` lists the names",
        )
    return names[0] if names else None
