"""Processes identified for good, by pid and start time. Read from `/proc`, as `proc(5)` documents it."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rltui.errors import RltuiError

PROC = Path("/proc")
_MAX_LISTINGS = 100
"""Limit of listings of `/proc` per call, on a machine where processes come and go all the time."""


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """One process, distinct from every other that has or will have its pid."""

    pid: int
    start: int
    """Clock ticks from boot to its start (field 22 of `/proc/PID/stat`)."""


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The relevant fields of `/proc/PID/stat`."""

    id: ProcessId
    state: str
    """One letter: `R`, `S`, `D`, `T` (stopped), `Z` (zombie), …"""
    parent: int
    session: int

    @property
    def is_dead(self) -> bool:
        """True if it has ended, whether reaped or not."""
        return self.state in {"Z", "X"}


def read_stat(pid: int) -> ProcessStat | None:
    """None if there is no such process, or it is hidden from us."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - twice as fast
            text = file.read()
    except OSError:  # gone, also between open and read (ESRCH)
        return None
    # The name in parentheses may hold spaces and parentheses of its own.
    fields = text[text.rindex(b")") + 2 :].split()
    identity = ProcessId(pid, int(fields[19]))
    return ProcessStat(identity, fields[0].decode(), int(fields[1]), int(fields[3]))


def read_process_id(pid: int) -> ProcessId | None:
    """None if there is no such process. A zombie still has an id: see `is_alive`."""
    stat = read_stat(pid)
    return stat.id if stat else None


def is_alive(process: ProcessId) -> bool:
    """True if it runs, sleeps or is stopped; a zombie is dead."""
    stat = read_stat(process.pid)
    return stat is not None and stat.id == process and not stat.is_dead


def require_proc() -> None:
    """Raises RltuiError if the system does not show its processes, without which nothing is known to live."""
    if not (PROC / "self").exists():
        raise RltuiError(
            "/proc is not mounted, so running processes cannot be listed", hint="mount -t proc proc /proc"
        )


def living_processes() -> list[ProcessStat]:
    """Every visible process except zombies. Takes about 15 µs for each.

    A program that forks and exits all the time is not missed: if a process ends between the listing and its
    reading, those born since are listed too.

    Raises:
        RltuiError: as `require_proc`.
    """
    require_proc()
    stats: dict[str, ProcessStat | None] = {}
    living: list[ProcessStat] = []
    for _ in range(_MAX_LISTINGS):
        names = [name for name in os.listdir(PROC) if name.isdigit() and name not in stats]  # noqa: PTH208 - 3× slower
        stats.update((name, read_stat(int(name))) for name in names)
        new = [stat for name in names if (stat := stats[name]) is not None and not stat.is_dead]
        living += new
        if len(new) == len(names):
            break
    return living


def descendants(pid: int) -> list[ProcessId]:
    """Living children of `pid`, their children and so on; parents before their children.

    An orphan is only found below its sub-reaper, which for a component's processes is its shim.
    """
    children: dict[int, list[ProcessId]] = {}
    for stat in living_processes():
        children.setdefault(stat.parent, []).append(stat.id)
    processes = list(children.get(pid, ()))
    for process in processes:  # grows while it is walked
        processes.extend(children.get(process.pid, ()))
    return processes


def ancestors(pid: int) -> Iterator[int]:
    """The process itself, its parent and so on, as far up as is visible."""
    while pid > 0 and (stat := read_stat(pid)) is not None:
        yield pid
        pid = stat.parent


def variables_at_start(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty if it is gone, or not ours to read."""
    try:
        text = (PROC / str(pid) / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in text.split("\0"))
    return {name: value for name, _, value in pairs if name}


def command_line(pid: int) -> str:
    """Arguments or title, complete and joined by blanks; `""` if the process is gone."""
    try:
        text = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:  # gone meanwhile
        return ""
    return text.replace(b"\0", b" ").decode(errors="replace").strip()


def boot_identity() -> str:
    """Names this boot and pid namespace, `""` if unknown: recorded pids are meaningless elsewhere."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {(PROC / 'self/ns/pid').readlink()}"
    except OSError:  # hidden in some sandboxes
        return ""


def open_pidfd(process: ProcessId) -> int | None:
    """A descriptor of that very process, to be closed by the caller; None if it has ended.

    Raises:
        OSError: ENOSYS before Linux 5.3 and in some sandboxes; EMFILE.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # The pid cannot change hands while a descriptor holds it, so this check stays true.
    if is_alive(process):
        return handle
    os.close(handle)
    return None


def send_signal(process: ProcessId, number: signal.Signals) -> bool:
    """Signal that very process. False if it has ended.

    Raises:
        PermissionError: It runs as another user.
    """
    with suppress(ProcessLookupError):  # ended between the check and the signal
        try:
            handle = open_pidfd(process)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            if is_alive(process):
                os.kill(process.pid, number)
                return True
            return False
        if handle is None:
            return False
        try:
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
        return True
    return False
