"""Processes that hold GPU memory without being part of what runs: which of them a person may have ended."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePath

from rltui.core.api import Orphan
from rltui.core.gpu.report import GpuProcess, GpuReport
from rltui.services import processes
from rltui.services.process_origin import origin, read_trace
from rltui.services.processes import AttemptRecord, ProcessId
from rltui.services.processes.identity import read_stat
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.experiments import BrokenExperiment, listed_experiments

_PROGRAM_WORDS = 8
"""So many words at the beginning of a command line may say which program it is."""


def strangers(report: GpuReport, known: Collection[Orphan]) -> tuple[Orphan, ...]:
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
    traces = processes.Traces()
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
        command=processes.command_line(process.pid) or first.command,
        experiment=first.experiment,
        component=first.component,
        attempt=first.attempt,
        evidence="environment" if first.owner == "orphan" else "gpu",
        age_s=processes.age_s(process),
        gpu_bytes=sum(sizes) if sizes else None,
        ports=ports.get(process.pid, ()),
    )
