"""Command line grammar of prime-rl: `@ file.toml` as often as needed, then `--dotted.key value`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltui.tinyrl.errors import TinyrlError

_NULL_WORDS = frozenset({"none", "null"})


@dataclass(slots=True)
class Arguments:
    """The command line, read but not yet judged."""

    files: list[Path] = field(default_factory=list)
    overrides: dict[str, Any] = field(default_factory=dict)
    """By dotted key in snake case, in the order given."""
    wants_help: bool = False


def parse_value(text: str) -> object:
    """A TOML value where `text` is one, `None` for None and null, else the text itself."""
    if text.lower() in _NULL_WORDS:
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse_arguments(words: list[str]) -> Arguments:
    """Read the words after the program's name.

    Raises:
        TinyrlError: a word that is neither `@ file` nor an option.
    """
    arguments = Arguments()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in {"-h", "--help"}:
            arguments.wants_help = True
        elif word == "@":
            if not rest:
                raise TinyrlError("`@` needs a file after it: `@ rl.toml`")
            arguments.files.append(Path(rest.pop(0)))
        elif word.startswith("@"):
            raise TinyrlError(f"`{word}`: put a space after the at sign, `@ {word[1:]}`")
        elif word.startswith("--") and len(word) > 2:
            _add_override(arguments, word[2:], rest)
        else:
            raise TinyrlError(f"unexpected argument `{word}`: expected `@ file.toml` or `--some.key value`")
    return arguments


def _add_override(arguments: Arguments, option: str, rest: list[str]) -> None:
    key, equals, text = option.partition("=")
    key = key.replace("-", "_")
    if equals:
        arguments.overrides[key] = parse_value(text)
    elif rest and rest[0] != "@" and not rest[0].startswith("--"):
        arguments.overrides[key] = parse_value(rest.pop(0))
    else:
        parents, _, leaf = key.rpartition(".")
        negated = leaf.startswith("no_")
        leaf = leaf.removeprefix("no_")
        arguments.overrides[f"{parents}.{leaf}" if parents else leaf] = not negated
