"""Processes that outlived their attempt: found by what their shims wrote, described by what they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from rltui.core.api import Orphan
from rltui.core.gpu.report import GpuReport
from rltui.core.text import short_command
from rltui.services import processes
from rltui.services.processes import Leftover, ProcessId
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord

NEWEST_ATTEMPTS = 20
"""Attempts of a component whose records are searched. Older ones are found by their tag alone."""
GRACE_S = 5.0
"""From SIGTERM to SIGKILL."""
NAMED_ORPHANS = 3
"""Most processes named in one text."""


class Journal(Protocol):
    """Where it is written down that something is ended."""

    def add(self, kind: str, text: str, *, pids: list[int]) -> object:
        """Record an event that happens now."""
        ...


async def end(orphans: Sequence[Orphan], journal: Journal, why: str) -> tuple[Orphan, ...]:
    """End just these processes, never another that has come to have the pid.

    Returns the ones that still live: another user's, or stuck in the kernel.
    """
    if not orphans:
        return ()
    journal.add("orphan", f"ending {leftovers_text(orphans)} {why}", pids=[orphan.pid for orphan in orphans])
    ids = {ProcessId(orphan.pid, orphan.start): orphan for orphan in orphans}
    return tuple(ids[left] for left in await processes.end_processes(ids, grace_s=GRACE_S))


def leftovers_text(orphans: Sequence[Orphan]) -> str:
    """`2 leftover processes of attempt 1: pid 4711 VLLM::EngineCore, …`."""
    named = [
        f"pid {orphan.pid} {short_command(orphan.command)}".rstrip() for orphan in orphans[:NAMED_ORPHANS]
    ]
    if len(orphans) > NAMED_ORPHANS:
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
    traces = processes.Traces()
    folders = [folder for name in components for folder in _newest_attempts(control, name)]
    attempts = (traces.attempt(folder, record.tag) for folder in folders)
    records = [attempt for attempt in attempts if attempt is not None]
    kept = [leftover for found in records for leftover in processes.kept(found)]
    known = {leftover.id for leftover in kept}
    strays = processes.leftovers(record.tag, records, exclude=living)
    return [*kept, *(leftover for leftover in strays if leftover.id not in known)]


def _newest_attempts(control: ControlFolder, component: str) -> list[Path]:
    numbers = control.attempts(component)[-NEWEST_ATTEMPTS:]
    return [control.attempt_dir(component, number) for number in numbers]


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
