"""`checkpoints`: what the run can go back to, and what of it may go."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from rltui.cli.choosing import choose_experiment
from rltui.cli.table import Column, print_table
from rltui.cli.terminal import confirm
from rltui.client import launch, offline
from rltui.client.wire import Wire
from rltui.core import hints
from rltui.core.checkpoints import CheckpointReport, PrunePlan, Retention, prune_plan
from rltui.core.text import size_text
from rltui.errors import UsageError
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.services.runs.observed import refuse_observed
from rltui.wording import CHECKPOINT_HEAD, checkpoint_cells, checkpoint_summary, prune_rows, rows_text

_COLUMNS = tuple(
    Column(
        word.upper(),
        is_right=word in ("step", "age", "size", "eval"),
        least=None if word else 24,
        goes={"parts": 3, "attempt": 2, "eval": 1}.get(word, 0),
    )
    for word in CHECKPOINT_HEAD
)


def checkpoints(arguments: argparse.Namespace) -> int:
    """List them; with `--prune`, plan, ask, delete and say so."""
    record = choose_experiment(arguments.experiment or arguments.name)
    retention = _retention(arguments)
    wire = launch.connect(record)
    try:
        report = _report(record, wire)
        if retention is None:
            _print(report, as_json=arguments.json)
            return 0
        refuse_observed(record)
        return _prune(record, wire, report, retention, arguments)
    finally:
        if wire is not None:
            wire.close()


def _retention(arguments: argparse.Namespace) -> Retention | None:
    """What to keep; `None` where nothing is to be deleted."""
    given: dict[str, Any] = {
        "keep_last": arguments.keep_last,
        "keep_every": arguments.keep_every,
        "keep": arguments.keep or None,
        "archive": arguments.set_aside or None,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    if arguments.prune:
        return Retention(**chosen)
    if chosen or arguments.plan:
        option = f"--{'set-aside' if 'archive' in chosen else [*chosen, 'plan'][0].replace('_', '-')}"
        raise UsageError(f"{option} says nothing without --prune", hint=str(hints.PRUNE_PLAN))
    return None


def _report(record: ExperimentRecord, wire: Wire | None) -> CheckpointReport:
    if wire is None:
        return offline.offline_checkpoints(record)
    return CheckpointReport.model_validate(wire.call("checkpoints"))


def _print(report: CheckpointReport, *, as_json: bool) -> None:
    if as_json:
        print(report.model_dump_json())
        return
    now = time.time()
    if report.checkpoints:
        rows = [checkpoint_cells(each, now) for each in reversed(report.checkpoints)]
        print_table(_COLUMNS, rows)
    print("\n".join(checkpoint_summary(report)))


def _prune(
    record: ExperimentRecord,
    wire: Wire | None,
    report: CheckpointReport,
    retention: Retention,
    arguments: argparse.Namespace,
) -> int:
    plan = prune_plan(report, retention)
    if arguments.plan or plan.is_empty:
        sys.stdout.write(f"{plan.model_dump_json()}\n" if arguments.json else rows_text(prune_rows(plan)))
        return 0
    sys.stderr.write(rows_text(prune_rows(plan)))
    if not arguments.yes and not sys.stdin.isatty():
        raise UsageError(
            "nobody is here to be asked, and what is deleted does not come back",
            hint="add --yes where that is meant; nothing was deleted",
        )
    if not arguments.yes and not confirm("delete them?"):
        print("nothing was deleted", file=sys.stderr)
        return 1
    only = [each.step for each in plan.delete]
    if wire is None:
        done = offline.offline_prune(record, retention, only)
    else:
        params = {"retention": retention.model_dump(), "only": only}
        done = PrunePlan.model_validate(wire.call("prune", params))
    print(
        done.model_dump_json() if arguments.json else f"deleted; {size_text(done.frees_bytes)} are free again"
    )
    return 0
