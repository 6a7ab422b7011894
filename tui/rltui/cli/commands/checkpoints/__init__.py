"""`checkpoints`: what a run can go back to."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.base.text import steps_text, unknown_name
from rltui.cli.arguments import JSON, PLAN, RUN, YES
from rltui.cli.choosing import Target, choose, show_runs
from rltui.cli.command import Arguments, argument, command
from rltui.cli.consent import require_consent
from rltui.cli.output import print_json
from rltui.cli.table import print_view
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.errors import ConflictError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.views.checkpoint import VIEW, checkpoint_summary, restore_rows, set_aside_texts
from rltui.views.plan import rows_text

if TYPE_CHECKING:
    from rltui.core.runs.checkpoints import CheckpointReport
    from rltui.core.runs.forks import CheckpointChoice

_COLUMNS = VIEW.named(("step", "age", "reward", "eval", "parts", "size", "attempt", "note"))
WEIGHTS = argument(
    "weights",
    "best|last|STEP|FOLDER",
    "a checkpoint of the run, or a folder of weights",
    completes="starts",
)


@command(
    "checkpoints list",
    RUN,
    JSON,
    examples=(
        "checkpoints",
        "checkpoints demo",
        "checkpoints demo --json",
    ),
)
def list_checkpoints(arguments: Arguments) -> int:
    return show_runs(arguments, partial(_list, arguments))


def _list(arguments: Arguments, target: Target) -> None:
    with launch.connected(target.record) as wire:
        print_report(report_of(target.record, wire), as_json=arguments.json)


def weights_choice(word: str) -> CheckpointChoice | Path:
    """A checkpoint, or a folder of weights."""
    from rltui.core.runs.forks import parse_checkpoint

    with suppress(UsageError):
        return parse_checkpoint(word)
    return Path(word).expanduser()


def report_of(record: ExperimentRecord, wire: Wire | None) -> CheckpointReport:
    """The checkpoints as the supervisor knows them; without one, as the files say."""
    from rltui.client.reader import ExperimentReader
    from rltui.core.experiment.questions import ExperimentApi

    return ExperimentReader(record).checkpoints() if wire is None else wire.request(ExperimentApi.checkpoints)


def print_report(report: CheckpointReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    now = time.time()
    if report.checkpoints:
        print_view(_COLUMNS, report.checkpoints[::-1], now)
    print("\n".join([*checkpoint_summary(report), *set_aside_texts(report)]))


@command(
    "checkpoints restore",
    RUN,
    argument("stamp", "STAMP", "time of the restart, as `checkpoints list` shows it", completes="set_aside"),
    PLAN,
    YES,
    JSON,
    examples=("checkpoints restore demo 20261125-163000",),
)
def restore(arguments: Arguments) -> int:
    """Bring back what a restart has set aside. A supervisor that has nothing to do is sent away for it.

    Raises:
        ConflictError: if something runs, or as `ExperimentReader.bring_back`.
    """
    from rltui.client.down import stop_idle_supervisor
    from rltui.client.reader import ExperimentReader
    from rltui.services.runs.observed import refuse_observed

    record = choose(arguments, acts=True).record
    refuse_observed(record)
    archives = {entry.name: entry for entry in ExperimentReader(record).checkpoints().set_aside}
    if (archive := archives.get(arguments.stamp)) is None:
        raise unknown_name("set-aside files", arguments.stamp, archives)
    plan = rows_text(restore_rows(archive))
    if arguments.plan:
        sys.stdout.write(plan)
        return 0
    sys.stderr.write(plan)
    require_consent("restore-checkpoints", arguments, "restore them?")
    try:
        stop_idle_supervisor(record)
    except ConflictError as error:
        hint = f"stop the run first: {hints.DOWN(name=record.name)}; nothing was moved"
        raise ConflictError(error.title, hint=hint) from error
    ExperimentReader(record).bring_back(archive.name)
    report = ExperimentReader(record).checkpoints()
    if arguments.json:
        print_json(report)
    else:
        steps = steps_text([entry.step for entry in report.complete]) or "none"
        print(f"{archive.name} was restored; complete checkpoints: {steps}")
        print(f"to resume from the newest: {hints.START(component=(), name=record.name)}", file=sys.stderr)
    return 0
