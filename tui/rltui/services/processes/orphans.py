"""Processes that outlived their attempt: found by the records of their shims, described by what they hold."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath

from rltui.base.text import short_command
from rltui.core.experiment.api import Orphan
from rltui.core.gpu.report import GpuProcess, GpuReport
from rltui.services import processes
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.journal import Journal
from rltui.services.experiment.registry import BrokenExperiment, listed_experiments
from rltui.services.processes import AttemptRecord, Leftover, ProcessId, termination
from rltui.services.processes.attempts import SHIM_PROGRAMS
from rltui.services.processes.identity import read_stat
from rltui.services.processes.origin import origin, read_evidence
from rltui.services.redaction import without_secrets

_NEWEST_ATTEMPTS = 20
"""Number of attempts of a component whose records are searched. Older ones are found by their tag alone."""
GRACE_S = 5.0
_NAMED_ORPHANS = 3
"""Number of processes named in one text."""


async def end(orphans: Sequence[Orphan], journal: Journal, reason: str) -> tuple[Orphan, ...]:
    """End just these processes, never another one that got the pid.

    Returns the survivors: another user's, or stuck in the kernel.
    """
    if not orphans:
        return ()
    journal.add(
        "orphan", f"ending {leftovers_text(orphans)} {reason}", pids=[orphan.pid for orphan in orphans]
    )
    ids = {ProcessId(orphan.pid, orphan.start): orphan for orphan in orphans}
    return tuple(ids[process] for process in await termination.end_processes(ids, grace_s=GRACE_S))


def leftovers_text(orphans: Sequence[Orphan]) -> str:
    """Text like `2 leftover processes of attempt 1: pid 4711 VLLM::EngineCore, …`."""
    names = [
        f"pid {orphan.pid} {short_command(orphan.command)}".rstrip() for orphan in orphans[:_NAMED_ORPHANS]
    ]
    if len(orphans) > _NAMED_ORPHANS:
        names.append("…")
    adjective = "" if all(orphan.evidence == "gpu" for orphan in orphans) else "leftover "
    noun = "process" if len(orphans) == 1 else "processes"
    attempts = {orphan.attempt for orphan in orphans}
    attempt_text = f" of attempt {orphans[0].attempt}" if len(attempts) == 1 and orphans[0].attempt else ""
    return f"{len(orphans)} {adjective}{noun}{attempt_text}: {', '.join(names)}"


def find_leftovers(
    record: ExperimentRecord, control: ControlFolder, components: Iterable[str], living: Collection[ProcessId]
) -> list[Leftover]:
    """Processes without a shim, and those that a living shim keeps after the main process ended.

    `living` names main processes that are supervised without a shim. Processes of other experiments and other
    people are never included. Reads all of `/proc`: some 15 µs per process of the box.
    """
    folders = [
        control.attempt_dir(name, number)
        for name in components
        for number in control.attempts(name)[-_NEWEST_ATTEMPTS:]
    ]
    records = processes.ProcessOwners().records(folders, record.tag)
    kept_by_shims = [
        leftover for attempt_record in records for leftover in processes.kept_leftovers(attempt_record)
    ]
    kept_ids = {leftover.id for leftover in kept_by_shims}
    strays = processes.leftovers(record.tag, records, exclude=living)
    return [*kept_by_shims, *(leftover for leftover in strays if leftover.id not in kept_ids)]


def described(leftovers: Sequence[Leftover], gpus: GpuReport) -> tuple[Orphan, ...]:
    """Add age, ports and GPU memory. Secrets in command lines are redacted."""
    orphans = (
        Orphan(
            pid=leftover.id.pid,
            start=leftover.id.start,
            command=leftover.command,
            component=leftover.component,
            attempt=leftover.attempt,
            evidence=leftover.evidence,
        )
        for leftover in leftovers
    )
    return _with_holdings(orphans, gpus)


def _with_holdings(orphans: Iterable[Orphan], gpus: GpuReport) -> tuple[Orphan, ...]:
    found = list(orphans)
    ports = processes.listening_ports([orphan.pid for orphan in found]) if found else {}
    return tuple(
        orphan.replace(
            command=without_secrets(orphan.command),
            age_s=processes.age_s(ProcessId(orphan.pid, orphan.start)),
            gpu_bytes=_gpu_bytes(orphan.pid, gpus),
            ports=ports.get(orphan.pid, ()),
        )
        for orphan in found
    )


def _gpu_bytes(pid: int, gpus: GpuReport) -> int | None:
    sizes = [
        process.used_bytes
        for device in gpus.devices
        if not device.host
        for process in device.processes
        if process.pid == pid and process.used_bytes is not None
    ]
    return sum(sizes) if sizes else None


_PROGRAM_ARGUMENTS = 8
"""Number of first arguments of a command line that may name the program."""


def foreign_processes(report: GpuReport, known: Collection[Orphan]) -> tuple[Orphan, ...]:
    """This user's processes on this machine's GPUs that are of no use to rltui, by pid.

    Includes processes that rltui did not start, and leftovers of other experiments. The report proposes
    candidates; that none of them belongs to rltui itself or to a living component is then checked for each.

    Args:
        report: with owners, see `GpuOwners`.
        known: leftovers of this experiment, which are not listed again.

    Raises:
        ConfigError: the record of an experiment is damaged: its processes cannot be recognised.
    """
    known_ids = {ProcessId(orphan.pid, orphan.start) for orphan in known}
    candidates = {
        process: listed for process, listed in _candidates(report).items() if process not in known_ids
    }
    if not candidates:
        return ()
    own_chain = set(processes.ancestors(os.getpid()))
    unshimmed = list(_attempts_without_shim())
    orphans = (
        Orphan(
            pid=process.pid,
            start=process.start,
            command=processes.command_line(process.pid) or listed.command,
            experiment=listed.experiment,
            component=listed.component,
            attempt=listed.attempt,
            evidence="environment" if listed.owner == "orphan" else "gpu",
        )
        for process, listed in sorted(candidates.items())
        if process.pid not in own_chain and _may_be_ended(process, unshimmed)
    )
    return _with_holdings(orphans, report)


def _candidates(report: GpuReport) -> dict[ProcessId, GpuProcess]:
    """Process → its entry at the first device that it is on."""
    by_process: dict[ProcessId, GpuProcess] = {}
    for device in report.devices:
        for process in device.processes:
            may_be = process.owner in ("mine", "orphan") and not process.estimated
            if not device.host and may_be and process.start is not None:
                by_process.setdefault(ProcessId(process.pid, process.start), process)
    return by_process


def _may_be_ended(process: ProcessId, unshimmed: Sequence[AttemptRecord]) -> bool:
    if not processes.is_alive(process) or processes.uid(process.pid) != os.getuid():
        return False
    chain = list(processes.ancestors(process.pid))
    source = origin(map(read_evidence, chain))
    if source is not None and source.lives:
        return False
    stat = read_stat(process.pid)
    if stat is None or any(_belongs_to(record, chain, stat.session) for record in unshimmed):
        return False
    return not is_rltui(processes.command_line(process.pid))


def _attempts_without_shim() -> Iterator[AttemptRecord]:
    """Attempts that live although their shim was killed: ancestors do not reveal all of their processes."""
    owners = processes.ProcessOwners()
    for experiment in listed_experiments():
        if isinstance(experiment, BrokenExperiment):
            raise experiment.problem
        for folder in experiment.control.newest_attempts():
            record = owners.attempt(folder, experiment.tag)
            if record is not None and record.living_main is not None and not record.is_supervised:
                yield record


def _belongs_to(record: AttemptRecord, chain: Sequence[int], session: int) -> bool:
    main = record.main.pid if record.main is not None else None
    recorded = {descendant.pid for descendant in record.descendants}
    return session == record.session or any(pid == main or pid in recorded for pid in chain)


def is_rltui(command: str) -> bool:
    """True for a command line of rltui itself: supervisor, shim, TUI, CLI. Its embedded engine is like any
    other.
    """
    arguments = command.split()[:_PROGRAM_ARGUMENTS]
    modules = (module for option, module in pairwise(arguments) if option == "-m")
    return (
        any(PurePath(argument).name == "rltui" for argument in arguments[:2])
        or any(argument.endswith(SHIM_PROGRAMS) for argument in arguments)
        or any(
            module == "rltui" or (module.startswith("rltui.") and module.split(".")[1] != "tinyrl")
            for module in modules
        )
    )
