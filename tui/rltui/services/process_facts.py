"""What processes are, read no more often than it changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rltui.core.text import short_command
from rltui.services import processes
from rltui.services.process_origin import Origin, Trace, origin, read_trace
from rltui.services.processes import ProcessId
from rltui.services.processes.identity import ProcessStat, read_stat

REFRESH_S = 5.0
"""Titles change: vLLM's processes set theirs some seconds after their start. Attempts end."""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One process."""

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
            command=short_command(processes.command_line(pid)),
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
