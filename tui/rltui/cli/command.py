"""A command is declared beside its function: `@command("status", NAME, JSON)`.

The parser, the pages of help, the manual page and completion read the declarations. A command lies in the
module of its name in `rltui.cli.commands`, its verbs beside it (`queue add` in `queue.py`); where they are
long, the command is a package, and a verb has a module of its own there (`runs compare` in
`runs/compare.py`). So a command line imports what it needs. These modules import little at their top: a tab
and `--help` import them too, for the declaration alone.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from rltui.base.text import unknown_name
from rltui.core import hints
from rltui.core.command_list import SENTENCES, VERBS, sentence_of
from rltui.errors import UsageError

_ENDING = {None: "", "?": "", "*": "…", "+": "…"}
"""Number of values, as argparse has it → the sign behind their name."""


class Declared(Protocol):
    """One argument, or a group of them."""

    def add_to(self, parser: argparse._ActionsContainer) -> None: ...

    def arguments(self) -> Iterator[Argument]: ...


class Argument(NamedTuple):
    """An option, or a word by its place."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]
    """Keyword arguments of argparse's `add_argument`."""
    completes: str = ""
    """Function of `completion/sources.py` that lists its possible values; empty: nobody can list them."""
    heading: str = "options"
    """Heading of an option in the help; options of several commands have the same one everywhere."""

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        parser.add_argument(*self.names, **self.settings)

    def arguments(self) -> Iterator[Argument]:
        yield self

    @property
    def dest(self) -> str:
        """Name of its value in the namespace."""
        long = next((name for name in self.names if name.startswith("--")), self.names[0])
        return str(self.settings.get("dest", long.lstrip("-").replace("-", "_")))

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")

    @property
    def is_hidden(self) -> bool:
        return self.text == argparse.SUPPRESS

    @property
    def text(self) -> str:
        return str(self.settings["help"])

    @property
    def metavar(self) -> str:
        return str(self.settings.get("metavar", ""))

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(self.settings.get("choices", ()))

    @property
    def nargs(self) -> str | None:
        """`?`, `*` or `+`; `None` for exactly one value."""
        nargs: str | None = self.settings.get("nargs")
        return nargs

    @property
    def typed(self) -> str:
        """The argument as a help writes it: `-l, --layout LAYOUT`, `--[no-]wait`, `CONFIG…`."""
        value = self.metavar or "|".join(self.choices)
        if not self.is_option:
            name = value or self.dest.upper()
            return name if name.endswith("…") else f"{name}{_ENDING[self.nargs]}"
        if not self.takes_value:
            first, *others = self.option_names
            is_switch = bool(others) and others[0].startswith("--no-")
            return f"--[no-]{first.removeprefix('--')}" if is_switch else ", ".join((first, *others))
        if self.nargs in ("?", "*"):
            value = f"[{value}{_ENDING[self.nargs]}]"
        elif self.nargs == "+":
            value += _ENDING[self.nargs]
        return f"{', '.join(self.names)} {value}".rstrip()

    @property
    def option_names(self) -> Iterator[str]:
        """Every name of the option; none for a word by its place."""
        for name in self.names:
            if name.startswith("-"):
                yield name
                if self.settings.get("action") is argparse.BooleanOptionalAction:
                    yield f"--no-{name.removeprefix('--')}"

    @property
    def takes_value(self) -> bool:
        return self.settings.get("action") not in (
            "store_true",
            "help",
            "version",
            argparse.BooleanOptionalAction,
        )


class Group(NamedTuple):
    """Arguments that have a heading of their own in the help; without a title, one at most can be given."""

    members: tuple[Declared, ...]
    title: str = ""
    page: str = ""
    """Page of help that has these options; empty: the help of the command."""

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        group = parser if self.title else parser.add_mutually_exclusive_group()
        for member in self.members:
            member.add_to(group)

    def arguments(self) -> Iterator[Argument]:
        for member in self.members:
            for item in member.arguments():
                yield item._replace(heading=self.title) if self.title else item


def flag(names: str, text: str, *, heading: str = "options", **settings: Any) -> Argument:  # noqa: ANN401 - as argparse
    return Argument((*names.split(),), {"action": "store_true", "help": text, **settings}, heading=heading)


