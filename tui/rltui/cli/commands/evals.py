"""`evals`: how good the model is, before, while and after it is trained."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from rltui.cli.arguments import JSON, NAME_OR_FIRST
from rltui.cli.choosing import choose_experiment
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.output import print_json
from rltui.cli.table import print_view
from rltui.client import launch
from rltui.core import hints
from rltui.core.text import unknown_name
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.experiments import find_experiment, known_experiments

if TYPE_CHECKING:
    from rltui.core.evals import EvalReport, Evaluation

_COLUMNS = (
    "id", "what", "on", "asked", "reward", "spread", "difference", "cut off", "failed", "when", "note",
)  # fmt: skip


@command(
    "evals",
    argument("--against", "ID", "differences to this one (default: to the base)"),
    flag("--all", "those of all experiments"),
    argument("--cancel", "ID", "take it from the queue, or end it"),
    *NAME_OR_FIRST,
    JSON,
)
def evals(arguments: Arguments) -> int:
    from rltui.core.evals import EvalReport
    from rltui.services.runs.evaluations import EvalFolder

    record = None if arguments.all else choose_experiment(arguments.experiment or arguments.name)
    if record is None:
        reports = [
            _with_full_ids(EvalFolder(entry.control).report(entry.name)) for entry in known_experiments()
        ]
        evaluations = [entry for report in reports for entry in report.evaluations]
        queue = tuple(entry for report in reports for entry in report.queue)
        evaluations.sort(key=lambda entry: entry.at)
        report = EvalReport(experiment="", evaluations=tuple(evaluations), queue=queue)
    else:
        report = _report(record, arguments.cancel)
    print_report(report, arguments)
    return 0


def _with_full_ids(report: EvalReport) -> EvalReport:
    """Prefix ids with the experiment's name, so that no other experiment has them: `demo/3`."""
    return report.model_copy(
        update={
            "evaluations": tuple(
                entry.model_copy(
                    update={"id": f"{report.experiment}/{entry.id}", "experiment": report.experiment}
                )
                for entry in report.evaluations
            ),
            "queue": tuple(
                entry.model_copy(update={"id": f"{report.experiment}/{entry.id}"}) for entry in report.queue
            ),
        }
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


def _report(record: ExperimentRecord, cancelled_id: str | None) -> EvalReport:
    from rltui.core.experiment_api import ExperimentApi
    from rltui.services.runs.evaluations import EvalFolder

    wire = launch.connect(record)
    if wire is None:
        folder = EvalFolder(record.control)
        if cancelled_id is not None:
            folder.cancel(cancelled_id)
        return folder.report(record.name)
    with closing(wire):
        if cancelled_id is None:
            return wire.request(ExperimentApi.evals)
        return wire.request(ExperimentApi.cancel_eval, cancelled_id)


def print_report(report: EvalReport, arguments: Arguments, *, only: str = "") -> None:
    """The table, or the document with the differences besides; of all of them, or of one."""
    from rltui.views.evaluation import VIEW, compared, eval_summary

    evaluations, against = report.evaluations, getattr(arguments, "against", None)
    reference = None if against is None else _evaluation_with_id(evaluations, against)
    rows = [row for row in compared(evaluations, reference) if only in ("", row.evaluation.id)]
    if arguments.json:
        visible_report = report.model_copy(update={"evaluations": tuple(row.evaluation for row in rows)})
        document: dict[str, Any] = visible_report.model_dump(mode="json")
        document["differences"] = [
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
        print_json(document)
        return
    is_of_several = len({evaluation.experiment for evaluation in evaluations}) > 1
    names = ("experiment", *_COLUMNS) if is_of_several else _COLUMNS
    print_view(VIEW.named(names), rows, time.time())
    lines = eval_summary(report)
    if not evaluations and not lines:
        lines = [f"no evaluation yet: {hints.EVAL_BASE}, {hints.EVAL_NOW}"]
    print("\n".join(lines)) if lines else None
