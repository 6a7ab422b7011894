"""A lock that keeps every other rltui, a supervisor or `rltui set`, from writing config files in a folder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rltui.errors import ConflictError

_WAIT_S = 2.0
"""Longest wait for another writer; a write takes milliseconds unless the disk hangs."""
_POLL_S = 0.02


@contextmanager
def config_lock(files: Iterable[Path], *, wait_s: float = _WAIT_S) -> Iterator[None]:
    """Lock the folders of `files`, links followed. Folders that cannot be locked (NFS) are not protected:
    what others wrote is noticed when contents are compared.

    Raises:
        ConflictError: if another process held one for longer than `wait_s`; names it.
    """
    folders = sorted({file.resolve().parent for file in files})
    deadline = time.monotonic() + wait_s
    with ExitStack() as locks:
        for folder in folders:
            # the descriptor of the folder itself holds its lock, which leaves no file behind
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                while not _acquire(descriptor):
                    if time.monotonic() > deadline:
                        holder = _holder(os.fstat(descriptor).st_ino)
                        raise ConflictError(
                            f"another rltui is writing config files in {folder}: {holder}",
                            hint="nothing was written; try again, or end that process if it hangs",
                        )
                    time.sleep(_POLL_S)
            except BaseException:
                os.close(descriptor)
                raise
            locks.callback(os.close, descriptor)
        yield


def _acquire(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # NFS locks only what is open for writing: there, who writes only compares
        return True
    return True


def _holder(inode: int) -> str:
    """The process that holds the lock, from `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 4242 08:01:131 0
    EOF`.
    """
    try:
        lines = Path("/proc/locks").read_text().splitlines()
        for line in lines:
            fields = line.split()
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
                command = Path(f"/proc/{fields[4]}/cmdline").read_bytes().replace(b"\0", b" ")
                return f"pid {fields[4]} ({command.decode(errors='replace').strip()})"
    except OSError:
        return "a process that cannot be inspected"
    return "a process of another machine or container"
