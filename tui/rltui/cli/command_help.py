"""The help of a command: its sentence, how it is typed, examples, and its options by heading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rltui.cli.arguments import GENERAL
from rltui.cli.colour import style
from rltui.cli.command import Argument, Arguments, Command, Declared, Group
from rltui.cli.table import room, width_of, wrap
from rltui.core import hints
from rltui.core.command_list import VERBS
from rltui.errors import EXIT_MEANINGS

PAGES = Path(__file__).parent / "help"
"""Files of the pages of `rltui help`; the number in `10-start.txt` is its place in the list."""
_WIDTH, _WIDEST = 80, 100
"""Cells of a line where no terminal says it, and of the longest lines that are easy to read."""
_WIDEST_NAME = 26
"""Cells of an option whose text begins on the same line."""
_MOST_EXAMPLES = 3
"""Of a command with verbs."""


def print_help(command: Command, _: Arguments) -> int:
    print(help_text(command), end="")
    return 0


def help_text(command: Command, *, with_page: bool = True) -> str:
    """`with_page`: name the page of help that has the command's name, where there is one."""
    width = help_width()
    has_page = with_page and any(PAGES.glob(f"*-{command.name}.txt"))
    page = [f"See also: {hints.HELP_PAGE(page=command.name)}"] if has_page else []
    lines = [*wrap(command.description, width), "", *wrap(f"Usage: {usage(command)}", width)]
    if verbs := VERBS.get(command.name):
        lines += _examples(_examples_of_verbs(command))
        lines += section_lines("verbs", verbs.items(), width)
        first = f"Default verb: {next(iter(verbs))}"
        lines += ["", first, f"Options of a verb: {hints.HELP_VERB(noun=command.name)}", *page]
        return "\n".join(lines) + "\n"
    lines += argument_lines("", command.positionals, width)[1:]
    lines += _examples(command.examples)
    for heading, options in options_by_heading(command.declared).items():
        lines += argument_lines(heading, options, width)
    for group in command.declared:
        if isinstance(group, Group) and group.page:
            lines += ["", style(f"{_title(group.title)} {hints.HELP_PAGE(page=group.page)}", "head")]
    if command.epilog:
        lines += ["", *wrap(command.epilog, width)]
    if page:
        lines += ["", *page]
    return "\n".join(lines) + "\n"


def help_width() -> int:
    return min(room() or _WIDTH, _WIDEST)


def options_text(group: Group) -> str:
    """The options of a group, for the page of help that has them."""
    return "\n".join(argument_lines("", group.arguments(), _WIDTH)[1:])


def exit_code_lines() -> list[str]:
    return [f"  {int(code):<4} {text}" for code, text in EXIT_MEANINGS.items()]


def usage(command: Command) -> str:
    if command.name in VERBS:
        return f"rltui {command.name} [VERB] [options]"
    places = [f"[{word.typed}]" if word.nargs in ("?", "*") else word.typed for word in command.positionals]
    return " ".join((f"rltui {command.name}", *places, "[options]"))


def _title(heading: str) -> str:
    return f"{heading[:1].upper()}{heading[1:]}:"


def _examples_of_verbs(command: Command) -> list[str]:
    """One example per verb as far as there is room, then others of the first verb."""
    by_verb = [verb.examples for verb in command.verbs]
    return [*(examples[0] for examples in by_verb if examples), *by_verb[0][1:]][:_MOST_EXAMPLES]


def _examples(lines: Iterable[str]) -> list[str]:
    parts = (line.partition("  # ") for line in lines)
    return _part("examples", [f"  {style(f'rltui {line}', 'key')}{sign}{text}" for line, sign, text in parts])


def _part(heading: str, lines: Sequence[str]) -> list[str]:
    return ["", *([style(_title(heading), "head")] if heading else []), *lines] if lines else []


def argument_lines(heading: str, arguments: Iterable[Argument], width: int) -> list[str]:
    return section_lines(heading, ((item.typed, item.text) for item in arguments), width)


def section_lines(heading: str, rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Names beside their texts; a name that is too long has a line of its own."""
    pairs = [*rows]
    fitting = [width_of(name) for name, _ in pairs if width_of(name) <= _WIDEST_NAME]
    column = max(fitting, default=0) + 4
    lines = []
    for name, text in pairs:
        first, *further = wrap(f"{' ' * column}{text}", width)
        if width_of(name) > _WIDEST_NAME:
            lines += [f"  {style(name, 'key')}", first, *further]
        else:
            gap = " " * (column - 2 - width_of(name))
            lines += [f"  {style(name, 'key')}{gap}{first.lstrip()}", *further]
    return _part(heading, lines)


def options_by_heading(declared: Iterable[Declared]) -> dict[str, list[Argument]]:
    """The options that a help lists, without those of a group that has a page."""
    options: dict[str, list[Argument]] = {"options": []}
    for item in declared:
        if isinstance(item, Group) and item.page:
            continue
        for argument in item.arguments():
            if argument.is_option and not argument.is_hidden:
                options.setdefault(argument.heading, []).append(argument)
    general = options.pop(GENERAL, [])
    return {**options, GENERAL: general}
