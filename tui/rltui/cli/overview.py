"""The help of `rltui` itself: all commands, by what people want to do."""

from __future__ import annotations

import argparse

from rltui import __version__
from rltui.cli.command import Command, flag, load
from rltui.cli.command_list import BY_JOB, SENTENCES
from rltui.cli.global_options import HELP

DESCRIPTION = """\
Manage reinforcement-learning experiments on this box: inference, orchestrator and trainer,
each in a pane, kept alive in tmux. Closing the terminal stops nothing.

  rltui CONFIG…     open an experiment (a new one is made and started only once you say so)
  rltui [NAME]      attach to the experiment that runs, or to this one
  rltui --readonly  the same, to look only: nothing can be changed from there
  rltui watch DIR   a run that somebody else started, seen through its output folder
  rltui demo        a real small run on this machine's CPU, no GPU needed
"""
_EPILOG = """\
exit codes: 0 done, 1 failed, 2 usage, 3 invalid config (nothing written),
            4 conflict (file changed, name, port or folder taken), 5 a component failed, 130 interrupted
"""
OPTIONS = (
    flag(
        "--version",
        "show program's version number and exit",
        action="version",
        version=f"rltui {__version__}",
    ),
    *HELP,
)


class _Overview(argparse.ArgumentParser):
    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for job, commands in BY_JOB.items():
            formatter.start_section(job)
            formatter.add_arguments([_Row(name, text) for name, text in commands.items()])
            formatter.end_section()
        for group in self._action_groups:
            if options := [action for action in group._group_actions if action.option_strings]:  # noqa: SLF001
                formatter.start_section(group.title)
                formatter.add_arguments(options)
                formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


class _Row(argparse.Action):
    """A command in the list, as argparse formats one."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(option_strings=[], dest=name, help=text)

    def __call__(self, *_: object) -> None: ...


def overview() -> argparse.ArgumentParser:
    """Parses the command line that names no command: `--help`, `--version`."""
    parser = _Overview(
        prog="rltui",
        description=DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for item in OPTIONS:
        item.add_to(parser)
    parser.add_argument("command", nargs=argparse.PARSER, metavar="COMMAND")
    return parser


def all_commands() -> list[Command]:
    """Every command, in the order of the overview; imports the modules of all of them."""
    return [load(name) for name in SENTENCES]
