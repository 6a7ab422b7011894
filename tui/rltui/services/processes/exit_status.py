"""How a process ended that is not our child, from the kernel."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
import time
from contextlib import suppress

from rltui.services.processes.ending import wait_for_exit, wait_readable
from rltui.services.processes.identity import PROC, ProcessId, open_pidfd

_INFO = struct.Struct("=QQ11Ii")
"""`struct pidfd_info` of `linux/pidfd.h`, first version: mask, cgroup, eleven ids, exit code."""
_GET_INFO = 0xC040FF0B
"""`PIDFD_GET_INFO`: `_IOWR(0xFF, 11, struct pidfd_info)`, Linux 6.13."""
_INFO_EXIT = 1 << 3
"""`PIDFD_INFO_EXIT`, Linux 6.15: told once the process was reaped, for as long as the pidfd is held."""

REAPED_WITHIN_S = 1.0
"""How long we wait for another process to reap it, of which nothing tells us."""
POLL_S = 0.02


async def wait_for_exit_status(process: ProcessId) -> int | None:
    """Return once the process has ended: its exit code, or minus the number of the signal that ended it.

    For processes whose parent is not ours, such as a component whose shim was killed. Begin to wait while the
    process lives: None where it has ended before, and where the kernel does not tell. Linux tells since 6.15;
    before, only while it is a zombie, so the answer depends on how busy its parent and we are.
    """
    try:
        handle = open_pidfd(process)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EMFILE, errno.ENFILE}:
            raise
        await wait_for_exit(process)
        return _status_of_zombie(process)
    if handle is None:
        return None
    try:
        await wait_readable(handle)
        return await _status_within(REAPED_WITHIN_S, handle, process)
    finally:
        os.close(handle)


async def _status_within(patience_s: float, handle: int, process: ProcessId) -> int | None:
    deadline = time.monotonic() + patience_s
    while True:
        for status in (_status_of_reaped(handle), _status_of_zombie(process)):
            if status is not None:
                return status
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(POLL_S)


def _status_of_reaped(handle: int) -> int | None:
    request = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
    with suppress(OSError):  # ESRCH: reaped, and the kernel kept nothing; ENOTTY, EINVAL: an older kernel
        fcntl.ioctl(handle, _GET_INFO, request)
        mask, *_, status = _INFO.unpack(request)
        if mask & _INFO_EXIT:
            return os.waitstatus_to_exitcode(status)
    return None


def _status_of_zombie(process: ProcessId) -> int | None:
    """From the last field of `/proc/PID/stat`, which reads 0 where we have no right to trace the process."""
    folder = PROC / str(process.pid)
    try:
        text = (folder / "stat").read_bytes()
        (folder / "ns/user").readlink()  # needs the same right, and says so
    except OSError:  # no such right; or reaped
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] != b"Z" or int(fields[19]) != process.start:
        return None
    return os.waitstatus_to_exitcode(int(fields[49]))
