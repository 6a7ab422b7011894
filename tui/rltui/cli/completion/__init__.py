"""`completion`: what a shell completes, from the parser and from what there is. Light: asked at each tab."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, get_args

from rltui.cli.colour import When
from rltui.cli.command import Argument, Command, load, split
from rltui.cli.completion import sources
from rltui.cli.completion.sources import TypedValues, Words
from rltui.cli.global_options import appearance_of, host_of
from rltui.core.command_list import SENTENCES
from rltui.errors import RltuiError

_SAFE = re.compile(r"[A-Za-z0-9_.,:/=@%+#-]+")
"""Words that no shell expands or splits."""
_WIDEST_HELP = 70
_BREAKS = re.compile(r"[=:]+")
"""Words by themselves to bash (COMP_WORDBREAKS), which completes what stands behind them."""
_GLOBAL_OPTIONS = {
    "--color": ", ".join(get_args(When)),
    "--no-color": "no colours",
    "--ascii": "ASCII only",
    "--quiet": "one line on what was done; on stderr only errors and questions",
    "--host": "on another machine",
}
_GLOBAL_VALUES: Mapping[str, Callable[[], Words]] = {
    "--color": lambda: [(when, "") for when in get_args(When)],
    "--host": sources.hosts,
}


_PATHS = ("files", "folders", "configs")
"""Sources of words that are files."""
_ASK_SHELL = ":files:"
"""Answer to a shell: complete the names of files yourself."""


class TypedLine(NamedTuple):
    command: Command
    values: TypedValues
    """Values so far, by `dest` of the argument; those of options and those without."""
    pending: Argument | None
    """The option whose value is being typed."""
    places: tuple[Argument, ...]
    """Return what the word being typed may be, if it is no option: a run, and what follows where none is
    named.
    """


def print_completion(shell: str, argv: Sequence[str]) -> None:
    """Print the script for a shell; or what fits the words, the last of which is being typed."""
    if not argv:
        print((Path(__file__).parent / f"rltui.{shell}").read_text(encoding="utf-8"), end="")
        return
    is_bash = shell == "bash"
    if is_bash:
        argv = _join_at_breaks(argv)
    words = candidates(argv)
    if not words and is_path(argv):
        print(_ASK_SHELL)
    start = max(argv[-1].rfind("="), argv[-1].rfind(":"), argv[-1].find("@", 1) - 1) + 1 if is_bash else 0
    for candidate, text in words:
        print(candidate[start:] if is_bash or not text else f"{candidate}\t{text}")


def candidates(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Words that may stand last in a command line, with their meaning; those that a shell would run are left
    out.
    """
    *before, last = argv
    with suppress(RltuiError, OSError, ValueError):  # a tab is no place for a complaint
        matches = {
            candidate: text for candidate, text in _candidates(before, last) if candidate.startswith(last)
        }
        return [
            (candidate, _short(text)) for candidate, text in matches.items() if _SAFE.fullmatch(candidate)
        ]
    return []


def _candidates(before: list[str], last: str) -> Iterator[tuple[str, str]]:
    for option, values in _GLOBAL_VALUES.items():
        if before[-1:] == [option] or last.startswith(f"{option}="):
            prefix = f"{option}=" if last.startswith(f"{option}=") else ""
            yield from ((f"{prefix}{value}", text) for value, text in values())
            return
    host, before = _split_off_host(before)
    if not before and last.startswith("-"):
        yield from _options(load("open"), last)
    elif not before:
        yield from SENTENCES.items()
        yield from () if host else sources.openable(last)
    elif "--" not in before:
        yield from _of_command(before, last, is_elsewhere=bool(host))


def _split_off_host(before: Sequence[str]) -> tuple[str, list[str]]:
    return host_of(appearance_of(before)[1])


def _of_command(before: Sequence[str], last: str, *, is_elsewhere: bool) -> Iterator[tuple[str, str]]:
    command, arguments = _split(before)
    line = _typed_line(command, arguments)
    if last.startswith("-") and "=" not in last and line.pending is None:
        yield from _options(command, last)
    elif not is_elsewhere:  # what it may be there is not known here
        if not arguments:
            yield from ((verb.name.rpartition(" ")[2], verb.text) for verb in command.verbs)
        for argument, before_value, value in _arguments_at(command, line, last):
            yield from (
                (f"{before_value}{word}", text) for word, text in _values(argument, value, line.values)
            )


