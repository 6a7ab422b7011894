"""`eval`, `evals`: how good the model is, before, while and after it is trained."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rltui.cli.choosing import choose_experiment
from rltui.cli.progress import Waiting
from rltui.cli.table import Column, print_table
from rltui.client import launch
from rltui.client.by_hand import tokens
from rltui.client.wire import Wire
from rltui.core import hints
from rltui.core.evals import EvalReport, EvalRequest, EvalTarget, Evaluation, QueuedEval, baseline, difference
from rltui.core.text import unknown, whole_number
from rltui.errors import ExitCode, RltuiError, UsageError
from rltui.services.runs.evaluations import EvalFolder
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import find_experiment, known_experiments, name_if_needed
from rltui.wording import EVAL_HEAD, eval_cells, eval_summary

_GOES = {"cut off": 1, "on": 2, "when": 3, "failed": 4, "spread": 5, "asked": 6}
"""Columns that a narrow terminal does without: those with the highest number first."""


def evaluate(arguments: argparse.Namespace) -> int:
    """Ask for one, and follow it on stderr until it has ended; or give the standing order."""
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
    needed = name_if_needed(record.name)
    with launch.reach(record) as wire:
        if arguments.every is not None:
            params = {"every": arguments.every, "request": request.model_dump()}
            _print(EvalReport.model_validate(wire.call("order_evals", params)), arguments)
            return 0
        wire.call("tokens", tokens())
        queued = QueuedEval.model_validate(wire.call("evaluate", request.model_dump()))
        if not arguments.wait or arguments.when_done:
            told = f"{queued.id}: {queued.label} is in the queue; {hints.EVALS(name=needed)} shows it"
            print(queued.model_dump_json() if arguments.json else told)
            return 0
        try:
            ended = _followed(wire, queued)
        except KeyboardInterrupt:
            print(f"it goes on; {hints.EVALS_CANCEL(id=queued.id, name=needed)} ends it", file=sys.stderr)
            return int(ExitCode.INTERRUPTED)
    found = next((each for each in ended.evaluations if each.id == queued.id), None)
    if found is None:
        raise RltuiError(f"{queued.label} was cancelled")
    _print(ended.model_copy(update={"queue": (), "every": 0}), arguments, only=queued.id)
    return 0 if found.is_sound else int(ExitCode.COMPONENT_FAILED)


def _numbers(given: Iterable[str]) -> tuple[str | None, int]:
    """`-n` is the experiment everywhere, and the number of examples for evaluators: a number is that."""
    name, examples = None, EvalRequest().num_examples
    for word in given:
        if (count := whole_number(word)) is not None and find_experiment(word) is None:
            if not (examples := count):
                raise UsageError("-n 0: no examples are no evaluation")
        else:
            name = word
    return name, examples


def _target(arguments: argparse.Namespace) -> EvalTarget:
    if arguments.checkpoint is not None:
        return EvalTarget(kind="checkpoint", step=arguments.checkpoint)
    if arguments.model is not None:
        folder = Path(arguments.model)
        return EvalTarget(kind="model", model=str(folder.absolute()) if folder.is_dir() else arguments.model)
    return EvalTarget(kind="base" if arguments.base else "sft" if arguments.sft else "now")


def _followed(wire: Wire, queued: QueuedEval) -> EvalReport:
    """Tell how it goes until it has ended, or somebody took it from the queue: all there are then."""
    shown, begun = "", time.monotonic()
    with Waiting() as waiting:
        for kind, value in wire.events():
            if kind != "status":
                continue
            now = next(
                (QueuedEval.model_validate(each) for each in value["evals"] if each["id"] == queued.id), None
            )
            if now is None:
                break
            if now.words != shown:
                shown = now.words
                waiting.tell(now.id, f"{now.label}: {shown}", since=begun)
        waiting.clear()
    with launch.reach(launch.choose(value["experiment"])) as again:
        return EvalReport.model_validate(again.call("evals"))


def evals(arguments: argparse.Namespace) -> int:
    record = None if arguments.all else choose_experiment(arguments.experiment or arguments.name)
    if record is None:
        reports = [_named(EvalFolder(_control(each)).report(each.name)) for each in known_experiments()]
        found = [each for report in reports for each in report.evaluations]
        queue = tuple(each for report in reports for each in report.queue)
        found.sort(key=lambda each: each.at)
        report = EvalReport(experiment="", evaluations=tuple(found), queue=queue)
    else:
        report = _report(record, arguments.cancel)
    _print(report, arguments)
    return 0


def _named(report: EvalReport) -> EvalReport:
    """With ids that no other experiment has: `demo/3`."""
    return report.model_copy(
        update={
            "evaluations": tuple(
                each.model_copy(
                    update={"id": f"{report.experiment}/{each.id}", "experiment": report.experiment}
                )
                for each in report.evaluations
            ),
            "queue": tuple(
                each.model_copy(update={"id": f"{report.experiment}/{each.id}"}) for each in report.queue
            ),
        }
    )


def _chosen(ended: Sequence[Evaluation], id_: str) -> Evaluation:
    """The one with that id; `NAME/3` is one of another experiment.

    Raises:
        UsageError: if there is none.
    """
    name = id_.rpartition("/")[0]
    others: Sequence[Evaluation] = ()
    if (record := find_experiment(name) if name else None) is not None:
        others = _named(EvalFolder(_control(record)).report(record.name)).evaluations
    found = next((each for each in (*ended, *others) if each.id == id_), None)
    if found is None:
        raise unknown("evaluation", id_, [each.id for each in (*ended, *others)])
    return found


def _report(record: ExperimentRecord, cancelled: str | None) -> EvalReport:
    wire = launch.connect(record)
    if wire is None:
        folder = EvalFolder(_control(record))
        if cancelled is not None:
            folder.cancel(cancelled)
        return folder.report(record.name)
    with closing(wire):
        answer = wire.call("evals") if cancelled is None else wire.call("cancel_eval", {"id": cancelled})
    return EvalReport.model_validate(answer)


def _control(record: ExperimentRecord) -> ControlFolder:
    return ControlFolder(Path(record.output_dir))


def _column(word: str) -> Column:
    is_text = word in ("what", "on", "note")
    return Column(
        word.upper(),
        is_right=word in ("spread", "cut off", "failed", "when"),
        least=12 if is_text else None,
        cut="middle" if word == "what" else "end",
        goes=_GOES.get(word, 0),
    )


def _print(report: EvalReport, arguments: argparse.Namespace, *, only: str = "") -> None:
    """The table, or the document with the differences besides; of all of them, or of one."""
    ended, against = report.evaluations, getattr(arguments, "against", None)
    chosen = None if against is None else _chosen(ended, against)
    compared = [(each, chosen or baseline(ended, each)) for each in ended]
    compared = [pair for pair in compared if only in ("", pair[0].id)]
    found = [(each, difference(each, to) if to and to != each else None, to) for each, to in compared]
    if arguments.json:
        shown = report.model_copy(update={"evaluations": tuple(each for each, *_ in found)})
        document: dict[str, Any] = shown.model_dump(mode="json")
        document["differences"] = [
            {
                "id": each.id,
                "experiment": each.experiment,
                "to": to.id,
                "to_experiment": to.experiment,
                **gap.document(),
            }
            for each, gap, to in found
            if gap and to
        ]
        print(json.dumps(document))
        return
    now = time.time()
    if ended:
        columns = [_column(word) for word in EVAL_HEAD]
        rows = [eval_cells(each, gap, to, now) for each, gap, to in found]
        if len({each.experiment for each in ended}) > 1:
            columns = [Column("EXPERIMENT", least=10, cut="middle"), *columns]
            rows = [(each.experiment, *row) for (each, *_), row in zip(found, rows, strict=True)]
        print_table(columns, rows)
    lines = eval_summary(report)
    if not ended and not lines:
        lines = [f"no evaluation yet: {hints.EVAL_BASE}, {hints.EVAL_NOW}"]
    print("\n".join(lines)) if lines else None
