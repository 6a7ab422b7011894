"""`eval`: the model is evaluated."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.arguments import JSON, WAIT, count, positive, step
from rltui.cli.choosing import choose_experiment
from rltui.cli.command import Arguments, argument, command, exclusive, flag, repeatable
from rltui.cli.commands.evals import print_report
from rltui.cli.output import print_json
from rltui.cli.progress import Waiting
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.core.text import parse_whole_number
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.frameworks.launchers.line import Options
from rltui.services.runs.experiments import find_experiment, name_if_needed

if TYPE_CHECKING:
    from rltui.core.evals import EvalReport, EvalTarget, QueuedEval


def _split_off_evaluator(argv: list[str], _: Options) -> tuple[list[str], Mapping[str, object]]:
    """Keep what follows `--` for the evaluator, also what looks like an option of ours."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], {"arguments": tuple(argv[end + 1 :])}


@command(
    "eval",
    argument("env", "ENV", "default: what the config trains on", nargs="?", default=""),
    exclusive(
        flag("--now", "what the server of the run has (the default)"),
        argument("--checkpoint", "STEP", "with a server of its own", type=step, completes="checkpoints"),
        argument("--model", "MODEL", "a folder of weights, or a name on the hub; likewise"),
        flag("--base", "the model that training began from; likewise"),
        flag("--sft", "what the SFT of this experiment made; likewise"),
    ),
    repeatable("-n", "N", "examples (default: 20); or the experiment's name", completes="experiments"),
    argument("-r", "R", "answers to each (default: 3)", type=positive, default=3),
    argument("--max-tokens", "T", "of an answer (default: the config's)", type=positive),
    flag("--when-done", "not before the run is done; returns at once"),
    argument("--every", "K", "from now on, one of K checkpoints as they come; 0: none", type=count),
    WAIT,
    argument("--name", "NAME", "which experiment (default: the one that runs)", completes="experiments"),
    JSON,
    epilog="What follows -- is for the evaluator itself: rltui eval -- --temperature 0.2",
    grammar=_split_off_evaluator,
)
def evaluate(arguments: Arguments) -> int:
    """Ask for one, and follow it on stderr until it has ended; or give the standing order."""
    from rltui.client.manual_components import tokens
    from rltui.core.evals import EvalRequest
    from rltui.core.experiment_api import ExperimentApi

    name, examples = _numbers(arguments.n)
    request = EvalRequest(
        target=_target(arguments),
        env=arguments.env,
        num_examples=examples,
        rollouts_per_example=arguments.r,
        max_tokens=arguments.max_tokens,
        arguments=arguments.arguments,
        when_done=arguments.when_done,
    )
    record = choose_experiment(arguments.name or name)
    name_option = name_if_needed(record.name)
    with launch.connect_or_start(record) as wire:
        if arguments.every is not None:
            print_report(wire.request(ExperimentApi.order_evals, arguments.every, request), arguments)
            return 0
        wire.call("tokens", tokens())
        queued_eval = wire.request(ExperimentApi.evaluate, request)
        if not arguments.wait or arguments.when_done:
            hint = f"{hints.EVALS(name=name_option)} shows it"
            message = f"{queued_eval.id}: {queued_eval.label} is in the queue; {hint}"
            if arguments.json:
                print_json(queued_eval)
            else:
                print(message)
            return 0
        try:
            report = _follow(wire, queued_eval)
        except KeyboardInterrupt:
            print(
                f"it goes on; {hints.EVALS_CANCEL(id=queued_eval.id, name=name_option)} ends it",
                file=sys.stderr,
            )
            return int(ExitCode.INTERRUPTED)
    evaluation_of_request = next(
        (evaluation for evaluation in report.evaluations if evaluation.id == queued_eval.id), None
    )
    if evaluation_of_request is None:
        raise RltuiError(f"{queued_eval.label} was cancelled")
    print_report(report.model_copy(update={"queue": (), "every": 0}), arguments, only=queued_eval.id)
    return 0 if evaluation_of_request.is_sound else int(ExitCode.COMPONENT_FAILED)


def _numbers(values: Iterable[str]) -> tuple[str | None, int]:
    """Read `-n` as the experiment's name, or as the number of examples where it is a number: evaluators call
    that `-n`.
    """
    from rltui.core.evals import EvalRequest

    name, examples = None, EvalRequest().num_examples
    for value in values:
        if (count := parse_whole_number(value)) is not None and find_experiment(value) is None:
            if not (examples := count):
                raise UsageError("-n 0: no examples are no evaluation")
        else:
            name = value
    return name, examples


def _target(arguments: Arguments) -> EvalTarget:
    from rltui.core.evals import EvalTarget

    if arguments.checkpoint is not None:
        return EvalTarget(kind="checkpoint", step=arguments.checkpoint)
    if arguments.model is not None:
        folder = Path(arguments.model)
        return EvalTarget(kind="model", model=str(folder.absolute()) if folder.is_dir() else arguments.model)
    return EvalTarget(kind="base" if arguments.base else "sft" if arguments.sft else "now")


def _follow(wire: Wire, queued_eval: QueuedEval) -> EvalReport:
    """Tell how it goes until it has ended, or somebody took it from the queue: all there are then."""
    from rltui.core.evals import QueuedEval
    from rltui.core.experiment_api import ExperimentApi

    progress, started_at = "", time.monotonic()
    with Waiting() as waiting:
        for status in wire.events("status"):
            current = next(
                (
                    QueuedEval.model_validate(entry)
                    for entry in status["evals"]
                    if entry["id"] == queued_eval.id
                ),
                None,
            )
            if current is None:
                break
            if current.words != progress:
                progress = current.words
                waiting.show(current.id, f"{current.label}: {progress}", since=started_at)
        waiting.clear()
    with launch.connect_or_start(launch.choose(status["experiment"])) as next_wire:
        return next_wire.request(ExperimentApi.evals)
