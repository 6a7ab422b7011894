"""Finds the attempt that started a process, of any experiment on this box."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rltui.base.text import parse_whole_number, short_command
from rltui.core import hints
from rltui.services import processes
from rltui.services.experiment.files import ControlFolder
from rltui.services.processes import PortHolder, ProcessId
from rltui.services.processes.identity import ProcessStat, read_stat
from rltui.services.redaction import without_secrets

_TAG = "RLTUI_EXPERIMENT"


@dataclass(frozen=True, slots=True)
class Origin:
    """The attempt that started a process."""

    experiment: str
    component: str
    attempt: int | None
    lives: bool


@dataclass(frozen=True, slots=True)
class ProcessEvidence:
    """Evidence of an attempt at one process or an ancestor of it."""

    tags: Mapping[str, str]
    """Variables of its environment; empty if it has none."""
    shim_folder: Path | None
    """The attempt's folder if the process is a shim."""


def read_evidence(pid: int) -> ProcessEvidence:
    """Empty evidence if the process is gone or reveals nothing. Another user's environment is not
    readable.
    """
    tags = processes.attempt_tags(pid)
    return ProcessEvidence(tags if _TAG in tags else {}, processes.shim_folder(pid))


def origin(evidence: Iterable[ProcessEvidence]) -> Origin | None:
    """`None` if no experiment started the process.

    Found by its shim, the ancestor that wrote the attempt's record, or by the tags in its environment or that
    of an ancestor: vLLM and prime-rl overwrite their own. An attempt without a shim and without a record, as
    after its folder was deleted, counts as dead.

    Args:
        evidence: of the process itself, its parent and so on. Consumed only as far as necessary.
    """
    tags: Mapping[str, str] = {}
    for item in evidence:
        tags = tags or item.tags
        if item.shim_folder is not None:
            record = processes.read_attempt(item.shim_folder)
            if record is None:
                return _origin_of_tags(tags, has_shim=True)
            name = record.experiment.partition("@")[0]
            return Origin(name, record.component, record.attempt, record.ended_at is None)
    return _origin_of_tags(tags, has_shim=False)


def _origin_of_tags(tags: Mapping[str, str], *, has_shim: bool) -> Origin | None:
    if _TAG not in tags or "RLTUI_COMPONENT" not in tags:
        return None
    name, _, output_dir = tags[_TAG].partition("@")  # see `ExperimentRecord.tag`
    component, number = tags["RLTUI_COMPONENT"], parse_whole_number(tags.get("RLTUI_ATTEMPT", ""))
    lives = has_shim
    if not has_shim and output_dir and number is not None:
        record = processes.read_attempt(ControlFolder(Path(output_dir)).attempt_dir(component, number))
        lives = record is not None and record.living_main is not None
    return Origin(name, component, number, lives)


def holder_text(holder: PortHolder) -> str:
    """Text like `pid 4711 python`; for a process of an experiment also which, and the command that
    stops it.
    """
    source = None if holder.pid is None else origin(map(read_evidence, processes.ancestors(holder.pid)))
    if source is None:
        return str(holder)
    end = hints.STOP if source.lives else hints.FREE_LEFTOVERS
    command = end(components=source.component, name=source.experiment)
    return f"{holder} ({source.component} of {source.experiment}; to end it: {command})"


REFRESH_S = 5.0
"""Titles change: vLLM's processes set theirs some seconds after their start. Attempts end."""


@dataclass(frozen=True, slots=True)
class ProcessDetails:
    start: int | None
    """Clock ticks as in `ProcessId`; `None` if nothing but its user is visible."""
    ancestors: tuple[ProcessId, ...]
    """The process itself, its parent and so on."""
    name: str
    command: str
    user: str | None
    is_mine: bool


class ProcessTable:
    """Processes that are read once a second. Everything except the owner of a pid is up to `REFRESH_S`
    old.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.refreshed_at = monotonic()
        """Time of the last full refresh, on the monotonic clock."""
        self._stats: dict[int, ProcessStat | None] = {}
        """Valid for the current reading."""
        self._details: dict[int, ProcessDetails] = {}
        self._evidence: dict[ProcessId, ProcessEvidence] = {}
        """Evidence is cached while the processes live, since a title that is set later wipes the tags."""
        self._origins: dict[int, Origin | None] = {}

    def refresh(self) -> None:
        """Start a new reading. Until the next call every process keeps its description."""
        self._stats.clear()
        now = self._monotonic()
        if now - self.refreshed_at >= REFRESH_S:
            self.refreshed_at = now
            current = {ancestor for facts in self._details.values() for ancestor in facts.ancestors}
            self._evidence = {
                process: trace for process, trace in self._evidence.items() if process in current
            }
            self._details.clear()
            self._origins.clear()

    def facts(self, pid: int) -> ProcessDetails | None:
        """`None` if there is no such process."""
        stat = self._stat(pid)
        start = stat.id.start if stat else None
        cached = self._details.get(pid)
        if cached is not None and cached.start == start:
            return cached
        self._origins.pop(pid, None)
        uid = processes.uid(pid)
        if uid is None:
            return None
        self._details[pid] = ProcessDetails(
            start=start,
            ancestors=tuple(self._ancestors(pid)),
            name=processes.command_name(pid),
            command=short_command(without_secrets(processes.command_line(pid))),
            user=processes.owner_name(pid),
            is_mine=uid == os.getuid(),
        )
        return self._details[pid]

    def origin(self, pid: int) -> Origin | None:
        """The attempt that started it, of any experiment of this user; `None` if no attempt did."""
        if pid not in self._origins:
            details = self.facts(pid)
            ancestors = details.ancestors if details is not None and details.is_mine else ()
            self._origins[pid] = origin(map(self._cached_evidence, ancestors))
        return self._origins[pid]

    def _ancestors(self, pid: int) -> Iterator[ProcessId]:
        while pid > 0 and (stat := self._stat(pid)) is not None:
            yield stat.id
            pid = stat.parent

    def _stat(self, pid: int) -> ProcessStat | None:
        if pid not in self._stats:
            self._stats[pid] = read_stat(pid)
        return self._stats[pid]

    def _cached_evidence(self, process: ProcessId) -> ProcessEvidence:
        if process not in self._evidence:
            self._evidence[process] = read_evidence(process.pid)
        return self._evidence[process]
