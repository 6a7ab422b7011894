"""`gpus orphans`: what outlived its component, and what else holds GPU memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.base.text import duration, short_command
from rltui.cli.arguments import JSON, PLAN, RUN, YES
from rltui.cli.choosing import Target, choose, show_runs
from rltui.cli.colour import style
from rltui.cli.command import Arguments, argument, command
from rltui.cli.consent import require_consent, require_plan_consent, require_right
from rltui.cli.output import print_json
from rltui.cli.progress import call_after
from rltui.cli.table import Row, print_table, view_cells, view_shapes
from rltui.cli.waiting import request_plan, styled_plan_text
from rltui.client import launch
from rltui.client.transports.unix import Wire
from rltui.core import hints
from rltui.errors import RltuiError, UsageError
from rltui.services import processes
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.journal import journal_of
from rltui.services.experiment.registry import run_command
from rltui.services.hosts.job_status import JobStatus, read_job_status, write_job_status
from rltui.services.processes import ProcessId
from rltui.views.orphan import VIEW, evidence_text, orphan_text

if TYPE_CHECKING:
    from rltui.core.experiment.api import Orphan, OrphanReport, Plan, Request

_PROCESSES = VIEW.named(("pid", "process", "of", "age", "gpu memory", "ports"))
_ANSWER_S = 10.0
"""A supervisor that takes longer hangs; a reading of the GPUs may take as long again."""
_TIMEOUT_S = 30.0
"""A process that lives longer than this is stuck in the kernel, or another user's."""


@command(
    "gpus orphans",
    RUN,
    argument("--end", "PID", "end these processes (default: all); asks first", nargs="*", type=int),
    argument(
        "--forget",
        "COMPONENT",
        "treat a component on a lost machine as ended; asks first",
        completes="components",
    ),
    PLAN,
    YES,
    JSON,
    examples=(
        "gpus orphans",
        "gpus orphans --end",
    ),
)
def orphans(arguments: Arguments) -> int:
    from rltui.services.runs.observed import refuse_observed

    if arguments.end is None and arguments.forget is None:
        return show_runs(arguments, partial(_show, arguments))
    record = choose(arguments, acts=True).record
    refuse_observed(record)
    if arguments.forget is not None:
        return _forget(record, arguments)
    with launch.connected(record) as wire:
        ended_orphans = _free_offline(record, arguments) if wire is None else _free(wire, record, arguments)
    if arguments.plan:
        return 0
    if arguments.json:
        print_json(_report(record).replace(ended=ended_orphans))
    else:
        for orphan in ended_orphans:
            print(f"ended {orphan_text(orphan)}")
    return 0


def _show(arguments: Arguments, target: Target) -> None:
    _list(_report(target.record), as_json=arguments.json)


def _report(record: ExperimentRecord) -> OrphanReport:
    """Read the processes from the supervisor; search for them where nothing of the experiment is alive."""
    from rltui.client.reader import ExperimentReader
    from rltui.core.experiment.api import OrphanReport, Status
    from rltui.core.gpu.report import GpuReport
    from rltui.services.gpu.account import read_once
    from rltui.services.processes.orphans import foreign_processes

    with launch.connected(record) as wire:
        if wire is None:
            gpus = read_once(record.name)
            leftover = ExperimentReader(record).orphans(gpus)
        else:
            leftover = Status.from_plain(wire.call("status", timeout_s=_ANSWER_S)).orphans
            gpus = GpuReport.from_plain(wire.call("gpus", timeout_s=2 * _ANSWER_S))
    elsewhere = {name: _where(remote) for name, (_, remote) in _unfollowed_jobs(record).items()}
    strangers = foreign_processes(gpus, leftover)
    return OrphanReport(experiment=record.name, orphans=leftover, strangers=strangers, elsewhere=elsewhere)


def _unfollowed_jobs(record: ExperimentRecord) -> dict[str, tuple[Path, JobStatus]]:
    """Component → folder of what may go on on another machine, which nobody here follows any more."""
    jobs = {}
    for folder in record.control.newest_attempts():
        remote, attempt = read_job_status(folder), processes.read_attempt(folder)
        if remote is not None and remote.may_live and (attempt is None or attempt.living_main is None):
            jobs[folder.parent.name] = folder, remote
    return jobs


def _where(remote: JobStatus) -> str:
    since = f", silent for {duration(time.time() - remote.lost_at)}" if remote.lost_at is not None else ""
    return f"{remote.where}{since}"