def argument(
    names: str,
    metavar: str,
    text: str,
    *,
    completes: str = "",
    heading: str = "options",
    **settings: Any,  # noqa: ANN401 - as argparse
) -> Argument:
    """An option that takes a value, or a word that stands by itself."""
    return Argument((*names.split(),), {"metavar": metavar, "help": text, **settings}, completes, heading)


def choice(names: str, choices: tuple[str, ...], text: str, **settings: Any) -> Argument:  # noqa: ANN401
    return Argument((*names.split(),), {"choices": choices, "help": text, **settings})


def switch(name: str, text: str, *, heading: str = "options", **settings: Any) -> Argument:  # noqa: ANN401
    """An option that `--no-NAME` turns off."""
    settings = {"action": argparse.BooleanOptionalAction, "help": text, **settings}
    return Argument((name,), settings, heading=heading)


def repeatable(names: str, metavar: str, text: str, **settings: Any) -> Argument:  # noqa: ANN401
    return argument(names, metavar, text, action="append", default=[], **settings)


def hidden(name: str, **settings: Any) -> Argument:  # noqa: ANN401
    """An argument that no help names: for programs, or for users of an earlier release."""
    return Argument((name,), {"help": argparse.SUPPRESS, **settings})


def exclusive(*members: Declared) -> Group:
    return Group(members)


def section(title: str, *members: Declared, page: str = "") -> Group:
    return Group(members, title, page)


if TYPE_CHECKING:
    from rltui.frameworks.launchers.line import Options  # most commands need no launcher

    Grammar = Callable[[list[str], Options], tuple[list[str], Mapping[str, object]]]
    """Reads arguments that argparse cannot: (arguments behind the command's name, its options) → (arguments
    for argparse, further values of the namespace)."""

Arguments = argparse.Namespace
"""The value of each argument of a command line, by its `dest`."""
Handler = Callable[[Arguments], int]
"""Runs a command; returns its exit code."""
_NEWEST = re.compile(r"-\d+(/.*)?$|-\d*\.\d+$")
"""Words with a minus that are values: numbers, `-1` for the newest run, `-1/trainer`."""
_HELP = flag("-h --help", "show this help", action="help")
"""The option that argparse adds to every parser."""


class Command(NamedTuple):
    name: str
    """For a verb with the name of its command: `queue add`."""
    text: str
    """A sentence about it, without capital and full stop."""
    handler: Handler
    declared: tuple[Declared, ...]
    examples: tuple[str, ...] = ()
    """Command lines without `rltui`, with a comment of the shell where it needs one: `logs -f  # follow`."""
    epilog: str | None = None
    grammar: Grammar | None = None
    is_local: bool = False
    """It is about this machine, and not for another one that `--host` names."""

    @property
    def verbs(self) -> list[Command]:
        return [load(f"{self.name} {verb}") for verb in VERBS.get(self.name, ())]

    @property
    def arguments(self) -> list[Argument]:
        """All arguments, `--help` first."""
        return [_HELP, *(argument for item in self.declared for argument in item.arguments())]

    @property
    def visible(self) -> list[Argument]:
        """The arguments that a help names, `--help` first."""
        return [argument for argument in self.arguments if not argument.is_hidden]

    @property
    def positionals(self) -> list[Argument]:
        """The visible arguments that have no option name, in their order."""
        return [argument for argument in self.visible if not argument.is_option]

    @property
    def options(self) -> Options:
        return options_of(self.arguments)

    @property
    def description(self) -> str:
        return f"{self.text[0].upper()}{self.text[1:]}."

    def parse(self, words: list[str], values: Arguments) -> tuple[Arguments, list[str]]:
        """The values of these words, and the words that it does not know.

        Raises:
            UsageError: if they cannot be understood.
            HelpRequestedError: for `--help`, whatever else they are.
        """
        parser = CommandParser(self)
        values = argparse.Namespace(handler=self.handler, command_name=self.name, **vars(values))
        try:
            parse = parser.parse_known_args if "--" in words else parser.parse_known_intermixed_args
            values, unknown = parse(words, values)
        except argparse.ArgumentError as error:
            parser.error(_refusal(error))
        values.json = getattr(values, "json", False) or bool(getattr(values, "fields", None))
        if getattr(values, "full", False):
            values.limit = None
        return values, unknown


