"""`eval run`: the model is evaluated."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.arguments import FROM, JSON, RUN, WAIT, after_dashes, count, positive
from rltui.cli.choosing import choose, separate_words
from rltui.cli.command import Arguments, argument, command, exclusive, flag, load
from rltui.cli.commands.eval import print_report
from rltui.cli.output import print_outcome
from rltui.cli.parser import unknown_words
from rltui.cli.progress import Waiting
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.errors import ExitCode, RltuiError
from rltui.services.experiment.registry import run_command

if TYPE_CHECKING:
    from rltui.core.runs.evals import EvalReport, EvalTarget, QueuedEval
    from rltui.services.experiment.files import ExperimentRecord


@command(
    "eval run",
    RUN,
    argument("env", "ENV", "environment (default: the one of the config)", nargs="*"),
    exclusive(
        flag("--now", "the current weights (default)"),
        FROM,
        argument("--model", "MODEL", "a folder of weights, or a model on the Hub", completes="folders"),
        flag("--base", "the model before training"),
        flag("--sft", "the model after SFT, before RL"),
    ),
    argument("--examples", "NUMBER", "number of examples (default: 20)", type=positive, default=20),
    argument("--rollouts", "NUMBER", "rollouts per example (default: 3)", type=positive, default=3),
    argument(
        "--max-tokens", "NUMBER", "maximum tokens per rollout (default: from the config)", type=positive
    ),
    flag("--when-done", "start after the run is done; return at once"),
    argument("--every", "NUMBER", "evaluate every NUMBERth checkpoint from now on; 0: none", type=count),
    WAIT,
    JSON,
    examples=(
        "eval run demo",
        "eval run demo --from best --examples 100",
        "eval run demo --base",
    ),
    epilog="Arguments after -- go to the evaluator: rltui eval run -- --temperature 0.2",
    grammar=after_dashes,
)
def run(arguments: Arguments) -> int:
    """Ask for one, and follow it on stderr until it has ended; or give the standing order."""
    from rltui.client.manual_components import tokens
    from rltui.core.experiment.questions import ExperimentApi
    from rltui.core.runs.evals import EvalRequest

    separate_words(arguments, "env")
    if len(arguments.env) > 1:
        raise unknown_words(load("eval run"), arguments.env[1:])
    record = choose(arguments, acts=True).record
    request = EvalRequest(
        target=_target(record, arguments),
        env="".join(arguments.env),
        num_examples=arguments.examples,
        rollouts_per_example=arguments.rollouts,
        max_tokens=arguments.max_tokens,
        arguments=arguments.rest,
        when_done=arguments.when_done,
    )
    with launch.connect_or_start(record) as wire:
        if arguments.every is not None:
            report = wire.request(ExperimentApi.order_evals, arguments.every, request)
            print_report(report, arguments)
            return 0
        wire.call("tokens", tokens())
        queued_eval = wire.request(ExperimentApi.evaluate, request)
        if not arguments.wait or arguments.when_done:
            text = (
                f"{queued_eval.id}: {queued_eval.label} is queued; {run_command(hints.EVALS, record.name)}\n"
            )
            print_outcome(queued_eval, text, as_json=arguments.json)
            return 0
        try:
            report = _follow(wire, queued_eval)
        except KeyboardInterrupt:
            cancel = run_command(hints.EVALS_CANCEL, record.name, id=queued_eval.id)
            print(f"the evaluation continues; to end it: {cancel}", file=sys.stderr)
            return int(ExitCode.INTERRUPTED)
    evaluation_of_request = next(
        (evaluation for evaluation in report.evaluations if evaluation.id == queued_eval.id), None
    )
    if evaluation_of_request is None:
        raise RltuiError(f"{queued_eval.label} was cancelled")
    report = report.replace(queue=(), every=0)
    print_report(report, arguments, only=queued_eval.id)
    return 0 if evaluation_of_request.is_sound else int(ExitCode.COMPONENT_FAILED)


def _target(record: ExperimentRecord, arguments: Arguments) -> EvalTarget:
    from rltui.client.reader import ExperimentReader
    from rltui.core.runs.evals import EvalTarget

    if arguments.begin is not None:
        return EvalTarget(kind="checkpoint", step=ExperimentReader(record).checkpoint_step(arguments.begin))
    if arguments.model is not None:
        folder = Path(arguments.model)
        return EvalTarget(kind="model", model=str(folder.absolute()) if folder.is_dir() else arguments.model)
    return EvalTarget(kind="base" if arguments.base else "sft" if arguments.sft else "now")


def _follow(wire: Wire, queued_eval: QueuedEval) -> EvalReport:
    """Tell how it goes until it has ended, or somebody took it from the queue: all there are then."""
    from rltui.core.experiment.questions import ExperimentApi
    from rltui.core.runs.evals import QueuedEval

    progress, started_at = "", time.monotonic()
    with Waiting() as waiting:
        for status in wire.events("status"):
            current = next(
                (QueuedEval.from_plain(entry) for entry in status["evals"] if entry["id"] == queued_eval.id),
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
