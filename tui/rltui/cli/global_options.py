"""Options of every command, before its name or behind it: `--color`, `--ascii`; and `--host`, before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast, get_args

from rltui.cli.colour import When
from rltui.cli.command import argument, flag, section
from rltui.core.text import unknown_name
from rltui.errors import UsageError

HELP = (
    section(
        "with every command, before it or behind",
        argument(
            "--color",
            "WHEN",
            "auto: on a terminal, unless NO_COLOR is set; always; never",
            choices=get_args(When),
        ),
        flag("--no-color", "as --color=never"),
        flag("--ascii", "no signs but those of ASCII"),
    ),
    section(
        "before any command",
        argument(
            "--host", "HOST", "on another machine, which ssh reaches; alone: the TUI here, on what is there"
        ),
    ),
)
"""Their help; they are taken out of a command line before it is parsed."""


class Looks(NamedTuple):
    """How output looks."""

    colours: When = "auto"
    is_ascii: bool = False


def looks_of(argv: Sequence[str]) -> tuple[Looks, list[str]]:
    """Split a command line into how the output is to look, and the other words. `--` ends the reading.

    Raises:
        UsageError: for another word than `--color` takes.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    looks, rest, words = Looks(), [], iter(argv[:end])
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--color":
            when = value if equals else next(words, "")
            if when not in get_args(When):
                raise unknown_name("--color", when, get_args(When))
            looks = looks._replace(colours=cast("When", when))
        elif word == "--no-color":
            looks = looks._replace(colours="never")
        elif word == "--ascii":
            looks = looks._replace(is_ascii=True)
        else:
            rest.append(word)
    return looks, [*rest, *argv[end:]]


def host_of(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The machine that a command is for (empty: this one), and the other words.

    It stands before the command: behind it, `--host` may be for a program that somebody starts.

    Raises:
        UsageError: where it is not said, or twice.
    """
    hosts, rest = [], [*argv]
    index = 0
    while index < len(rest) and rest[index].startswith("-") and rest[index] != "--":
        name, equals, value = rest[index].partition("=")
        if name == "--host":
            hosts.append(value if equals else "".join(rest[index + 1 : index + 2]))
            del rest[index : index + 1 if equals else index + 2]
        else:
            index += 1
    if len(hosts) > 1 or "" in hosts:
        raise UsageError("--host takes the name of one machine", hint="rltui --host gpubox")
    return "".join(hosts), rest
