"""Waiting for processes to end, and making them."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Iterable
from contextlib import suppress

from rltui.services.processes.identity import (
    ProcessId,
    is_alive,
    living_processes,
    open_pidfd,
    send_signal,
)

POLL_S = 0.2
"""Where the kernel has no pidfd (Linux before 5.3)."""
AFTER_KILL_S = 5.0
"""SIGKILL works at once, but a process inside a driver call ends only when that call returns."""


async def wait_for_exit(process: ProcessId) -> None:
    """Return once the process has ended, reaped or not. Also for processes that are not our children."""
    try:
        handle = open_pidfd(process)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EMFILE, errno.ENFILE}:
            raise
        while is_alive(process):  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(POLL_S)
        return
    if handle is not None:
        try:
            await wait_readable(handle)
        finally:
            os.close(handle)


async def wait_readable(handle: int) -> None:
    """A pidfd turns readable when its process ends, reaped or not."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)


async def end_processes(processes: Iterable[ProcessId], *, grace_s: float) -> tuple[ProcessId, ...]:
    """SIGTERM (with SIGCONT, for the stopped), `grace_s` later SIGKILL.

    Returns the ones that still live: another user's, or stuck in the kernel.
    """
    remaining = set(processes)
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, AFTER_KILL_S)):
        for process in remaining:
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
