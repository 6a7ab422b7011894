# ruff: noqa: PTH115, PTH123
"""One process, named for good by its pid and start time.

The little of `services/processes/identity.py` that a shim needs, without its imports.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal


def read_stat(pid: int) -> list[bytes] | None:
    """Fields of `/proc/PID/stat` from the third on (state, ppid, …), None where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:  # gone, or hidden by hidepid: not ours in either case
        return None
    return text[text.rindex(b")") + 2 :].split()


def start_ticks(pid: int) -> int | None:
    """Start time in clock ticks since boot; with the pid it names a process for good."""
    fields = read_stat(pid)
    return int(fields[19]) if fields else None


def boot_identity() -> str:
    """Names this boot and pid namespace: pids and sessions recorded elsewhere mean nothing here."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # some sandboxes hide both; the record then says "unknown"
        return ""


def send_signal(pid: int, start: int, number: int) -> None:
    """Signal that very process, never another one that got its pid."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # died meanwhile; runs as another user
        try:
            handle = os.pidfd_open(pid)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            if start_ticks(pid) == start:  # Linux before 5.3
                os.kill(pid, number)
            return
        try:
            if start_ticks(pid) == start:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
