# ruff: noqa: PTH123
"""Processes of attempts whose shims are gone, which no shim has below it."""

from __future__ import annotations

import contextlib
import os
import sys

from rltui.hosts.shim.tree import boot_identity, pids, pop_descendants, read_stat

TYPE_CHECKING = False  # the one of `typing`, as in `spawn`
if TYPE_CHECKING:
    from typing import Any


class Leftovers:
    """The living processes of some attempts: recorded, of their session, with their tags, or below one of
    those. To what ends them, it is like the `Tree` below a shim.

    The tags alone would not do: a program that sets its title overwrites them.
    """

    def __init__(self, tags: dict[str, str], records: list[dict[str, Any]]) -> None:
        """`tags`: variables of their environment."""
        self.members: dict[int, int] = {}
        """Pid → start time in ticks since boot."""
        self.groups: set[int] = set()
        """Process groups that a member leads."""
        self._tags = {f"{name}={value}".encode() for name, value in tags.items()}
        self._recorded: set[tuple[int, int]] = set()
        self._sessions: dict[int, int] = {}
        """Session → start of its leader, than which its members are younger."""
        for record in records:
            if record["boot"] == boot_identity():
                main = (record["pid"], record["pid_start"])
                descendants = record["descendants"]
                self._recorded |= {main, *((process["pid"], process["start"]) for process in descendants)}
                if None not in main and record["state"] != "exited":
                    self._sessions[main[0]] = main[1]

    def refresh(self) -> None:
        stats = {
            pid: fields for pid in pids() if (fields := read_stat(pid)) is not None and fields[0] not in b"ZX"
        }
        starts = {pid: int(fields[19]) for pid, fields in stats.items()}
        members = {
            pid
            for pid, fields in stats.items()
            if (pid, starts[pid]) in self._recorded
            or starts[pid] >= self._sessions.get(int(fields[3]), sys.maxsize)
            or self._tags <= _environment(pid)
        } - {os.getpid()}
        members |= pop_descendants(members, {pid: int(fields[1]) for pid, fields in stats.items()})
        self.members = {pid: starts[pid] for pid in sorted(members)}
        self.groups = {int(stats[pid][2]) for pid in members} & members


def _environment(pid: int) -> set[bytes]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # gone, another user's
        return set(file.read().split(b"\0"))
    return set()
