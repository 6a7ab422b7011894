# ruff: noqa: PTH115, PTH123, PTH208
"""Processes, identified by pid and start time, and the tree of those below the shim."""

from __future__ import annotations

import contextlib
import errno
import os
import signal

TYPE_CHECKING = False  # the one of `typing`, as in `spawn`
if TYPE_CHECKING:
    from collections.abc import Iterator


def read_stat(pid: int) -> list[bytes] | None:
    """The fields of `/proc/PID/stat` from the third on (state, ppid, …), None where there is no such
    process.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:  # gone, or hidden by hidepid: not ours in either case
        return None
    return text[text.rindex(b")") + 2 :].split()


def pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def start_ticks(pid: int) -> int | None:
    """Start time in clock ticks since boot; pid and start together identify a process."""
    fields = read_stat(pid)
    return int(fields[19]) if fields else None


def is_alive(pid: int, start: int) -> bool:
    """True for that very process, unless it is a zombie."""
    fields = read_stat(pid)
    return fields is not None and int(fields[19]) == start and fields[0] not in b"ZX"


def boot_identity() -> str:
    """Identifies this boot and pid namespace: pids and sessions recorded elsewhere mean nothing here."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # some sandboxes hide both; the record then says "unknown"
        return ""


def send_signal(pid: int, start: int, number: int) -> None:
    """Signal exactly that process, never another one that got its pid."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # died meanwhile; runs as another user
        try:
            handle = os.pidfd_open(pid)
        except (OSError, AttributeError) as error:
            if isinstance(error, OSError) and error.errno != errno.ENOSYS:
                raise
            if start_ticks(pid) == start:  # Linux before 5.3, or a Python that was built there
                os.kill(pid, number)
            return
        try:
            if start_ticks(pid) == start:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


_FULL_SCAN_EVERY = 30
"""Every so many scans, the foreign pids are forgotten, as they may have been reused."""


_MAX_SCANS = 3
"""Most scans of `/proc` in one `refresh`."""


class Tree:
    """The living descendants of this process.

    Found by parent pid: `/proc/PID/task/*/children` is missing from many kernels and costs a read per thread,
    of which vLLM has hundreds. A foreign process never becomes a descendant, so its stat is read only once.
    """

    def __init__(self) -> None:
        self.members: dict[int, int] = {}
        """Pid → start time in ticks since boot."""
        self.groups: set[int] = set()
        """Process groups of the members, except the group of this process."""
        self._foreign: set[int] = set()
        self._scans = 0

    def refresh(self) -> None:
        self._scans += 1
        if self._scans % _FULL_SCAN_EVERY == 0:
            self._foreign.clear()
        for _ in range(_MAX_SCANS):
            if self._scan():
                break

    def _scan(self) -> bool:
        """Scan `/proc` once. False where the parent of a process ended meanwhile, so that it belongs to
        nobody yet.
        """
        all_pids = set(pids())
        self._foreign &= all_pids
        parents: dict[int, int] = {}
        starts: dict[int, int] = {}
        groups: dict[int, int] = {}
        for pid in all_pids - self._foreign - {os.getpid()}:
            fields = read_stat(pid)
            if fields is not None and fields[0] not in b"ZX":
                parents[pid], groups[pid], starts[pid] = int(fields[1]), int(fields[2]), int(fields[19])
        family = pop_descendants({os.getpid()}, parents)
        self.members = {pid: starts[pid] for pid in sorted(family)}
        self.groups = {groups[pid] for pid in family if groups[pid] > 1} - {os.getpgrp()}
        self._foreign |= pop_descendants(self._foreign | {0, os.getppid()}, parents)
        return all_pids.isdisjoint(parents.values())


def pop_descendants(roots: set[int], parents: dict[int, int]) -> set[int]:
    """Move everything below `roots` out of `parents` (parent by pid) and return it."""
    descendants: set[int] = set()
    layer = roots
    while layer:
        layer = {pid for pid, parent in parents.items() if parent in layer}
        for pid in layer:
            del parents[pid]
        descendants |= layer
    return descendants
