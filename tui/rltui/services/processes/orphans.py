"""Processes that outlived their attempt: found by what their shims wrote, described by what they hold."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePath

from rltui.core.api import Orphan
from rltui.core.gpu.report import GpuProcess, GpuReport
from rltui.core.text import short_command
from rltui.services import processes
from rltui.services.hiding import without_secrets
from rltui.services.processes import AttemptRecord, Leftover, ProcessId, ending
from rltui.services.processes.identity import read_stat
from rltui.services.processes.origin import origin, read_trace
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import BrokenExperiment, listed_experiments
from rltui.services.runs.journal import Journal

_NEWEST_ATTEMPTS = 20
"""Attempts of a component whose records are searched. Older ones are found by their tag alone."""
GRACE_S = 5.0
"""From SIGTERM to SIGKILL."""
_NAMED_ORPHANS = 3
"""Most processes named in one text."""


async def end(orphans: Sequence[Orphan], journal: Journal, why: str) -> tuple[Orphan, ...]:
    """End just these processes, never another that has come to have the pid.

    Returns the ones that still live: another user's, or stuck in the kernel.
    """
    if not orphans:
        return ()
    journal.add("orphan", f"ending {leftovers_text(orphans)} {why}", pids=[orphan.pid for orphan in orphans])
    ids = {ProcessId(orphan.pid, orphan.start): orphan for orphan in orphans}
    return tuple(ids[left] for left in await ending.end_processes(ids, grace_s=GRACE_S))


def leftovers_text(orphans: Sequence[Orphan]) -> str:
    """`2 leftover processes of attempt 1: pid 4711 VLLM::EngineCore, …`."""
    named = [
        f"pid {orphan.pid} {short_command(orphan.command)}".rstrip() for orphan in orphans[:_NAMED_ORPHANS]
    ]
    if len(orphans) > _NAMED_ORPHANS:
        named.append("…")
    adjective = "" if all(orphan.evidence == "gpu" for orphan in orphans) else "leftover "
    word = "process" if len(orphans) == 1 else "processes"
    attempts = {orphan.attempt for orphan in orphans}
    whose = f" of attempt {orphans[0].attempt}" if len(attempts) == 1 and orphans[0].attempt else ""
    return f"{len(orphans)} {adjective}{word}{whose}: {', '.join(named)}"


def find_leftovers(
    record: ExperimentRecord, control: ControlFolder, components: Iterable[str], living: Collection[ProcessId]
) -> list[Leftover]:
    """Strays without a shim, and what a living shim keeps of an attempt whose main process ended.

    `living` names main processes that are looked after without a shim. Processes of other experiments and
    other people are never among them. Reads all of `/proc`: some 15 µs per process of the box.
    """
    traces = processes.ProcessOwners()
    folders = [
        control.attempt_dir(name, number)
        for name in components
        for number in control.attempts(name)[-_NEWEST_ATTEMPTS:]
    ]
    attempts = (traces.attempt(folder, record.tag) for folder in folders)
    records = [attempt for attempt in attempts if attempt is not None]
    kept = [leftover for found in records for leftover in processes.kept(found)]
    known = {leftover.id for leftover in kept}
    strays = processes.leftovers(record.tag, records, exclude=living)
    return [*kept, *(leftover for leftover in strays if leftover.id not in known)]


def described(leftovers: Sequence[Leftover], gpus: GpuReport) -> tuple[Orphan, ...]:
    """With their age, ports and GPU memory."""
    ports = processes.listening_ports([leftover.id.pid for leftover in leftovers]) if leftovers else {}
    return tuple(
        Orphan(
            pid=leftover.id.pid,
            start=leftover.id.start,
            command=leftover.command,
            component=leftover.component,
            attempt=leftover.attempt,
            evidence=leftover.evidence,
            age_s=processes.age_s(leftover.id),
            gpu_bytes=_gpu_bytes(leftover.id.pid, gpus),
            ports=ports.get(leftover.id.pid, ()),
        )
        for leftover in leftovers
    )


def _gpu_bytes(pid: int, gpus: GpuReport) -> int | None:
    sizes = [
        process.used_bytes
        for device in gpus.devices
        for process in device.processes
        if process.pid == pid and process.used_bytes is not None
    ]
    return sum(sizes) if sizes else None


_PROGRAM_WORDS = 8
"""So many words at the beginning of a command line may say which program it is."""


def foreign_processes(report: GpuReport, known: Collection[Orphan]) -> tuple[Orphan, ...]:
    """The processes on this machine's GPUs that are this user's, and of no use to rltui, by pid.

    What rltui did not start, and what is left of other experiments. The report says who may be one; that none
    of them is rltui's own or a living component's is then looked up anew, for each by itself.

    Args:
        report: with owners, see `GpuOwners`.
        known: what is left of this experiment, which is not listed again.

    Raises:
        ConfigError: the record of an experiment is damaged: what belongs to it cannot be told.
    """
    left = {ProcessId(orphan.pid, orphan.start) for orphan in known}
    held = {process: sizes for process, sizes in _candidates(report).items() if process not in left}
    if not held:
        return ()
    spared = set(processes.ancestors(os.getpid()))
    unshimmed = list(_attempts_without_shim())
    return tuple(
        _described(process, listed)
        for process, listed in sorted(held.items())
        if process.pid not in spared and _may_be_ended(process, unshimmed)
    )


def _candidates(report: GpuReport) -> dict[ProcessId, list[GpuProcess]]:
    """By process, what is said of it for each device it is on."""
    found: dict[ProcessId, list[GpuProcess]] = {}
    for device in report.devices:
        for process in device.processes:
            may_be = process.owner in ("mine", "orphan") and not process.estimated
            if not device.host and may_be and process.start is not None:
                found.setdefault(ProcessId(process.pid, process.start), []).append(process)
    return found


def _may_be_ended(process: ProcessId, unshimmed: Sequence[AttemptRecord]) -> bool:
    if not processes.is_alive(process) or processes.uid(process.pid) != os.getuid():
        return False
    above = list(processes.ancestors(process.pid))
    source = origin(map(read_trace, above))
    if source is not None and source.lives:
        return False
    stat = read_stat(process.pid)
    if stat is None or any(_is_part_of(record, above, stat.session) for record in unshimmed):
        return False
    return not is_rltui(processes.command_line(process.pid))


def _attempts_without_shim() -> Iterator[AttemptRecord]:
    """Those that live although their shim was killed: ancestors do not tell all of their processes."""
    traces = processes.ProcessOwners()
    for experiment in listed_experiments():
        if isinstance(experiment, BrokenExperiment):
            raise experiment.problem
        for folder in ControlFolder(Path(experiment.output_dir)).newest_attempts():
            record = traces.attempt(folder, experiment.tag)
            if record is not None and record.living_main is not None and not record.is_supervised:
                yield record


def _is_part_of(record: AttemptRecord, above: Sequence[int], session: int) -> bool:
    main = record.main.pid if record.main is not None else None
    recorded = {descendant.pid for descendant in record.descendants}
    return session == record.session or any(pid == main or pid in recorded for pid in above)


def is_rltui(command: str) -> bool:
    """A command line of rltui itself: supervisor, shim, TUI, CLI. Its embedded engine is like any other."""
    words = command.split()[:_PROGRAM_WORDS]
    modules = (module for option, module in pairwise(words) if option == "-m")
    return (
        any(PurePath(word).name == "rltui" for word in words[:2])
        or any(word.endswith("rltui/daemon/shim/__main__.py") for word in words)
        or any(
            module == "rltui" or (module.startswith("rltui.") and module.split(".")[1] != "tinyrl")
            for module in modules
        )
    )


def _described(process: ProcessId, listed: Sequence[GpuProcess]) -> Orphan:
    sizes = [each.used_bytes for each in listed if each.used_bytes is not None]
    first = listed[0]
    ports = processes.listening_ports([process.pid])
    return Orphan(
        pid=process.pid,
        start=process.start,
        command=without_secrets(processes.command_line(process.pid) or first.command),
        experiment=first.experiment,
        component=first.component,
        attempt=first.attempt,
        evidence="environment" if first.owner == "orphan" else "gpu",
        age_s=processes.age_s(process),
        gpu_bytes=sum(sizes) if sizes else None,
        ports=ports.get(process.pid, ()),
    )
