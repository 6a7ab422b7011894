"""`orphans`: list what outlived its component, and end it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rltui.cli.output import confirm, plan_text, print_json
from rltui.cli.status import orphan_text, read_status
from rltui.cli.waiting import limited
from rltui.client import launch, offline
from rltui.client.wire import Wire
from rltui.core.api import ORPHAN_EVIDENCE, Orphan, OrphanReport, Plan, Request
from rltui.core.command_text import short_command
from rltui.core.lines import plain_text
from rltui.daemon.journal import Journal
from rltui.errors import RltuiError, UsageError
from rltui.services import processes
from rltui.services.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.processes import ProcessId

GRACE_S = 5.0
"""From SIGTERM to SIGKILL."""
TIMEOUT_S = 30.0
"""After this, a process that still lives is stuck in the kernel, or another user's."""


def orphans(arguments: argparse.Namespace) -> int:
    """List them, or plan, ask, end them and say so."""
    record = launch.choose(arguments.experiment or arguments.name)
    if arguments.free is None:
        return _list(record, as_json=arguments.json)
    wire = launch.connect(record)
    if wire is None:
        ended = _free_offline(record, arguments)
    else:
        with wire:
            ended = _free(wire, record, arguments)
    if ended is None:
        print("nothing was done", file=sys.stderr)
        return 1
    if arguments.json:
        print_json(OrphanReport(experiment=record.name, orphans=_known(record), ended=ended))
    for orphan in () if arguments.json else ended:
        print(f"ended {orphan_text(orphan.model_dump())}")
    return 0


def _list(record: ExperimentRecord, *, as_json: bool) -> int:
    found = _known(record)
    if as_json:
        print_json(OrphanReport(experiment=record.name, orphans=found))
        return 0
    if not found:
        print(f"{record.name} has no leftover process")
    for orphan in found:
        print(orphan_text(orphan.model_dump()))
        print(f"  of that attempt: {ORPHAN_EVIDENCE[orphan.evidence]}")
        if orphan.command != short_command(orphan.command):
            print(f"  {plain_text(orphan.command)}")
    return 0


def _known(record: ExperimentRecord) -> tuple[Orphan, ...]:
    """From the supervisor; found anew where nothing of the experiment is alive."""
    return tuple(Orphan.model_validate(orphan) for orphan in read_status(record)["orphans"])


def _free(wire: Wire, record: ExperimentRecord, arguments: argparse.Namespace) -> tuple[Orphan, ...] | None:
    """What the supervisor ended; `None` where a person said no."""
    request = Request(action="free", pids=tuple(arguments.free))
    plan = Plan.model_validate(wire.call("plan", request.model_dump()))
    if not _agreed(plan, record, arguments):
        return None
    if plan.free:
        # Just what was shown, whatever has come since.
        pids = tuple(orphan.pid for orphan in plan.free)
        request = request.model_copy(update={"pids": pids})
        wire.call("execute", request.model_dump())
        _wait_until_gone(wire, plan.free)
    return plan.free


def _agreed(plan: Plan, record: ExperimentRecord, arguments: argparse.Namespace) -> bool:
    """Show the plan and ask.

    Raises:
        UsageError: for a pid that is none of the leftovers.
    """
    known = {orphan.pid for orphan in plan.free}
    if strange := [pid for pid in arguments.free if pid not in known]:
        raise UsageError(
            f"pid {strange[0]} is no leftover of {record.name}",
            hint="see which there are: rltui orphans; other processes are never touched",
        )
    sys.stderr.write(plan_text(plan) if plan.free else f"{record.name} has no leftover process\n")
    return not plan.free or arguments.yes or confirm("end them?")


def _wait_until_gone(wire: Wire, wanted: Sequence[Orphan]) -> None:
    """Return once the supervisor knows none of them any more."""
    ids = {(orphan.pid, orphan.start) for orphan in wanted}
    left = list(wanted)
    try:
        with limited(wire, TIMEOUT_S):
            for kind, status in wire.events():
                if kind == "status":
                    left = [
                        orphan
                        for orphan in map(Orphan.model_validate, status["orphans"])
                        if (orphan.pid, orphan.start) in ids
                    ]
                    if not left:
                        return
    except TimeoutError:
        raise _still_alive(left) from None
    raise RltuiError("the supervisor ended while we waited", hint="look with `rltui orphans`")


def _still_alive(left: Sequence[Orphan]) -> RltuiError:
    return RltuiError(
        f"{len(left)} cannot be ended",
        details=[orphan_text(orphan.model_dump()) for orphan in left],
        hint="another user's, or stuck in the kernel (a driver call): it ends when that call returns",
    )


def _free_offline(record: ExperimentRecord, arguments: argparse.Namespace) -> tuple[Orphan, ...] | None:
    """As `_free`, for an experiment of which nothing is alive: a supervisor would find nothing to watch."""
    found = offline.offline_orphans(record)
    plan = Plan(
        action="free",
        free=tuple(orphan for orphan in found if not arguments.free or orphan.pid in arguments.free),
    )
    if not _agreed(plan, record, arguments):
        return None
    ids = {ProcessId(orphan.pid, orphan.start): orphan for orphan in plan.free}
    if ids:
        pids = [orphan.pid for orphan in plan.free]
        named = ", ".join(f"pid {pid}" for pid in pids)
        path = ControlFolder(Path(record.output_dir)).journal_file
        journal = Journal(path, clock=time.time, listener=lambda _: None)
        journal.add("orphan", f"ending {named} on request", pids=pids)
        if left := asyncio.run(processes.end_processes(ids, grace_s=GRACE_S)):
            raise _still_alive([ids[process] for process in left])
    return plan.free
