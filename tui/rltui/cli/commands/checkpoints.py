"""`checkpoints`: what the run can go back to, and what of it may go."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from rltui.cli.arguments import JSON, NAME_OR_FIRST, YES, positive, steps
from rltui.cli.choosing import choose_experiment
from rltui.cli.command import Arguments, argument, command, flag, section
from rltui.cli.consent import require_consent
from rltui.cli.output import print_json
from rltui.cli.table import print_view
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.core.text import size_text, steps_text, unknown_name
from rltui.errors import ConflictError, UsageError
from rltui.services.runs.experiment_files import ExperimentRecord
from rltui.views.checkpoint import VIEW, checkpoint_summary, prune_rows, restore_rows, set_aside_texts
from rltui.views.plan import rows_text

if TYPE_CHECKING:
    from rltui.core.checkpoints import CheckpointReport, Retention

_COLUMNS = VIEW.named(("step", "age", "reward", "eval", "parts", "size", "attempt", "note"))


@command(
    "checkpoints",
    flag("--prune", "delete old ones; the plan is shown first"),
    argument(
        "--restore",
        "STAMP",
        "bring back what a restart has set aside, and set aside what was written since",
        completes="set_aside",
    ),
    section(
        "what --prune keeps, besides the newest and the best",
        argument("--keep-last", "N", "the newest N (default: 3)", type=positive),
        argument("--keep-every", "N", "those of multiples of N", type=positive),
        argument("--keep", "STEP,…", "those of these steps", type=steps, default=(), completes="checkpoints"),
        flag("--set-aside", "also delete what restarts have set aside"),
    ),
    flag("--plan", "only print what would be done"),
    YES,
    *NAME_OR_FIRST,
    JSON,
)
def checkpoints(arguments: Arguments) -> int:
    from rltui.client.reader import ExperimentReader
    from rltui.core.experiment_api import ExperimentApi
    from rltui.services.runs.observed import refuse_observed

    record = choose_experiment(arguments.experiment or arguments.name)
    retention = _retention(arguments)
    if arguments.restore is not None:
        return _restore(record, arguments)
    wire = launch.connect(record)
    try:
        if wire is None:
            report = ExperimentReader(record).checkpoints()
        else:
            report = wire.request(ExperimentApi.checkpoints)
        if retention is None:
            _print(report, as_json=arguments.json)
            return 0
        refuse_observed(record)
        return _prune(record, wire, report, retention, arguments)
    finally:
        if wire is not None:
            wire.close()


def _retention(arguments: Arguments) -> Retention | None:
    """The rule for what to keep; `None` where nothing is to be deleted."""
    from rltui.core.checkpoints import Retention

    values: dict[str, Any] = {
        "keep_last": arguments.keep_last,
        "keep_every": arguments.keep_every,
        "keep": arguments.keep or None,
        "archive": arguments.set_aside or None,
    }
    fields = {name: value for name, value in values.items() if value is not None}
    if arguments.prune:
        return Retention(**fields)
    if fields or (arguments.plan and arguments.restore is None):
        option = f"--{'set-aside' if 'archive' in fields else [*fields, 'plan'][0].replace('_', '-')}"
        raise UsageError(f"{option} says nothing without --prune", hint=str(hints.PRUNE_PLAN))
    return None


def _print(report: CheckpointReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    now = time.time()
    if report.checkpoints:
        print_view(_COLUMNS, report.checkpoints[::-1], now)
    print("\n".join([*checkpoint_summary(report), *set_aside_texts(report)]))


def _restore(record: ExperimentRecord, arguments: Arguments) -> int:
    """Bring back what a restart has set aside. A supervisor that has nothing to do is sent away for it.

    Raises:
        ConflictError: if something runs, or as `ExperimentReader.bring_back`.
    """
    from rltui.client.down import stop_idle_supervisor
    from rltui.client.reader import ExperimentReader
    from rltui.services.runs.observed import refuse_observed

    refuse_observed(record)
    archives = {entry.name: entry for entry in ExperimentReader(record).checkpoints().set_aside}
    if (archive := archives.get(arguments.restore)) is None:
        raise unknown_name("set of files that was set aside", arguments.restore, archives)
    plan = rows_text(restore_rows(archive))
    if arguments.plan:
        sys.stdout.write(plan)
        return 0
    sys.stderr.write(plan)
    require_consent("restore-checkpoints", arguments, "bring it back?")
    try:
        stop_idle_supervisor(record)
    except ConflictError as error:
        hint = f"end it first: {hints.DOWN(name=record.name)}; nothing was moved"
        raise ConflictError(error.title, hint=hint) from error
    ExperimentReader(record).bring_back(archive.name)
    report = ExperimentReader(record).checkpoints()
    if arguments.json:
        print_json(report)
    else:
        steps = steps_text([entry.step for entry in report.complete]) or "none"
        print(f"{archive.name} is back; complete checkpoints: {steps}")
        print(f"to go on from the newest: {hints.START(component=(), name=record.name)}", file=sys.stderr)
    return 0


def _prune(
    record: ExperimentRecord,
    wire: Wire | None,
    report: CheckpointReport,
    retention: Retention,
    arguments: Arguments,
) -> int:
    from rltui.client.reader import ExperimentReader
    from rltui.core.checkpoints import prune_plan
    from rltui.core.experiment_api import ExperimentApi

    plan = prune_plan(report, retention)
    if arguments.plan or plan.is_empty:
        if arguments.json:
            print_json(plan)
        else:
            sys.stdout.write(rows_text(prune_rows(plan)))
        return 0
    sys.stderr.write(rows_text(prune_rows(plan)))
    require_consent("prune-checkpoints", arguments, "delete them?")
    only = [checkpoint.step for checkpoint in plan.delete]
    if wire is None:
        pruned_checkpoints = ExperimentReader(record).prune(retention, only)
    else:
        pruned_checkpoints = wire.request(ExperimentApi.prune, retention, tuple(only))
    if arguments.json:
        print_json(pruned_checkpoints)
    else:
        print(f"deleted; {size_text(pruned_checkpoints.frees_bytes)} are free again")
    return 0
