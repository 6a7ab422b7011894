"""Waiting for processes to end, and ending them."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from rltui.services.processes.identity import (
    ProcessId,
    ancestors,
    is_alive,
    living_processes,
    open_pidfd,
    send_signal,
)

_POLL_S = 0.2
"""Poll interval if the kernel has no pidfd (Linux before 5.3)."""
_KILL_TIMEOUT_S = 5.0
"""SIGKILL works at once, but a process inside a driver call ends only when that call returns."""


async def wait_for_exit(process: ProcessId) -> None:
    """Return once the process has ended, reaped or not. Works for processes that are not our children."""
    try:
        handle = open_pidfd(process)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EMFILE, errno.ENFILE}:
            raise
        while is_alive(process):  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(_POLL_S)
        return
    if handle is None:
        return
    loop, exited = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, exited.set)
    try:
        await exited.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def end_processes(processes: Iterable[ProcessId], *, grace_s: float) -> tuple[ProcessId, ...]:
    """Send SIGTERM (with SIGCONT, for the stopped), `grace_s` later SIGKILL.

    Returns the survivors: another user's, or stuck in the kernel.
    """
    remaining = set(processes)
    for number, timeout_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_TIMEOUT_S)):
        # parents first: none goes on when its child has ended
        _send(sorted(remaining), number, signal.SIGCONT)
        await _wait_for_exits(remaining, timeout_s)
        remaining = {process for process in remaining if is_alive(process)}
        if not remaining:
            break
    return tuple(sorted(remaining))


async def end_all(find: Callable[[], Collection[ProcessId]], *, grace_s: float) -> tuple[ProcessId, ...]:
    """End all processes that `find` returns, also of a program that keeps forking, until it twice returns
    none.

    Sends SIGTERM, also to processes born meanwhile; after `grace_s` their process groups are killed, which
    nobody escapes by forking, and all others are stopped, so that none forks any more, and killed. `find` is
    called in a thread.

    Returns the survivors: another user's, or stuck in the kernel.
    """
    deadline, signalled = time.monotonic() + grace_s, set[ProcessId]()
    while time.monotonic() < deadline:
        living = await _find_reliably(find)
        if not living:
            return ()
        _send(living - signalled, signal.SIGTERM, signal.SIGCONT)
        signalled |= living
        await _wait_for_exits(living, min(_POLL_S, deadline - time.monotonic()))
    deadline, frozen = time.monotonic() + _KILL_TIMEOUT_S, set[ProcessId]()
    while living := await _find_reliably(find):
        new, is_late = living - frozen, time.monotonic() > deadline
        for group in _groups(process.pid for process in living) - _groups(ancestors(os.getpid())):
            with suppress(PermissionError, ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        _send(new, signal.SIGSTOP)
        frozen |= living
        if not new or is_late:
            _send(living, signal.SIGKILL)
            await _wait_for_exits(living, _POLL_S)
        if is_late:
            return tuple(sorted(await _find_reliably(find)))
    return ()


async def _find_reliably(find: Callable[[], Collection[ProcessId]]) -> set[ProcessId]:
    """Call twice if empty: one listing may miss a process that forks and exits, whose child is born after
    it.
    """
    return set(await asyncio.to_thread(find)) or set(await asyncio.to_thread(find))


def _groups(pids: Iterable[int]) -> set[int]:
    """Process groups of these pids, only numbers above 1: to `killpg`, 0 and 1 mean the caller's group and
    everybody.
    """
    groups = set[int]()
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            groups.add(os.getpgid(pid))
    return groups - {0, 1}


def _send(targets: Iterable[ProcessId], *numbers: signal.Signals) -> None:
    for process in targets:
        for number in numbers:
            with suppress(PermissionError):  # another user's
                send_signal(process, number)


async def _wait_for_exits(targets: Iterable[ProcessId], timeout_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, timeout_s)):
            await asyncio.gather(*(wait_for_exit(process) for process in targets))


async def end_session(session: int, *, grace_s: float) -> None:
    """End every process of a session, as `end_processes` does. Kills at once if the caller is cancelled."""
    members = [stat.id for stat in living_processes() if stat.session == session]
    try:
        await end_processes(members, grace_s=grace_s)
    except asyncio.CancelledError:
        for process in members:
            with suppress(PermissionError):
                send_signal(process, signal.SIGKILL)
        raise
