"""The help of `rltui` itself: all commands, by what people want to do."""

from __future__ import annotations

from rltui import __version__
from rltui.cli.colour import style
from rltui.cli.command import Arguments, Command, flag, load
from rltui.cli.command_help import argument_lines, exit_code_lines, help_width, section_lines
from rltui.cli.global_options import HELP
from rltui.core.command_list import BY_JOB, SENTENCES

DESCRIPTION = """\
Run reinforcement-learning experiments on this machine: inference, orchestrator
and trainer, each in a pane. Closing the terminal stops nothing.
"""
OPENING = {
    "rltui CONFIG…": "open a config; a new run starts only after you confirm",
    "rltui [RUN]": "open a run (default: the running one)",
    "rltui --readonly": "open a run without being able to change it",
}
OPTIONS = (flag("--version", "show the version", action="version"), *HELP)


def print_overview(_: Arguments) -> int:
    width = help_width()
    lines = [*DESCRIPTION.rstrip().split("\n"), *section_lines("", OPENING.items(), width)]
    for job, commands in BY_JOB.items():
        lines += section_lines(job, commands.items(), width)
    for item in HELP:
        lines += argument_lines(item.title, item.arguments(), width)
    lines += ["", style("Exit codes:", "head"), *exit_code_lines()]
    print("\n".join(lines))
    return 0


def print_version(_: Arguments) -> int:
    print(f"rltui {__version__}")
    return 0


def all_commands() -> list[Command]:
    """Every command, in the order of the overview; imports the modules of all of them."""
    return [load(name) for name in SENTENCES]
