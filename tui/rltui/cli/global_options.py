"""Options of every command, before or after its name: `--color`, `--quiet` …; `--host` before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast, get_args

from rltui.base.text import unknown_name
from rltui.cli.colour import When
from rltui.cli.command import argument, flag, section
from rltui.errors import UsageError

HELP = (
    section(
        "options of every command",
        argument(
            "--color",
            "WHEN",
            "auto (on a terminal, unless NO_COLOR is set), always or never",
            choices=get_args(When),
        ),
        flag("--no-color", "the same as --color=never"),
        flag("--ascii", "ASCII only"),
        flag("--quiet", "one line on what was done; on stderr only errors and questions"),
        argument("--reason", "TEXT", "why, kept with the act or proposal"),
    ),
    section(
        "options before a command",
        argument(
            "--host",
            "HOST",
            "run the command on another machine over ssh; without a command: open the TUI here on its runs",
        ),
    ),
)
"""Help of the global options; they are taken out of a command line before it is parsed."""


class Appearance(NamedTuple):
    """Options of the output's appearance."""

    colours: When = "auto"
    is_ascii: bool = False
    is_quiet: bool = False


def reason_of(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Take `--reason` out of a command line: the reason (empty: none was given), and the other words.

    Raises:
        UsageError: where nothing follows `--reason`.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    reason, remaining, args = "", [], iter(argv[:end])
    for arg in args:
        name, equals, value = arg.partition("=")
        if name == "--reason":
            reason = (value if equals else next(args, "")).strip()
            if not reason:
                raise UsageError("--reason needs a value")
        else:
            remaining.append(arg)
    return reason, [*remaining, *argv[end:]]


def appearance_of(argv: Sequence[str]) -> tuple[Appearance, list[str]]:
    """Split a command line into how the output is to look, and the other words. `--` ends the reading.

    Raises:
        UsageError: for another word than `--color` takes.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    looks, remaining, args = Appearance(), [], iter(argv[:end])
    for arg in args:
        name, equals, value = arg.partition("=")
        if name == "--color":
            choice = value if equals else next(args, "")
            if choice not in get_args(When):
                raise unknown_name("value of --color", choice, get_args(When))
            looks = looks._replace(colours=cast("When", choice))
        elif arg == "--no-color":
            looks = looks._replace(colours="never")
        elif arg == "--ascii":
            looks = looks._replace(is_ascii=True)
        elif arg == "--quiet":
            looks = looks._replace(is_quiet=True)
        else:
            remaining.append(arg)
    return looks, [*remaining, *argv[end:]]


def host_of(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The machine that a command is for (empty: this one), and the other words.

    It stands before the command: behind it, `--host` may be for a program that somebody starts.

    Raises:
        UsageError: where it is not said, or twice.
    """
    hosts, remaining = [], [*argv]
    index = 0
    while index < len(remaining) and remaining[index].startswith("-") and remaining[index] != "--":
        name, equals, value = remaining[index].partition("=")
        if name == "--host":
            hosts.append(value if equals else "".join(remaining[index + 1 : index + 2]))
            del remaining[index : index + 1 if equals else index + 2]
        else:
            index += 1
    if len(hosts) > 1 or "" in hosts:
        raise UsageError("--host takes the name of one machine", hint="rltui --host gpubox")
    return "".join(hosts), remaining