def _split(before: Sequence[str]) -> tuple[Command, Sequence[str]]:
    return split(before) if before[0] in SENTENCES else (load("open"), before)


def _arguments_at(command: Command, line: TypedLine, last: str) -> Iterator[tuple[Argument, str, str]]:
    """Return the argument that the last word is a value of, the part of the word before it, and the value."""
    option, equals, value = last.partition("=")
    if line.pending is not None:
        yield line.pending, "", last
    elif last.startswith("-"):
        if equals and (argument := _option(command, option)) is not None:
            yield argument, f"{option}=", value
    else:
        yield from ((place, "", last) for place in line.places)


def is_path(argv: Sequence[str]) -> bool:
    """True if the last word may be any file: shells complete names that need quotes themselves."""
    *before, last = argv
    with suppress(RltuiError, OSError, ValueError):
        host, before = _split_off_host(before)
        if host or not before or "--" in before:
            return False
        command, arguments = _split(before)
        line = _typed_line(command, arguments)
        places = _arguments_at(command, line, last)
        return any(argument.completes in _PATHS for argument, _, _ in places)
    return False


def _values(argument: Argument, typed: str, values_so_far: TypedValues) -> Words:
    """Values that `argument` takes; behind a comma, where it takes several, a further one."""
    if argument.choices:
        return [(choice, "") for choice in argument.choices]
    if not argument.completes:
        return ()
    source: Callable[[str, TypedValues], Words] = getattr(sources, argument.completes)
    if not argument.metavar.endswith(",…") or "," not in typed:
        return source(typed, values_so_far)
    before, _, last = typed.rpartition(",")
    used_values = before.split(",")
    values = source(last, values_so_far)
    return [(f"{before},{value}", text) for value, text in values if value not in used_values]


def _typed_line(command: Command, arguments: Sequence[str]) -> TypedLine:
    values: TypedValues = {}
    pending_option: Argument | None = None
    positionals = command.positionals
    for arg in arguments:
        if pending_option is not None:
            values.setdefault(pending_option.dest, []).append(arg)
            pending_option = None
        elif arg.startswith("-") and arg != "-":
            name, equals, value = arg.partition("=")
            argument = _option(command, name)
            if argument is not None and equals:
                values.setdefault(argument.dest, []).append(value)
            elif argument is not None and argument.takes_value and argument.nargs not in ("?", "*"):
                pending_option = argument
        elif positionals:
            values.setdefault(positionals[0].dest, []).append(arg)
            if positionals[0].nargs not in ("*", "+"):
                positionals.pop(0)
    is_run = bool(positionals) and positionals[0].dest == "run" and positionals[0].nargs == "?"
    return TypedLine(command, values, pending_option, tuple(positionals[: 2 if is_run else 1]))


def _option(command: Command, name: str) -> Argument | None:
    return next((argument for argument in command.visible if name in argument.option_names), None)


def _options(command: Command, last: str) -> Iterator[tuple[str, str]]:
    """Options by their long names; by short ones where there is no long one, or only `-` is typed."""
    for argument in command.visible:
        names = [*argument.option_names]
        long = [name for name in names if name.startswith("--")]
        yield from ((name, argument.text) for name in (names if last == "-" or not long else long))
    yield from _GLOBAL_OPTIONS.items()


def _short(text: str) -> str:
    text = re.split(r"[;(:]", text, maxsplit=1)[0].strip()
    return text if len(text) <= _WIDEST_HELP else f"{text[: _WIDEST_HELP - 1]}…"


def _join_at_breaks(args: Iterable[str]) -> list[str]:
    """Words as they were typed: bash hands over `lr`, `=`, `1e-5`."""
    glued: list[str] = []
    is_open = False
    for arg in args:
        is_break = _BREAKS.fullmatch(arg) is not None
        is_release = glued[-2:-1] == ["--to"] and arg.startswith("@")  # elsewhere, a run: @best
        if glued and (is_break or is_open or is_release):
            glued[-1] += arg
        else:
            glued.append(arg)
        is_open = is_break
    return glued
