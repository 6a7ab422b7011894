"""`convert`: the same batch, counted in tokens or in rollouts."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout

from rltui.cli.edits import carry_out
from rltui.cli.parser import tokens
from rltui.cli.terminal import ask
from rltui.client import launch, offline
from rltui.core.api import Request
from rltui.core.batch import Way
from rltui.core.config_report import Conversion
from rltui.errors import ConfigError
from rltui.services.runs.experiment_files import ExperimentRecord


def convert(arguments: argparse.Namespace) -> int:
    """Print the arithmetic, and write the edits unless it is a dry run."""
    record = launch.choose(arguments.name)
    found = _conversion(record, arguments.to, arguments.mean_tokens)
    if found.mean_tokens is None:
        found = _conversion(record, found.to, _asked_mean(found))
    request = Request(action="set", edits=found.edits, restart=arguments.restart)
    if not arguments.json:
        print("\n".join((_origin(found), *found.arithmetic)))
        return _carry_out(record, request, arguments)
    with redirect_stdout(sys.stderr):
        code = _carry_out(record, request, arguments)
    print(found.model_dump_json())
    return code


def _carry_out(record: ExperimentRecord, request: Request, arguments: argparse.Namespace) -> int:
    return carry_out(record, request, dry_run=arguments.dry_run, as_json=False, yes=arguments.yes)


def _origin(found: Conversion) -> str:
    return f"a rollout has {found.mean_tokens:g} tokens, {found.measured or 'as you say'}"


def _conversion(record: ExperimentRecord, to: Way | None, mean_tokens: float | None) -> Conversion:
    wire = launch.connect(record)
    if wire is None:
        return offline.offline_conversion(record, to, mean_tokens)
    with wire:
        answer = wire.call("convert", {"to": to, "mean_tokens": mean_tokens})
        return Conversion.model_validate(answer)


def _asked_mean(found: Conversion) -> float:
    """What a person answers.

    Raises:
        ConfigError: if there is nobody to ask, or the answer is no number above 0.
    """
    if not sys.stdin.isatty():
        raise ConfigError(
            "this run has not measured the tokens of a rollout",
            hint=f"say it: rltui convert {found.to} --mean-tokens N, prompt and completion together",
        )
    try:
        return tokens(ask("tokens of a mean rollout, prompt and completion together?"))
    except argparse.ArgumentTypeError as error:
        raise ConfigError(str(error), hint="nothing was converted") from error
