"""`checkpoints`: what a run can go back to."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.base.text import steps_text, unknown_name
from rltui.cli.arguments import JSON, PLAN, RUN, YES, listing
from rltui.cli.choosing import Target, choose, show_runs
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.consent import require_consent
from rltui.cli.output import print_json, print_rows
from rltui.cli.table import print_view
from rltui.cli.waiting import request_plan, state_changes, styled_plan_text
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.errors import ConflictError, UsageError
from rltui.services.experiment.files import ExperimentRecord
from rltui.views.checkpoint import VIEW, checkpoint_summary, restore_rows, set_aside_texts
from rltui.views.plan import rows_text

if TYPE_CHECKING:
    from rltui.core.runs.checkpoints import CheckpointReport, SetAside
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
    *listing("only the newest checkpoints"),
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
        report = report_of(target.record, wire)
    if not arguments.json:
        print_report(report, as_json=False)
        return
    document: dict[str, Any] = report.to_plain()
    checkpoints = document.pop("checkpoints")
    print_rows(arguments, "checkpoints", checkpoints, head=document, keeps_last=True)


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
    argument(
        "stamp",
        "STAMP",
        "time of the restart, as `checkpoints list` shows it",
        nargs="?",
        completes="set_aside",
    ),
    flag("--set-aside", "the newest checkpoints set aside; a running run stops, and resumes from them"),
    PLAN,
    YES,
    JSON,
    examples=(
        "checkpoints restore demo --set-aside",
        "checkpoints restore demo 20261125-163000",
    ),
)
def restore(arguments: Arguments) -> int:
    """Bring back what a restart has set aside. A supervisor that has nothing to do is sent away for it, with
    `--set-aside` also one that has.

    Raises:
        ConflictError: if something runs, or as `ExperimentReader.bring_back`.
    """
    from rltui.client.down import plan_down
    from rltui.client.reader import ExperimentReader
    from rltui.core.experiment.api import Request
    from rltui.core.experiment.consent import loss_of_plan
    from rltui.services.runs.observed import refuse_observed

    if arguments.stamp is None and not arguments.set_aside:
        arguments.run, arguments.stamp = None, arguments.run
    record = choose(arguments, acts=True).record
    refuse_observed(record)
    archive = _archive(arguments, ExperimentReader(record).checkpoints().set_aside)
    stop = plan_down(record) if arguments.set_aside else None
    running = () if stop is None else stop.stop
    plan = rows_text(restore_rows(archive))
    loss = None
    if stop is not None and running:
        plan = styled_plan_text(stop) + plan
        loss = loss_of_plan(stop, Request(action="stop"))
    if arguments.plan:
        sys.stdout.write(plan)
        return 0
    sys.stderr.write(plan)
    require_consent("restore-checkpoints", arguments, "restore them?", loss=loss)
    _end_supervisor(record, ends=bool(running))
    ExperimentReader(record).bring_back(archive.name)
    report = ExperimentReader(record).checkpoints()
    if running:
        with launch.connect_or_start(record) as wire:
            request_plan(wire, "execute", Request(action="start", components=running))
    if arguments.json:
        print_json(report)
        return 0
    steps = steps_text([entry.step for entry in report.complete]) or "none"
    print(f"{archive.name} was restored; complete checkpoints: {steps}")
    if running:
        print(f"resuming from the newest; see: {hints.STATUS(name=record.name)}", file=sys.stderr)
    else:
        print(f"to resume from the newest: {hints.START(component=(), name=record.name)}", file=sys.stderr)
    return 0


def _archive(arguments: Arguments, sets: Sequence[SetAside]) -> SetAside:
    """The set of files that is meant.

    Raises:
        UsageError: if there is none.
    """
    if not arguments.set_aside:
        archives = {entry.name: entry for entry in sets}
        if (archive := archives.get(arguments.stamp)) is None:
            raise unknown_name("set-aside files", str(arguments.stamp), archives)
        return archive
    if arguments.stamp is not None:
        raise UsageError("--set-aside means the newest: leave STAMP out")
    if newest := [entry for entry in sets if entry.steps][-1:]:
        return newest[0]
    raise UsageError("no restart has set checkpoints aside")


def _end_supervisor(record: ExperimentRecord, *, ends: bool) -> None:
    """`ends`: the components that run are stopped for it.

    Raises:
        ConflictError: if something runs, and shall not end.
    """
    from rltui.client.down import shut_down, stop_idle_supervisor

    if ends:
        with state_changes() as changes:
            shut_down(record, changes.show)
        return
    try:
        stop_idle_supervisor(record)
    except ConflictError as error:
        hint = f"stop the run first: {hints.DOWN(name=record.name)}; nothing was moved"
        raise ConflictError(error.title, hint=hint, code=error.code) from error
