"""`evals`: how good the model is, before, while and after it is trained."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rltui.cli.choosing import choose_experiment
from rltui.cli.table import Column, print_table
from rltui.client import launch
from rltui.core import hints
from rltui.core.evals import EvalReport, Evaluation, baseline, difference
from rltui.core.text import unknown
from rltui.services.runs.evaluations import EvalFolder
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import find_experiment, known_experiments
from rltui.views.evaluation import EVAL_HEAD, eval_cells, eval_summary

_GOES = {"cut off": 1, "on": 2, "when": 3, "failed": 4, "spread": 5, "asked": 6}
"""Columns that a narrow terminal does without: those with the highest number first."""


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
    print_report(report, arguments)
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


def print_report(report: EvalReport, arguments: argparse.Namespace, *, only: str = "") -> None:
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
