"""`completion`: what a shell completes, from the parser and from what there is. Light: asked at each tab."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rltui.cli import parser as command_line
from rltui.cli.arguments import host_of, looks_of
from rltui.cli.completion import sources
from rltui.cli.completion.sources import Words
from rltui.errors import RltuiError

_SAFE = re.compile(r"[A-Za-z0-9_.,:/=@%+#-]+")
"""Words that no shell expands or splits."""
_WIDEST_HELP = 70
_BREAKS = re.compile(r"[=:]+")
"""Words by themselves to bash (COMP_WORDBREAKS), which completes what stands behind them."""
_LOOKS = {
    "--color": "auto, always, never",
    "--no-color": "no colours",
    "--ascii": "no signs but ASCII's",
    "--host": "on another machine",
}


class TypedLine(NamedTuple):
    parser: argparse.ArgumentParser
    words: Words
    """Values so far, by `dest` of the argument; those of options and those without."""
    pending: argparse.Action | None
    """The option whose value is being typed."""
    place: argparse.Action | None
    """The argument without a name that is being typed."""


def completion(arguments: argparse.Namespace) -> int:
    """Print the script for a shell; or what fits the words that it has, the last of which is being typed."""
    if not arguments.word:
        print((Path(__file__).parent / f"rltui.{arguments.shell}").read_text(encoding="utf-8"), end="")
        return 0
    words = arguments.word
    is_bash = arguments.shell == "bash"
    if is_bash:
        words = _glued(words)
    behind = max(words[-1].rfind("="), words[-1].rfind(":")) + 1 if is_bash else 0
    for word, text in candidates(words):
        print(word[behind:] if is_bash or not text else f"{word}\t{text}")
    return 0


def candidates(words: Sequence[str]) -> list[tuple[str, str]]:
    """What may stand in the last place of a command line, with what it means; what is unsafe is left out."""
    *before, last = words
    with suppress(RltuiError, OSError, ValueError):  # a tab is no place for a complaint
        found = {word: text for word, text in _found(before, last) if word.startswith(last)}
        return [(word, _short(text)) for word, text in found.items() if _SAFE.fullmatch(word)]
    return []


def _found(before: list[str], last: str) -> Iterator[tuple[str, str]]:
    if before[-1:] == ["--color"] or last.startswith("--color="):
        prefix = "--color=" if last.startswith("--color=") else ""
        yield from ((f"{prefix}{when}", "") for when in _LOOKS["--color"].split(", "))
        return
    if before[-1:] == ["--host"] or last.startswith("--host="):
        prefix = "--host=" if last.startswith("--host=") else ""
        yield from ((f"{prefix}{host}", text) for host, text in sources.hosts())
        return
    if "--" in before:
        return
    host, before = host_of(looks_of(before)[1])
    name = before[0] if before else ""
    top, commands = command_line.build(name)
    if not before:
        yield from _options(commands.choices["open"] if last.startswith("-") else None, last)
        yield from (() if last.startswith("-") else command_line.commands_with_help(top))
        yield from (() if last.startswith("-") or host else sources.opened(last))
        return
    known = name in commands.choices
    parser = commands.choices[name] if known else command_line.build("open")[1].choices["open"]
    given = _given(parser, before[1:] if known else before)
    option, equals, _ = last.partition("=")
    if host and (given.pending is not None or not last.startswith("-") or equals):
        return  # what it may be there is not known here
    if given.pending is not None:
        yield from sources.values(given.pending, last, given.words)
    elif last.startswith("-") and equals:
        action = _option(given.parser, option)
        if action is not None:
            found = sources.values(action, last.removeprefix(f"{option}="), given.words)
            yield from ((f"{option}={word}", text) for word, text in found)
    elif last.startswith("-"):
        yield from _options(given.parser, last)
    elif isinstance(given.place, argparse._SubParsersAction):  # noqa: SLF001  (argparse has no public name)
        yield from ((each.dest, each.help or "") for each in given.place._choices_actions)  # noqa: SLF001
    elif given.place is not None:
        yield from sources.values(given.place, last, given.words)


def _given(parser: argparse.ArgumentParser, typed: Sequence[str]) -> TypedLine:
    words: Words = {}
    pending: argparse.Action | None = None
    places = [action for action in _actions(parser) if not action.option_strings]
    for at, word in enumerate(typed):
        if pending is not None:
            words.setdefault(pending.dest, []).append(word)
            pending = None
            continue
        if word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            action = _option(parser, name)
            if action is not None and equals:
                words.setdefault(action.dest, []).append(value)
            elif action is not None and action.nargs not in (0, "?", "*"):
                pending = action
            continue
        place = places[0] if places else None
        if isinstance(place, argparse._SubParsersAction):  # noqa: SLF001
            below = place.choices.get(word)
            return TypedLine(parser, words, None, None) if below is None else _given(below, typed[at + 1 :])
        if place is not None:
            words.setdefault(place.dest, []).append(word)
            if place.nargs not in ("*", "+"):
                places.pop(0)
    return TypedLine(parser, words, pending, places[0] if places else None)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [each for each in parser._actions if each.help != argparse.SUPPRESS]  # noqa: SLF001


def _option(parser: argparse.ArgumentParser, name: str) -> argparse.Action | None:
    return next((each for each in _actions(parser) if name in each.option_strings), None)


def _options(parser: argparse.ArgumentParser | None, last: str) -> Iterator[tuple[str, str]]:
    """Those with long names; short ones where that is all there is, or it is being typed."""
    for action in [] if parser is None else _actions(parser):
        long = [name for name in action.option_strings if name.startswith("--")]
        for name in action.option_strings if last == "-" or not long else long:
            yield name, action.help or ""
    yield from _LOOKS.items()


def _short(text: str) -> str:
    text = re.split(r"[;(:]", text.replace("%%", "%"), maxsplit=1)[0].strip()
    return text if len(text) <= _WIDEST_HELP else f"{text[: _WIDEST_HELP - 1]}…"


def _glued(words: Iterable[str]) -> list[str]:
    """Words as they were typed: bash hands over `lr`, `=`, `1e-5`."""
    found: list[str] = []
    is_open = False
    for word in words:
        is_break = _BREAKS.fullmatch(word) is not None
        if found and (is_break or is_open):
            found[-1] += word
        else:
            found.append(word)
        is_open = is_break
    return found
