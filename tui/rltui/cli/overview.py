"""The help of `rltui` itself: all commands, by what people want to do."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from rltui import __version__
from rltui.cli.command import Command, command_names, flag, load
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
_JOBS: Mapping[str, str] = {
    "start and end a run": "open demo up down watch check init queue sweep fork rerun k8s",
    "look at it": "ls status logs metrics rollouts events gpus evals checkpoints orphans knobs diff attach",
    "change it": "set undo redo convert use-checkpoint start stop restart eval note shell publish promote",
    "all runs": "runs compare export add tag describe best archive unarchive rm restore trash",
    "this box, and help": "doctor layouts trust serve keys completion help man",
}
"""Commands by what people want to do; one that is nowhere comes last."""


class _Overview(argparse.ArgumentParser):
    def format_help(self) -> str:
        """Usage, commands, the options that all have."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        listed = {command.name: _Row(command) for command in all_commands()}
        for job, names in _JOBS.items():
            formatter.start_section(job)
            formatter.add_arguments([listed.pop(name) for name in names.split() if name in listed])
            if job == list(_JOBS)[-1]:
                formatter.add_arguments(listed.values())
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

    def __init__(self, command: Command) -> None:
        super().__init__(option_strings=[], dest=command.name, help=command.text)

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


def ordered_names() -> list[str]:
    """Of all commands, in the order of the overview."""
    names = command_names()
    placed = [name for job in _JOBS.values() for name in job.split() if name in names]
    return list(dict.fromkeys((*placed, *names)))


def all_commands() -> list[Command]:
    """Every command, in the order of the overview."""
    return [load(name) for name in ordered_names()]