def _forget(record: ExperimentRecord, arguments: Arguments) -> int:
    """Take it for ended, so that it can be started again: the machine is gone for good."""
    name = arguments.forget
    jobs = _unfollowed_jobs(record)
    if name not in jobs:
        attempts = record.control.newest_attempts()
        followed_components = {
            folder.parent.name for folder in attempts if read_job_status(folder) is not None
        }
        raise UsageError(
            f"{name} has no lost job on another machine",
            hint=f"to stop it: {hints.STOP(components=name, name=record.name)}"
            if name in followed_components
            else f"lost jobs: {hints.ORPHANS(name=record.name)}",
        )
    folder, remote = jobs[name]
    print(
        f"{name} will be treated as ended: {_where(remote)}. If it still runs there, rltui will not notice.",
        file=sys.stderr,
    )
    if arguments.plan:
        return 0
    require_right("forget")
    require_consent("forget", arguments, "forget it?")
    try:
        write_job_status(folder, replace(remote, phase="ended", since=time.time(), error="it was given up"))
    except OSError as error:
        raise RltuiError(f"cannot write in {folder}: {error.strerror}") from error
    journal = journal_of(record)
    journal.add("orphan", f"{name} was given up, at {remote.where}", component=name)
    if arguments.json:
        print_json(_report(record))
    return 0


def _list(report: OrphanReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    if not report.orphans:
        print(f"{report.experiment} has no leftover process")
    _print_processes(report.orphans)
    for name, location in report.elsewhere.items():
        forget = run_command(hints.FORGET, report.experiment, component=name)
        print(f"{name} may still be running: {location}; if that machine is gone for good: {forget}")
    if report.strangers:
        free = run_command(hints.FREE, report.experiment)
        print(f"also on the GPU, but of no running component; to end one: {free}")
    _print_processes(report.strangers)


def _print_processes(leftover: Sequence[Orphan]) -> None:
    """A row for each, and below it how it was told to belong there, and the whole command."""
    rows: list[Row] = []
    for process in leftover:
        rows += view_cells(_PROCESSES, [process], 0.0)
        rows.append(style(f"  {evidence_text(process)}", "faint"))
        if process.command != short_command(process.command):
            rows.append(style(f"  {process.command}", "faint"))
    print_table(view_shapes(_PROCESSES), rows)


def _free(wire: Wire, record: ExperimentRecord, arguments: Arguments) -> tuple[Orphan, ...]:
    """End processes through the supervisor; returns those."""
    from rltui.core.experiment.api import Request

    request = Request(action="free", pids=tuple(arguments.end))
    plan = request_plan(wire, "plan", request)
    request_with_consent = _with_consent(plan, request, record, arguments)
    if plan.free and not arguments.plan:
        request_plan(wire, "execute", request_with_consent)
        _wait_until_done(wire, plan.free, record.name)
    return plan.free


def _free_offline(record: ExperimentRecord, arguments: Arguments) -> tuple[Orphan, ...]:
    """End processes of an experiment without a supervisor: one would find nothing to watch."""
    import asyncio

    from rltui.core.experiment.api import Plan, Request
    from rltui.core.experiment.plan import orphans_to_free
    from rltui.services.processes import orphans as leftovers

    request = Request(action="free", pids=tuple(arguments.end))
    report = _report(record)
    plan = Plan(action="free", free=orphans_to_free(request, report.orphans, report.strangers))
    _with_consent(plan, request, record, arguments)
    if arguments.plan:
        return ()
    journal = journal_of(record)
    if survivors := asyncio.run(leftovers.end(plan.free, journal, "on request")):
        raise _still_alive(survivors)
    return plan.free


def _with_consent(plan: Plan, request: Request, record: ExperimentRecord, arguments: Arguments) -> Request:
    """The request as it was agreed to: just what was shown, whatever has come since."""
    pids = {orphan.pid for orphan in plan.free}
    if strange := [pid for pid in arguments.end if pid not in pids]:
        raise UsageError(
            f"not a leftover of {record.name}: pid {strange[0]}",
            hint=f"list them: {hints.ORPHANS(name=record.name)}; other processes are never touched",
        )
    if arguments.plan and arguments.json:
        print_json(plan)
        return request
    stream = sys.stdout if arguments.plan else sys.stderr
    stream.write(styled_plan_text(plan) if plan.free else f"{record.name} has no leftover process\n")
    if arguments.plan:
        return request
    request_with_consent = require_plan_consent(plan, request, arguments, question="end them?")
    return request_with_consent.replace(pids=tuple(orphan.pid for orphan in plan.free))


def _wait_until_done(wire: Wire, leftover: Sequence[Orphan], name: str) -> None:
    try:
        with call_after(_TIMEOUT_S, wire.interrupt):
            for status in wire.events("status"):
                if not status.get("transaction"):
                    break
            else:
                raise RltuiError("the supervisor ended meanwhile", hint=f"check `{hints.ORPHANS(name=name)}`")
    except TimeoutError:
        raise _still_alive(_living(leftover)) from None
    if survivors := _living(leftover):
        raise _still_alive(survivors)


def _living(leftover: Sequence[Orphan]) -> list[Orphan]:
    return [orphan for orphan in leftover if processes.is_alive(ProcessId(orphan.pid, orphan.start))]


def _still_alive(survivors: Sequence[Orphan]) -> RltuiError:
    return RltuiError(
        f"cannot end all processes: {len(survivors)} left",
        details=[orphan_text(orphan) for orphan in survivors],
        hint="they belong to another user, or wait for a driver call and end once it returns",
    )
