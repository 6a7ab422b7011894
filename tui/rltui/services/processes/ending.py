"""Waiting for processes to end, and making them."""

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
"""Where the kernel has no pidfd (Linux before 5.3)."""
_AFTER_KILL_S = 5.0
"""SIGKILL works at once, but a process inside a driver call ends only when that call returns."""


async def wait_for_exit(process: ProcessId) -> None:
    """Return once the process has ended, reaped or not. Also for processes that are not our children."""
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
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def end_processes(processes: Iterable[ProcessId], *, grace_s: float) -> tuple[ProcessId, ...]:
    """SIGTERM (with SIGCONT, for the stopped), `grace_s` later SIGKILL.

    Returns the ones that still live: another user's, or stuck in the kernel.
    """
    remaining = set(processes)
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _AFTER_KILL_S)):
        for process in sorted(remaining):  # parents first: none goes on when its child has ended
            with suppress(PermissionError):  # told by the return value
                send_signal(process, number)
                send_signal(process, signal.SIGCONT)
        with suppress(TimeoutError):  # the next signal, or the return value
            async with asyncio.timeout(patience_s):
                await asyncio.gather(*(wait_for_exit(process) for process in remaining))
        remaining = {process for process in remaining if is_alive(process)}
        if not remaining:
            break
    return tuple(sorted(remaining))


async def end_all(find: Callable[[], Collection[ProcessId]], *, grace_s: float) -> tuple[ProcessId, ...]:
    """End whatever `find` finds, also of a program that keeps forking, until it has found nothing twice.

    SIGTERM, also to those born meanwhile; after `grace_s` their process groups are killed, from which nobody
    gets away by forking, and all others stopped, so that none forks any more, and killed. `find` is called in
    a thread.

    Returns the ones that still live: another user's, or stuck in the kernel.
    """
    deadline, asked = time.monotonic() + grace_s, set[ProcessId]()
    while time.monotonic() < deadline:
        living = await _found(find)
        if not living:
            return ()
        _send(living - asked, signal.SIGTERM, signal.SIGCONT)
        asked |= living
        await _wait_for_exits(living, min(_POLL_S, deadline - time.monotonic()))
    deadline, frozen = time.monotonic() + _AFTER_KILL_S, set[ProcessId]()
    while living := await _found(find):
        fresh, late = living - frozen, time.monotonic() > deadline
        for group in _groups(process.pid for process in living) - _groups(ancestors(os.getpid())):
            with suppress(PermissionError, ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        _send(fresh, signal.SIGSTOP)
        frozen |= living
        if not fresh or late:
            _send(living, signal.SIGKILL)
            await _wait_for_exits(living, _POLL_S)
        if late:
            return tuple(sorted(await _found(find)))
    return ()


async def _found(find: Callable[[], Collection[ProcessId]]) -> set[ProcessId]:
    """A process that forks and ends may be missed by one look, and its child born after it; not by two."""
    return set(await asyncio.to_thread(find)) or set(await asyncio.to_thread(find))


def _groups(pids: Iterable[int]) -> set[int]:
    """Numbers above 1 alone: to `killpg` the others mean the caller's group, and everybody."""
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


async def _wait_for_exits(targets: Iterable[ProcessId], patience_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, patience_s)):
            await asyncio.gather(*(wait_for_exit(process) for process in targets))


async def end_session(session: int, *, grace_s: float) -> None:
    """End every process of a session, as `end_processes` does. At once where the caller is cancelled."""
    members = [stat.id for stat in living_processes() if stat.session == session]
    try:
        await end_processes(members, grace_s=grace_s)
    except asyncio.CancelledError:
        for process in members:
            with suppress(PermissionError):
                send_signal(process, signal.SIGKILL)
        raise
