"""`convert`: the batch is counted in tokens or rollouts; or a config is written for another framework."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.arguments import EDIT, RUN, tokens
from rltui.cli.choosing import choose
from rltui.cli.command import Arguments, argument, command
from rltui.cli.consent import require_consent
from rltui.cli.edits import edit_experiment, edit_request
from rltui.cli.output import print_json
from rltui.cli.terminal import prompt
from rltui.client import launch
from rltui.core import hints
from rltui.errors import ConfigError, ConflictError, UsageError
from rltui.services.experiment.files import ExperimentRecord

if TYPE_CHECKING:
    from rltui.core.config.report import BatchUnit, Conversion


_UNITS = ("tokens", "rollouts")


@command(
    "convert",
    RUN,
    argument(
        "what",
        "tokens|rollouts|CONFIG",
        "unit of the batch size; with --to, a config file",
        nargs="?",
        completes="conversions",
    ),
    argument(
        "--to",
        "FRAMEWORK",
        "convert CONFIG to this framework, in a new file",
        completes="frameworks",
    ),
    argument(
        "--output",
        "FILE",
        "with --to: the new file (default: next to CONFIG)",
        completes="files",
    ),
    argument("--mean-tokens", "NUMBER", "mean tokens per rollout (default: as measured)", type=tokens),
    *EDIT,
    examples=(
        "convert demo tokens --plan",
        "convert demo tokens --mean-tokens 100 --plan",
        "convert --to prime-rl vf-rl.toml --plan",
    ),
)
def convert(arguments: Arguments) -> int:
    if arguments.what is None and (arguments.to is not None or arguments.run in _UNITS):
        arguments.what, arguments.run = arguments.run, None
    if arguments.to is not None:
        return _write_for(arguments)
    if arguments.what not in (None, *_UNITS) or arguments.output is not None:
        raise UsageError(
            f"convert takes tokens or rollouts, not {arguments.what or '--output'}",
            hint=f"a config for another framework: {hints.CONVERT_FILE}",
        )
    record = choose(arguments, acts=True).record
    conversion = _conversion(record, arguments.what, arguments.mean_tokens)
    if conversion.mean_tokens is None:
        conversion = _conversion(record, conversion.to, _prompt_mean(conversion))
    request = edit_request("set", arguments, edits=conversion.edits)
    as_json, arguments.json = arguments.json, False
    if not as_json:
        mean = f"a rollout has {conversion.mean_tokens:g} tokens, {conversion.measured or 'as given'}"
        print("\n".join((mean, *conversion.arithmetic)))
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        code = edit_experiment(record, request, arguments)
    if as_json:
        print_json(conversion)
    return code


def _write_for(arguments: Arguments) -> int:
    from rltui.client import checking
    from rltui.services.config.files import named

    if arguments.what is None or arguments.mean_tokens is not None or arguments.restart:
        raise UsageError(
            "convert --to takes one config file and no other option", hint=str(hints.CONVERT_FILE)
        )
    (path,) = named([Path(arguments.what)])
    conversion = checking.converted(path, arguments.to, Path(arguments.output) if arguments.output else None)
    if arguments.json:
        print_json(conversion)
    else:
        print(conversion.diff, end="")
        for note in conversion.notes:
            print(f"note: {note}", file=sys.stderr)
        for problem in conversion.problems:
            print(f"{problem.severity}: {problem.text}", file=sys.stderr)
    new = Path(conversion.path)
    if arguments.plan:
        return 0 if conversion.valid else int(ConfigError.exit_code)
    if not conversion.valid:
        raise ConfigError(
            "the converted config is not valid; nothing was written", hint="see the problems above"
        )
    require_consent("convert", arguments, f"write {new}?")
    try:
        with new.open("x", encoding="utf-8") as file:
            file.write(conversion.text)
    except FileExistsError:
        raise ConflictError(f"{new} exists already", hint="name another file with --output") from None
    except OSError as error:
        raise ConfigError(f"cannot write {new}: {error.strerror}") from error
    print(f"written: {new}", file=sys.stderr)
    return 0


def _conversion(record: ExperimentRecord, way: BatchUnit | None, mean_tokens: float | None) -> Conversion:
    from rltui.client.reader import ExperimentReader
    from rltui.core.experiment.questions import ExperimentApi

    with launch.connected(record) as wire:
        if wire is None:
            return ExperimentReader(record).convert(way, mean_tokens)
        return wire.request(ExperimentApi.convert, way, mean_tokens)


def _prompt_mean(conversion: Conversion) -> float:
    if not sys.stdin.isatty():
        raise ConfigError(
            "this run has not measured the tokens of a rollout",
            hint=f"give it: {hints.CONVERT_MEAN(way=conversion.to)}, prompt and completion together",
        )
    try:
        return tokens(prompt("mean tokens per rollout, prompt and completion together?"))
    except argparse.ArgumentTypeError as error:
        raise ConfigError(str(error), hint="nothing was converted") from error
