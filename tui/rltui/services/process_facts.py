"""What a GPU's process is, read no more often than it changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from rltui.core.command_text import short_command
from rltui.services import processes
from rltui.services.process_origin import Origin, origin

REFRESH_S = 5.0
"""Titles change: vLLM's processes set theirs some seconds after their start. Attempts end."""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One process."""

    start: int | None
    """As in `ProcessId`; `None` where no more than its user can be seen."""
    name: str
    command: str
    user: str | None
    is_mine: bool
    """This user's."""
    origin: Origin | None
    """`None` also where it is not this user's."""


class FactsCache:
    """Facts of processes that are looked at once a second. They are at most `REFRESH_S` old."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[int, tuple[float, ProcessFacts]] = {}

    def facts(self, pid: int, start: int | None) -> ProcessFacts | None:
        """`None` where there is no such process. `start` is its present one, if that can be seen."""
        now = self._monotonic()
        read_at, facts = self._known.get(pid, (now, None))
        if facts is None or facts.start != start or now - read_at >= REFRESH_S:
            facts = _read(pid, start)
            if facts is not None:
                self._known[pid] = (now, facts)
        return facts

    def forget_all_but(self, pids: Collection[int]) -> None:
        self._known = {pid: known for pid, known in self._known.items() if pid in pids}


def _read(pid: int, start: int | None) -> ProcessFacts | None:
    uid = processes.uid(pid)
    if uid is None:
        return None
    is_mine = uid == os.getuid()
    return ProcessFacts(
        start=start,
        name=processes.command_name(pid),
        command=short_command(processes.command_line(pid)),
        user=processes.owner_name(pid),
        is_mine=is_mine,
        origin=origin(pid) if is_mine else None,
    )
