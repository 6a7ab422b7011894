"""`eval`: how good the model is, before, while and after it is trained."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rltui.base.text import unknown_name
from rltui.cli.arguments import JSON, RUN, listing
from rltui.cli.choosing import Target, choose, names_run, separate_words, show_runs
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.output import print_rows
from rltui.cli.table import print_view
from rltui.client import launch
from rltui.core import hints
from rltui.errors import UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.registry import find_experiment, known_experiments, name_if_needed, run_command

if TYPE_CHECKING:
    from rltui.core.runs.evals import EvalReport, Evaluation

_COLUMNS = (
    "id", "what", "env", "examples", "reward", "std", "difference", "cut off", "failed", "when", "note",
)  # fmt: skip
_ID_OF_RUN = re.compile(r".+/\d+")
"""Id of an evaluation of another run: `demo/3`."""


@command(
    "eval list",
    RUN,
    flag("--all", "evaluations of all runs"),
    *listing("only the newest evaluations"),
    examples=(
        "eval",
        "eval list demo",
        "eval list demo --json",
    ),
)
def list_evals(arguments: Arguments) -> int:
    if arguments.all:
        print_report(_report_of_all(), arguments)
        return 0
    return show_runs(arguments, partial(_list, arguments))


def _list(arguments: Arguments, target: Target) -> None:
    print_report(_report(target.record), arguments)


@command(
    "eval compare",
    RUN,
    argument("id", "ID", "the baseline, then the evaluations to compare (default: all)", nargs="*"),
    JSON,
    examples=(
        "eval compare demo 1",
        "eval compare demo 2",
    ),
)
def compare(arguments: Arguments) -> int:
    separate_words(arguments, "id", lambda word: names_run(word) and not _ID_OF_RUN.fullmatch(word))
    if not arguments.id:
        raise UsageError(
            "no baseline to compare with", hint=f"{hints.EVALS(name=arguments.run)} lists their ids"
        )
    report = _report(choose(arguments, acts=True).record)
    reference, *others = [_evaluation_with_id(report.evaluations, id_) for id_ in arguments.id]
    if others:
        report = report.replace(evaluations=tuple(others))
    print_report(report, arguments, against=reference)
    return 0


@command(
    "eval cancel",
    RUN,
    argument("id", "ID", "id of the evaluation, as in `eval list`"),
    JSON,
    examples=("eval cancel demo 2",),
)
def cancel(arguments: Arguments) -> int:
    from rltui.core.experiment.questions import ExperimentApi
    from rltui.services.runs.evaluations import EvalFolder

    record = choose(arguments, acts=True).record
    with launch.connected(record) as wire:
        if wire is None:
            folder = EvalFolder(record.control)
            folder.cancel(arguments.id)
            report = folder.report(record.name)
        else:
            report = wire.request(ExperimentApi.cancel_eval, arguments.id)
    print_report(report, arguments)
    return 0


def _report_of_all() -> EvalReport:
    from rltui.core.runs.evals import EvalReport
    from rltui.services.runs.evaluations import EvalFolder

    reports = [_with_full_ids(EvalFolder(entry.control).report(entry.name)) for entry in known_experiments()]
    evaluations = sorted((entry for report in reports for entry in report.evaluations), key=attrgetter("at"))
    queue = tuple(entry for report in reports for entry in report.queue)
    return EvalReport(experiment="", evaluations=tuple(evaluations), queue=queue)


def _with_full_ids(report: EvalReport) -> EvalReport:
    """Prefix ids with the experiment's name, so that no other experiment has them: `demo/3`."""
    return report.replace(
        evaluations=tuple(
            entry.replace(id=f"{report.experiment}/{entry.id}", experiment=report.experiment)
            for entry in report.evaluations
        ),
        queue=tuple(entry.replace(id=f"{report.experiment}/{entry.id}") for entry in report.queue),
    )


def _evaluation_with_id(evaluations: Sequence[Evaluation], id_: str) -> Evaluation:
    """The one with that id; `NAME/3` is one of another experiment.

    Raises:
        UsageError: if there is none.
    """
    from rltui.services.runs.evaluations import EvalFolder

    name = id_.rpartition("/")[0]
    other_evaluations: Sequence[Evaluation] = ()
    if (record := find_experiment(name) if name else None) is not None:
        other_evaluations = _with_full_ids(EvalFolder(record.control).report(record.name)).evaluations
    match = next(
        (evaluation for evaluation in (*evaluations, *other_evaluations) if evaluation.id == id_), None
    )
    if match is None:
        raise unknown_name(
            "evaluation", id_, [evaluation.id for evaluation in (*evaluations, *other_evaluations)]
        )
    return match


def _report(record: ExperimentRecord) -> EvalReport:
    from rltui.core.experiment.questions import ExperimentApi
    from rltui.services.runs.evaluations import EvalFolder

    with launch.connected(record) as wire:
        if wire is None:
            return EvalFolder(record.control).report(record.name)
        return wire.request(ExperimentApi.evals)


def print_report(
    report: EvalReport, arguments: Arguments, *, against: Evaluation | None = None, only: str = ""
) -> None:
    """The table, or the document with the differences besides; of all of them, or of one.

    `against`: what they are compared with; by default the base model.
    """
    from rltui.views.evaluation import VIEW, compared, eval_summary

    evaluations = report.evaluations
    rows = [row for row in compared(evaluations, against) if only in ("", row.evaluation.id)]
    if arguments.json:
        visible_report = report.replace(evaluations=tuple(row.evaluation for row in rows))
        document: dict[str, Any] = visible_report.to_plain()
        differences = [
            {
                "id": row.evaluation.id,
                "experiment": row.evaluation.experiment,
                "to": row.to.id,
                "to_experiment": row.to.experiment,
                **row.difference.document(),
            }
            for row in rows
            if row.difference and row.to
        ]
        print_rows(
            arguments,
            "evaluations",
            document.pop("evaluations"),
            head={key: value for key, value in document.items() if not isinstance(value, list)},
            more={**{key: value for key, value in document.items() if isinstance(value, list)},
                  "differences": differences},
            keeps_last=True,
        )  # fmt: skip
        return
    is_of_several = len({evaluation.experiment for evaluation in evaluations}) > 1
    names = ("experiment", *_COLUMNS) if is_of_several else _COLUMNS
    print_view(VIEW.named(names), rows, time.time())
    name = name_if_needed(report.experiment) if report.experiment else None
    lines = eval_summary(report, name)
    if not evaluations and not lines:
        lines = [f"no evaluations yet; {_advice(report.experiment)}"]
    print("\n".join(lines)) if lines else None


def _advice(experiment: str) -> str:
    """Say how to start the first evaluation, or the reason why this run can have none; empty: of any run."""
    from rltui.core.runs.evals import COMPONENT, SERVER
    from rltui.services.experiment import layout_files

    record = find_experiment(experiment) if experiment else None
    if record is None:
        return f"start one: {hints.EVAL_BASE(name='RUN')}"
    if record.observed:
        return f"{experiment} is only observed, so rltui cannot evaluate it"
    components = {spec.id for spec in layout_files.load_for(record).component}
    if COMPONENT not in components:
        return f"{experiment} can have none: its layout has no component {COMPONENT} (see layouts/README.md)"
    ways = [hints.EVAL_NOW] if SERVER not in components else [hints.EVAL_BASE, hints.EVAL_NOW]
    return f"start one: {', or '.join(run_command(way, experiment) for way in ways)}"
