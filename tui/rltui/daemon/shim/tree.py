# ruff: noqa: PTH208
"""Everything that lives below the shim."""

from __future__ import annotations

import os
import signal

from rltui.daemon.shim.process import read_stat, send_signal

FULL_SCAN_EVERY = 30
"""Scans between two that forget who is a stranger, should a stranger's pid have been reused in between."""


class Tree:
    """The living descendants of this process.

    Found by parent pid: `/proc/PID/task/*/children` is missing from many kernels and costs a read per thread,
    of which vLLM has hundreds. A stranger never becomes a descendant, so each one is read only once.
    """

    def __init__(self) -> None:
        self.members: dict[int, int] = {}
        """Start ticks by pid."""
        self._strangers: set[int] = set()
        self._scans = 0

    def refresh(self) -> None:
        self._scans += 1
        if self._scans % FULL_SCAN_EVERY == 0:
            self._strangers.clear()
        listed = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self._strangers &= listed
        parents: dict[int, int] = {}
        starts: dict[int, int] = {}
        for pid in listed - self._strangers - {os.getpid()}:
            fields = read_stat(pid)
            if fields is not None and fields[0] not in b"ZX":
                parents[pid], starts[pid] = int(fields[1]), int(fields[19])
        family = _take_below({os.getpid()}, parents)
        self.members = {pid: starts[pid] for pid in sorted(family)}
        # The rest whose parent vanished during the scan stays undecided and is read again.
        self._strangers |= _take_below(self._strangers | {0, os.getppid()}, parents)

    def wake(self) -> None:
        """SIGCONT to all, as systemd sends it beside SIGTERM: a stopped process takes no signal but SIGKILL.

        Looking for the stopped ones instead would miss one whose SIGSTOP is still on its way.
        """
        for pid, start in self.members.items():
            send_signal(pid, start, signal.SIGCONT)


def _take_below(roots: set[int], parents: dict[int, int]) -> set[int]:
    """Move everything below `roots` out of `parents` (parent by pid) and return it."""
    taken: set[int] = set()
    layer = roots
    while layer:
        layer = {pid for pid, parent in parents.items() if parent in layer}
        for pid in layer:
            del parents[pid]
        taken |= layer
    return taken
