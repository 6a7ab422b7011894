"""Command lines of prime-rl: `@ file`, section files, dotted overrides, as each generation takes them."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.prime_rl.generation import Generation, Tree, known_keys
from tests.fakes.prime_rl.lines import raise_uncaught, refuse_usage
from tests.fakes.prime_rl.trees import merge, set_at

_TABLES_OF_RL = ("trainer", "orchestrator", "inference")


@dataclass
class CommandLine:
    """A parsed command line, files and options apart: one generation resolves in between."""

    files: Tree = field(default_factory=dict)
    overrides: Tree = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def parse(generation: Generation, program: str, arguments: list[str]) -> CommandLine:
    """Read it; ends the process on wrong usage, with the generation's exit code."""
    line = CommandLine()
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        if argument == "@" and index + 1 < len(arguments):
            line.files = merge(line.files, _read(Path(arguments[index + 1])), deep=generation.deep_merge)
            index += 2
        elif argument.startswith("--"):
            index = _option(generation, program, arguments, index, line)
        else:
            line.unknown.append(argument)
            index += 1
    if line.unknown and not _reaches_vllm(generation, program, line.unknown):
        refuse_usage(generation.name, generation.usage_exit, program, line.unknown)
    return line


def _option(generation: Generation, program: str, arguments: list[str], index: int, line: CommandLine) -> int:
    """One option from `arguments[at]` on; the position behind it."""
    option, equals, joined = arguments[index].partition("=")
    key = option[2:].replace("-", "_")
    values = [joined] if equals else []
    behind = index + 1
    if not equals and arguments[behind : behind + 1] == ["@"] and behind + 1 < len(arguments):
        _section(generation, line, key, arguments[behind + 1])
        return behind + 2
    if not equals and generation.is_late and arguments[behind : behind + 1] and arguments[behind][0] == "@":
        _section(generation, line, key, arguments[behind][1:])
        return behind + 1
    if not equals:
        while behind < len(arguments) and not arguments[behind].startswith(("--", "@")):
            values.append(arguments[behind])
            behind += 1
            if not generation.deep_merge:
                break  # lists are comma-separated before the new config library
    negated = key.startswith("no_") and not values
    key = key.removeprefix("no_") if negated else key
    kind = _kind(generation, program, key)
    if kind is None:
        line.unknown += arguments[index:behind]
    elif not values:
        flag: Any = {} if kind == "table" else True
        set_at(line.overrides, key, (None if kind == "table" else False) if negated else flag)
    else:
        parsed = [_value(text) for text in values]
        set_at(line.overrides, key, parsed[0] if len(parsed) == 1 else parsed)
    return behind


def _section(generation: Generation, line: CommandLine, key: str, file: str) -> None:
    section: Tree = {}
    set_at(section, key, _read(Path(file)))
    line.files = merge(line.files, section, deep=generation.deep_merge)


def _kind(generation: Generation, program: str, key: str) -> str | None:
    """`table` or `value`; `None` for an option that the program does not know."""
    role = program
    first, _, rest = key.partition(".")
    if program in ("rl", "sft") and first in _TABLES_OF_RL and rest:
        role, key = first, rest
    elif program == "rl" and first in _TABLES_OF_RL:
        return "table"
    tables = known_keys(generation.name, role)
    if key in tables:
        return "table"
    above, _, last = key.rpartition(".")
    while above not in tables:
        above = above.rpartition(".")[0]
        last = "*"
    names = tables[above]
    return "value" if last in names or "*" in names else None


def _reaches_vllm(generation: Generation, program: str, unknown: list[str]) -> bool:
    """The first generation's server hands options that it does not know to vLLM."""
    return generation.name == "A1" and program == "inference" and unknown[0].startswith("--")


def _value(text: str) -> Any:
    if text == "None":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read(path: Path) -> Tree:
    try:
        text = path.read_text()
    except OSError as error:
        raise_uncaught(f"FileNotFoundError: {path}: {error.strerror}")
    try:
        tree: Tree = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise_uncaught(f"tomllib.TOMLDecodeError: {path}: {error}")
    return tree
