"""From the words of a command line to a command and its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rltui.cli.command import Arguments, Command, split
from rltui.cli.command_list import INTERNAL, SENTENCES, VERBS
from rltui.core import hints
from rltui.errors import RltuiError, UsageError

_MOST_NAMED = 8
"""Experiments that a refusal names, the newest."""


def parse(argv: list[str]) -> Arguments:
    """Parse a command line; `handler` of the result runs it. Without a command, the arguments are
    those of `open`.

    Raises:
        UsageError: for words that no command knows, with those that may have been meant.
    """
    if argv[:1] and argv[0] in ("-h", "--help", "--version"):
        from rltui.cli.overview import overview

        return overview().parse_args(argv)
    if not argv or argv[0] not in {*SENTENCES, *INTERNAL}:  # a name, a file, an option, or misspelt
        from rltui.cli.config_line import is_pasted

        is_config = bool(argv) and (argv[0].startswith("-") or is_pasted(argv))
        if argv and not is_config and not is_file_name(argv[0]):
            _refuse_unless_experiment(argv[0])
        argv = ["open", *argv]
    command, words = split(argv)
    values: Mapping[str, object] = {}
    if command.grammar is not None:
        words, values = command.grammar(words, command.options)
    parsed, unknown = command.parse(words, Arguments(**values))
    if unknown:
        raise _unknown(command, unknown)
    return parsed


def _unknown(command: Command, words: Sequence[str]) -> UsageError:
    from rltui.core.text import did_you_mean

    is_option = words[0].startswith("-")
    long_options = [option for option in command.options if option.startswith("--")]
    guess = did_you_mean(
        words[0].partition("=")[0], long_options if is_option else VERBS.get(command.name, ())
    )
    return UsageError(
        f"rltui {command.name} does not know {' '.join(words)}",
        hint=f"{guess} options: {hints.OPTIONS(command=command.name.split())}".strip(),
    )


def is_file_name(word: str) -> bool:
    """True if the word is a config file, or a folder of them, rather than an experiment or a run. A known
    name counts before a file of that name in the working folder; `./NAME` is always the file.
    """
    if word.endswith(".toml") or "/" in word:
        return True
    return Path(word).exists() and not _is_known(word)


def _is_known(word: str) -> bool:
    from rltui.services.runs.experiments import find_experiment
    from rltui.services.runs.index import RunIndex

    if find_experiment(word) is not None:
        return True
    with suppress(RltuiError):  # a damaged one is told by those who need it
        return bool(RunIndex().named(word))
    return False


def _refuse_unless_experiment(word: str) -> None:
    """Refuse a word that names nothing, such as a misspelt command.

    Raises:
        UsageError: if it is refused.
    """
    from rltui.core.text import did_you_mean, first_names
    from rltui.services.runs.experiments import known_experiments
    from rltui.services.runs.index import RunIndex

    if _is_known(word):
        return
    runs: list[str] = []
    with suppress(RltuiError):  # a damaged one is told by those who need it
        runs = RunIndex().names()
    names = [record.name for record in known_experiments()]
    known_names = f"experiments: {', '.join(first_names(names, _MOST_NAMED))}; " if names else ""
    run_count = f"{len(runs)} runs: {hints.RUNS}; " if len(runs) > len(names) else ""
    guess = did_you_mean(word, dict.fromkeys((*SENTENCES, *names, *runs)))
    raise UsageError(
        f"{word!r} is no command, no experiment, no run and no file",
        hint=f"{guess} {known_names}{run_count}commands: {hints.COMMANDS}; topics: {hints.HELP}".strip(),
    )