_FORMER_OPTIONS = {
    "--dry-run": "--plan",
    "--free": "--end",
    "--last": "--limit",
    "--lines": "--limit",
    "--resume-step": "--from",
    "--tail": "--limit",
    "-n": "--limit",
}
"""An option that people may type → the one that does it."""


def option_meant(name: str, options: Iterable[str], *, least: float = 0.7) -> str:
    """The option that a misspelt one most resembles, by at least `least` of 1; empty if none does."""
    from difflib import get_close_matches  # rarely needed

    names = {option.removeprefix("--"): option for option in options if option.startswith("--")}
    if _FORMER_OPTIONS.get(name) in names.values():
        return _FORMER_OPTIONS[name]
    matches = get_close_matches(name.lstrip("-"), names, n=1, cutoff=least)
    return names[matches[0]] if matches else ""


class HelpRequestedError(Exception):
    """The words ask for the help of a command."""

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.command = command


class CommandParser(argparse.ArgumentParser):
    """argparse, with refusals of our own. It prints nothing."""

    def __init__(self, command: Command) -> None:
        formatter = partial(argparse.HelpFormatter, width=80)  # who is told no width imports shutil, for 3 ms
        super().__init__(
            prog=f"rltui {command.name}", add_help=False, exit_on_error=False, formatter_class=formatter
        )
        self._command = command
        self._negative_number_matcher = _NEWEST  # what argparse takes for no option
        for item in (_HELP, *command.declared):
            item.add_to(self)

    def print_help(self, _: object = None) -> NoReturn:
        raise HelpRequestedError(self._command)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            name = next(reversed(action.option_strings), action.metavar or action.dest)
            raise unknown_name(f"value of {name}", str(value), map(str, action.choices))

    def error(self, message: str) -> NoReturn:
        if missing := re.match("the following arguments are required: (.*)", message):
            visible = {item.metavar for item in self._command.visible}
            message = f"missing: {', '.join(name for name in missing[1].split(', ') if name in visible)}"
        raise UsageError(message, hint=hints.OPTIONS(command=self._command.name.split()))


def _refusal(error: argparse.ArgumentError) -> str:
    """The words of argparse in ours: `argument --last: expected one argument` → `--last needs a value`."""
    name, message = (error.argument_name or "").rpartition("/")[2], str(error.message)
    if message.startswith("expected"):
        return f"{name} needs a value"
    if message.startswith("not allowed with"):
        return f"{name} cannot be combined with {message.rpartition(' ')[2].rpartition('/')[2]}"
    return f"{name}: {message}"


def options_of(declared: Iterable[Declared]) -> Options:
    arguments = (argument for item in declared for argument in item.arguments())
    return {name: item.takes_value for item in arguments for name in item.option_names}


_COMMANDS: dict[str, Command] = {}
"""Commands and verbs of the modules that are imported."""


def command(
    name: str,
    *declared: Declared,
    examples: tuple[str, ...] = (),
    epilog: str | None = None,
    grammar: Grammar | None = None,
    is_local: bool = False,
) -> Callable[[Handler], Handler]:
    """Declare the function below as `rltui NAME`, a command or a verb; `command_list.py` has its sentence."""
    settings = (examples, epilog, grammar, is_local)

    def declare(handler: Handler) -> Handler:
        _COMMANDS[name] = Command(name, sentence_of(name), handler, declared, *settings)
        return handler

    return declare


def load(name: str) -> Command:
    """The command or verb of that name; a command that has verbs does what its first verb does."""
    noun, _, verb = name.partition(" ")
    if not verb and (verbs := VERBS.get(noun)):
        return load(f"{noun} {next(iter(verbs))}")._replace(name=noun, text=SENTENCES[noun])
    if name not in _COMMANDS:
        importlib.import_module(f"rltui.cli.commands.{noun}")
    if name not in _COMMANDS:
        importlib.import_module(f"rltui.cli.commands.{noun}.{verb}")
    return _COMMANDS[name]


def split(words: Sequence[str]) -> tuple[Command, list[str]]:
    """The command or verb that a command line begins with, and the words after it."""
    noun, *rest = words
    if rest and rest[0] in VERBS.get(noun, ()):
        return load(f"{noun} {rest[0]}"), rest[1:]
    return load(noun), rest
