"""`rltui down` ends everything of an experiment, whoever else wants that too."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rltui import paths
from rltui.base.text import count_text, join_words
from rltui.client import launch
from rltui.client.reader import ExperimentReader
from rltui.client.transports.unix import SupervisorGoneError, Wire
from rltui.core import hints
from rltui.core.experiment.api import Down, Plan, Request, Status
from rltui.core.experiment.rights import Act
from rltui.errors import RltuiError
from rltui.services import processes
from rltui.services.actor import actor
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.intent import IntentFile
from rltui.services.experiment.leases import users_of
from rltui.services.experiment.registry import find_socket
from rltui.services.experiment.rights import require
from rltui.services.processes import ProcessId, orphans, termination

_PLAN_S = 10.0
"""A supervisor that takes longer hangs."""
_SHIM_MARGIN_S = 15.0
"""Beyond its grace, a shim gets this long to end a tree."""

Tell = Callable[[dict[str, Any]], object]
"""Takes every status there is on the way."""


def shut_down(record: ExperimentRecord, report: Tell) -> Down:
    """End all that belongs to `record`, its supervisor last. Returns how that came out.

    The supervisor carries it out whatever becomes of this process, once it was asked. Where none can be
    started, as on a disk that is read-only, all is ended from here.

    Raises:
        RltuiError: if the supervisor dies over it, or does not exit afterwards.
    """
    completed = Down(by=actor().text, actor=actor(), at=time.time(), complete=True)
    try:
        wire = launch.connect(record)
        if wire is None:
            if not ExperimentReader(record).orphans():
                launch.clear_away(record)
                return completed
            wire = launch.connect_or_start(record)
    except RltuiError as error:
        if launch.has_supervisor(record):
            raise
        require(Act("down", record.name), control=record.control.path)
        print(f"{error.title}; stopping the components directly", file=sys.stderr)
        survivors = asyncio.run(_end(record))
        try:
            launch.clear_away(record)
        except RltuiError as problem:
            print(f"its terminals remain: {problem}", file=sys.stderr)
        return completed.replace(left=survivors)
    with wire:
        is_agent = actor().is_agent
        wire.ask("shutdown")
        try:
            if not is_agent:  # which may be refused
                _watch(record, report)
            status = wire.answer()
        except SupervisorGoneError:
            wire.wait_for_end()
            down = IntentFile(record.control.intent_file).read().down
            if down is None or not down.complete:
                raise RltuiError(
                    f"the supervisor of {record.name} exited while stopping the components",
                    hint=f"to end the rest: {hints.DOWN(name=record.name)}",
                ) from None
            return down
        wire.wait_for_end()
    return Down.from_plain(status["down"]) if status.get("down") else completed


async def _end(record: ExperimentRecord) -> tuple[str, ...]:
    """End what runs, by its shims where they live, in reverse order. Returns what still lives, and why."""
    control, layout = record.control, layout_files.load_for(record)
    order = layout.start_order()
    for name in reversed(order):
        attempts = control.attempts(name)
        attempt = processes.read_attempt(control.attempt_dir(name, attempts[-1])) if attempts else None
        if attempt is None or attempt.shim is None or not attempt.is_supervised:
            continue
        for number in (signal.SIGTERM, signal.SIGCONT):
            processes.send_signal(attempt.shim, number)
        try:
            async with asyncio.timeout(layout[name].stop.grace_s + _SHIM_MARGIN_S):
                await termination.wait_for_exit(attempt.shim)
        except TimeoutError:
            await termination.end_processes(processes.descendants(attempt.shim.pid), grace_s=0.0)
            await termination.end_processes([attempt.shim], grace_s=0.0)
    leftovers = [leftover.id for leftover in orphans.find_leftovers(record, control, order, living=())]
    return tuple(
        map(processes.survival_reason, await termination.end_processes(leftovers, grace_s=orphans.GRACE_S))
    )


@dataclass(frozen=True, slots=True)
class Footprint:
    """The processes, session and ports that a living experiment has outside its folder."""

    record: ExperimentRecord
    processes: frozenset[ProcessId]
    ports: frozenset[int]
    """Ports that these listen on."""

    @classmethod
    def of(cls, record: ExperimentRecord) -> Footprint:
        attempts = map(processes.read_attempt, record.control.newest_attempts())
        shims = [found.shim for found in attempts if found and found.shim and found.is_supervised]
        members = {*shims, *(each for shim in shims for each in processes.descendants(shim.pid))}
        by_pid = processes.listening_ports([member.pid for member in members])
        return cls(record, frozenset(members), frozenset(port for found in by_pid.values() for port in found))

    def left(self) -> list[str]:
        """Name what is still there. A port that another process has taken meanwhile is not."""
        from rltui.services.tmux import TmuxHost

        orphans = ExperimentReader(self.record).orphans()
        holders = [(port, holder) for port in self.ports for holder in processes.port_holders(port)]
        session = paths.tmux_session(self.record.name)
        texts = [f"pid {process.pid}" for process in self.processes if processes.is_alive(process)]
        texts += [f"pid {orphan.pid}" for orphan in orphans]
        texts += [f"port {port}" for port, holder in holders if holder.process in (None, *self.processes)]
        texts += ["its supervisor"] if launch.has_supervisor(self.record) else []
        texts += [f"tmux session {session}"] if TmuxHost(paths.tmux_socket()).has_session(session) else []
        return list(dict.fromkeys(texts))


def plan_down(record: ExperimentRecord) -> Plan:
    """Plan what stops, what of the run is lost, and who loses its server."""
    try:
        wire = None if record.observed else launch.connect(record)
        if wire is None:
            return Plan(action="stop")
        with wire:
            answer = wire.call("plan", Request(action="stop").to_plain(), timeout_s=_PLAN_S)
            plan = Plan.from_plain(answer)
            evals = Status.from_plain(wire.call("status", timeout_s=_PLAN_S)).evals
    except RltuiError as error:  # whatever is wrong, it can be ended
        return Plan(action="stop", reasons=(f"what would be lost is unknown: {error.title}",))
    reasons = list(plan.reasons)
    if users := users_of(record):
        names = join_words([user.name for user in users])
        reasons.append(f"{names} cannot continue without its inference server")
    if waiting_count := len(evals):
        reasons.append(f"{count_text(waiting_count, 'evaluation')} will not run")
    return plan.replace(reasons=tuple(reasons))


def stop_idle_supervisor(record: ExperimentRecord) -> None:
    """End the supervisor of `record`, where there is one that has nothing to do.

    Raises:
        ConflictError: if something runs or is about to.
    """
    try:
        wire = Wire(find_socket(record))
    except SupervisorGoneError:
        return
    with wire:
        try:
            wire.call("shutdown", {"only_idle": True})
        except SupervisorGoneError:
            return
        wire.wait_for_end()


@contextlib.contextmanager
def visited_supervisor(record: ExperimentRecord) -> Iterator[Wire]:
    """A connection to its supervisor. One that had to be started, and then has nothing to do, ends again:
    a request may be refused, or only planned.
    """
    was_alive = launch.has_supervisor(record)
    try:
        with launch.connect_or_start(record) as wire:
            yield wire
    finally:
        if not was_alive:
            with contextlib.suppress(RltuiError):  # it has something to do, or has ended
                stop_idle_supervisor(record)


def _watch(record: ExperimentRecord, report: Tell) -> None:
    """Report each status until the supervisor hangs up; without a second connection, none."""
    try:
        wire = Wire(find_socket(record))
    except RltuiError as error:
        print(f"cannot follow its progress: {error.title}", file=sys.stderr)
        return
    with wire:
        for status in wire.events("status"):
            report(status)
