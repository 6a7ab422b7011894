"""Which attempt of which experiment started a process: of any experiment on this box."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rltui.core import hints
from rltui.core.text import short_command, whole_number
from rltui.services import processes
from rltui.services.hiding import without_secrets
from rltui.services.processes import PortHolder, ProcessId
from rltui.services.processes.identity import ProcessStat, read_stat
from rltui.services.runs.experiment_files import ControlFolder

_TAG = "RLTUI_EXPERIMENT"
_SHIM = "/daemon/shim/__main__.py"
"""End of the program's path in a shim's command line, which the attempt's folder follows (`Terminal`)."""


@dataclass(frozen=True, slots=True)
class Origin:
    experiment: str
    component: str
    attempt: int | None
    lives: bool
    """Its main process has not ended."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What one process, or an ancestor of it, tells of its attempt."""

    tags: Mapping[str, str]
    """Of its environment; empty where it has none."""
    shim_folder: Path | None
    """It is a shim, and this is its attempt's."""


def read_trace(pid: int) -> Trace:
    """An empty one where the process is gone or tells nothing. Another user's environment is not told."""
    tags = processes.attempt_tags(pid)
    folder = processes.command_line(pid).partition(f"{_SHIM} ")[2]
    return Trace(tags if _TAG in tags else {}, Path(folder) if folder else None)


def origin(traces: Iterable[Trace]) -> Origin | None:
    """`None` where no experiment started the process.

    Told by its shim, the ancestor that wrote the attempt's record, or by the tags in its environment or that
    of an ancestor: vLLM and prime-rl overwrite their own. An attempt without a shim and without a record, as
    after its folder was deleted, counts as dead.

    Args:
        traces: of the process itself, its parent and so on. No more are taken than are needed.
    """
    tags: Mapping[str, str] = {}
    for trace in traces:
        tags = tags or trace.tags
        if trace.shim_folder is not None:
            record = processes.read_attempt(trace.shim_folder)
            lives = record is None or record.ended_at is None
            return _of_record(record, lives=lives) if record else _of_tags(tags, lives=lives)
    record = _record(tags)
    lives = record is not None and record.living_main is not None
    return _of_tags(tags, lives=lives)


def _record(tags: Mapping[str, str]) -> processes.AttemptRecord | None:
    output_dir = tags.get(_TAG, "").partition("@")[2]
    attempt = whole_number(tags.get("RLTUI_ATTEMPT", ""))
    component = tags.get("RLTUI_COMPONENT", "")
    if not output_dir or "/" in component or attempt is None:
        return None
    return processes.read_attempt(ControlFolder(Path(output_dir)).attempt_dir(component, attempt))


def _of_record(record: processes.AttemptRecord, *, lives: bool) -> Origin:
    return Origin(_name(record.experiment), record.component, record.attempt, lives)


def _of_tags(tags: Mapping[str, str], *, lives: bool) -> Origin | None:
    if _TAG not in tags or "RLTUI_COMPONENT" not in tags:
        return None
    number = whole_number(tags.get("RLTUI_ATTEMPT", ""))
    return Origin(_name(tags[_TAG]), tags["RLTUI_COMPONENT"], number, lives)


def _name(tag: str) -> str:
    """See `ExperimentRecord.tag`."""
    return tag.partition("@")[0]


def holder_text(holder: PortHolder) -> str:
    """`pid 4711 python`; of a process of any experiment also which, and the command that ends it."""
    source = None if holder.pid is None else origin(map(read_trace, processes.ancestors(holder.pid)))
    if source is None:
        return str(holder)
    end = hints.STOP if source.lives else hints.FREE_LEFTOVERS
    command = end(components=source.component, name=source.experiment)
    return f"{holder} ({source.component} of {source.experiment}; to end it: {command})"


REFRESH_S = 5.0
"""Titles change: vLLM's processes set theirs some seconds after their start. Attempts end."""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    start: int | None
    """As in `ProcessId`; `None` where no more than its user can be seen."""
    ancestors: tuple[ProcessId, ...]
    """The process itself, its parent and so on."""
    name: str
    command: str
    user: str | None
    is_mine: bool
    """This user's."""


class ProcessTable:
    """Processes that are looked at once a second. All but who has a pid is up to `REFRESH_S` old."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.refreshed_at = monotonic()
        """When all was forgotten that is read every `REFRESH_S` only, on the monotonic clock."""
        self._stats: dict[int, ProcessStat | None] = {}
        """Of this look."""
        self._facts: dict[int, ProcessFacts] = {}
        self._traces: dict[ProcessId, Trace] = {}
        """Kept for as long as the processes: a title that is set later wipes the tags."""
        self._origins: dict[int, Origin | None] = {}

    def look_again(self) -> None:
        """Begin a look. Each process is the same for as long as it takes."""
        self._stats.clear()
        now = self._monotonic()
        if now - self.refreshed_at >= REFRESH_S:
            self.refreshed_at = now
            seen = {ancestor for facts in self._facts.values() for ancestor in facts.ancestors}
            self._traces = {process: trace for process, trace in self._traces.items() if process in seen}
            self._facts.clear()
            self._origins.clear()

    def facts(self, pid: int) -> ProcessFacts | None:
        """`None` where there is no such process."""
        stat = self._stat(pid)
        start = stat.id.start if stat else None
        known = self._facts.get(pid)
        if known is not None and known.start == start:
            return known
        self._origins.pop(pid, None)
        uid = processes.uid(pid)
        if uid is None:
            return None
        self._facts[pid] = ProcessFacts(
            start=start,
            ancestors=tuple(self._ancestors(pid)),
            name=processes.command_name(pid),
            command=short_command(without_secrets(processes.command_line(pid))),
            user=processes.owner_name(pid),
            is_mine=uid == os.getuid(),
        )
        return self._facts[pid]

    def origin(self, pid: int) -> Origin | None:
        """The attempt that started it, of whatever experiment of this user; `None` if no attempt did."""
        if pid not in self._origins:
            facts = self.facts(pid)
            ancestors = facts.ancestors if facts is not None and facts.is_mine else ()
            self._origins[pid] = origin(map(self._trace, ancestors))
        return self._origins[pid]

    def _ancestors(self, pid: int) -> Iterator[ProcessId]:
        while pid > 0 and (stat := self._stat(pid)) is not None:
            yield stat.id
            pid = stat.parent

    def _stat(self, pid: int) -> ProcessStat | None:
        if pid not in self._stats:
            self._stats[pid] = read_stat(pid)
        return self._stats[pid]

    def _trace(self, process: ProcessId) -> Trace:
        if process not in self._traces:
            self._traces[process] = read_trace(process.pid)
        return self._traces[process]
