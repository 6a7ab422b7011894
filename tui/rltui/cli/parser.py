"""From the words of a command line to a command and its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from rltui.cli.command import Arguments, Command, HelpRequestedError, option_meant, split
from rltui.core import hints
from rltui.core.command_list import FORMER, SENTENCES, VERBS, is_command
from rltui.errors import UNKNOWN_COMMAND, RltuiError, UsageError

_CLOSE_VERB = 0.8
"""Similarity of a misspelt verb, from 0 to 1."""


def parse(argv: list[str]) -> Arguments:
    """Parse a command line; `handler` of the result runs it. Without a command, the arguments are
    those of `open`.

    Raises:
        UsageError: for words that no command knows, with those that may have been meant.
    """
    if argv[:1] and argv[0] in ("-h", "--help", "--version"):
        from rltui.cli.overview import print_overview, print_version

        return Arguments(handler=print_version if argv[0] == "--version" else print_overview)
    if not argv or not is_command(argv[0]):  # a name, a file, an option, or misspelt
        from rltui.cli.config_line import is_pasted

        is_config = bool(argv) and (argv[0].startswith("-") or is_pasted(argv))
        if argv and not is_config and not is_file_name(argv[0]):
            _refuse_unless_run(argv[0])
        argv = ["open", *argv]
    command, words = split(argv)
    if command.name in VERBS and words:
        _refuse_misspelt_verb(command.name, words[0])
    values: Mapping[str, object] = {}
    if command.grammar is not None:
        words, values = command.grammar(words, command.options)
    try:
        parsed, unknown = command.parse(words, Arguments(**values, typed_words=tuple(words)))
    except HelpRequestedError as request:
        from rltui.cli.command_help import print_help

        return Arguments(handler=partial(print_help, request.command))
    if unknown:
        raise unknown_words(command, unknown)
    return parsed


def unknown_words(command: Command, words: Sequence[str]) -> UsageError:
    """The error for words that no argument of the command takes; the first of them is named."""
    from rltui.base.text import unknown_name

    word, hint = words[0].partition("=")[0], hints.OPTIONS(command=command.name.split())
    if word.startswith("-"):
        noun, verb = command.name.split()[0], word.lstrip("-")
        if verb in VERBS.get(noun, ()):
            return UsageError(f"unknown option: {word}", hint=f"did you mean rltui {noun} {verb}?")
        guess = option_meant(word, command.options)
        return UsageError(f"unknown option: {word}", hint=f"did you mean {guess}?" if guess else hint)
    if former := FORMER.get(f"{command.name} {word}"):
        return UsageError(f"unknown verb: {word}", hint=f"did you mean rltui {former}?")
    if verbs := VERBS.get(command.name):
        return unknown_name("verb", word, verbs)
    return UsageError(f"unexpected argument: {word}", hint=hint)


def _refuse_misspelt_verb(noun: str, word: str) -> None:
    """Refuse `eval rn`, where `rn` is no run; what a command without a verb takes could be anything.

    Raises:
        UsageError: if it is refused.
    """
    from difflib import get_close_matches

    from rltui.cli.choosing import names_run

    verbs = get_close_matches(word, VERBS[noun], n=1, cutoff=_CLOSE_VERB)
    if verbs and not word.startswith("-") and not names_run(word):
        raise UsageError(f"unknown verb: {word}", hint=f"did you mean {verbs[0]}?")


def is_file_name(word: str) -> bool:
    """True if the word is a config file, or a folder of them, rather than a run. A known name counts before
    a file of that name in the working folder; `./NAME` is always the file.
    """
    if word.endswith(".toml"):
        return True
    from rltui.cli.choosing import names_run

    exists = Path(word).exists()
    return exists if "/" in word and exists else not names_run(word) and (exists or "/" in word)


def _refuse_unless_run(word: str) -> None:
    """Refuse a word that names nothing, such as a misspelt command.

    Raises:
        UsageError: if it is refused.
    """
    from rltui.cli.choosing import choose_named

    if word in FORMER:
        raise UsageError(f"{UNKNOWN_COMMAND}: {word}", hint=f"did you mean rltui {FORMER[word]}?")
    try:
        choose_named(word)
    except UsageError as error:
        if "not found" not in error.title:
            raise
        from rltui.base.text import did_you_mean
        from rltui.services.runs.index import RunIndex

        names: Iterable[str] = ()
        with suppress(RltuiError):  # a damaged one is told by those who need it
            names = RunIndex().names().values()
        guess = did_you_mean(word, dict.fromkeys((*SENTENCES, *names)))
        raise UsageError(
            f"{UNKNOWN_COMMAND}, run or file: {word}",
            hint=guess or f"commands: {hints.COMMANDS}; runs: {hints.RUNS}",
        ) from None
