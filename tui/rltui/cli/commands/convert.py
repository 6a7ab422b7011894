"""`convert`: the batch is counted in tokens or rollouts; or configs are written for something else."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.arguments import EDIT, RUN, tokens
from rltui.cli.choosing import choose
from rltui.cli.colour import style_diff, style_line
from rltui.cli.command import Arguments, argument, command, flag, hidden
from rltui.cli.consent import require_consent
from rltui.cli.edits import edit_experiment, edit_request
from rltui.cli.output import print_json
from rltui.cli.progress import working
from rltui.cli.table import room, wrap
from rltui.cli.terminal import prompt
from rltui.client import launch
from rltui.core import hints
from rltui.errors import ConfigError, UsageError
from rltui.services.experiment.files import ExperimentRecord

if TYPE_CHECKING:
    from rltui.core.config.report import BatchUnit, Conversion


_UNITS = ("tokens", "rollouts")
_RELEASES = (
    "Releases of prime-rl, whose configs differ: A: until January 2026, three files; B: until August 2026,"
    " one file; C: August 2026, run folders; D: since September 2026. A month will do as well:"
    " prime-rl@2026-05."
)


@command(
    "convert",
    RUN,
    argument(
        "what",
        "tokens|rollouts|CONFIG",
        "unit of the batch size; with --to, config files",
        nargs="*",
        completes="conversions",
    ),
    argument(
        "--to",
        "FRAMEWORK[@RELEASE]",
        "convert CONFIG… to this framework, or this release of it",
        completes="conversion_targets",
    ),
    argument(
        "--output",
        "FILE",
        "with --to: a new file (default: in place for a release, else next to CONFIG)",
        completes="files",
    ),
    flag("--force", "with --to: write it even if it is not valid"),
    hidden("--dry-run", action="store_true", dest="plan"),
    argument("--mean-tokens", "NUMBER", "mean tokens per rollout (default: as measured)", type=tokens),
    *EDIT,
    examples=(
        "convert demo tokens --mean-tokens 100 --plan",
        "convert --to prime-rl vf-rl.toml --plan",
        "convert --to prime-rl@D rl.toml --plan",
    ),
    epilog=_RELEASES,
)
def convert(arguments: Arguments) -> int:
    words = [word for word in (arguments.run, *arguments.what) if word is not None]
    if arguments.to is not None:
        return _write_for(arguments, words)
    way = words.pop() if words and words[-1] in _UNITS else None
    if len(words) > 1 or arguments.output is not None:
        raise UsageError(
            f"convert takes tokens or rollouts, not {words[-1] if len(words) > 1 else '--output'}",
            hint=f"a config for another framework: {hints.CONVERT_FILE}",
        )
    arguments.run = words[0] if words else None
    record = choose(arguments, acts=True).record
    conversion = _conversion(record, way, arguments.mean_tokens)
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


def _write_for(arguments: Arguments, names: list[str]) -> int:
    from rltui.client import converting
    from rltui.services.config.files import named
    from rltui.views.conversion import conversion_lines

    if not names or arguments.mean_tokens is not None or arguments.restart:
        raise UsageError("convert --to takes config files and no other option", hint=str(hints.CONVERT_FILE))
    paths = named([Path(name) for name in names])
    output = Path(arguments.output) if arguments.output else None
    with working("checking the result with the framework's own validators"):
        converted = converting.converted(paths, arguments.to, output)
    report = converted.report
    if arguments.json:
        print_json(report)
    else:
        print("\n".join(style_diff(report.diff.splitlines())) or "nothing to convert")
        for line in conversion_lines(report):
            print("\n".join(wrap(style_line(line), room("stderr"))), file=sys.stderr)
    written = [*converted.new, *(change.path for change in converted.changes)]
    if arguments.plan or not written:
        return 0 if report.valid else int(ConfigError.exit_code)
    if not report.valid and not arguments.force:
        raise ConfigError(
            "the converted config is not valid; nothing was written",
            hint="see the problems above; --force writes it all the same",
        )
    names_written = " and ".join(map(str, written))
    require_consent("convert", arguments, f"write {names_written}?")
    converting.write(converted)
    print(f"written: {names_written}", file=sys.stderr)
    for change in converted.changes:
        print(f"to undo it: {hints.UNDO_FILE(file=change.path)}", file=sys.stderr)
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
