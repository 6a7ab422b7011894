"""Processes named for good: pid and start time. Read from `/proc`, as `proc(5)` documents it."""

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
_LISTINGS = 100
"""Of `/proc`, for one look at all processes, on a machine where they come and go all the time."""


@dataclass(frozen=True, slots=True, order=True)
class ProcessId:
    """One process, distinct from every other that has or will have its pid."""

    pid: int
    start: int
    """Clock ticks from boot to its start (field 22 of `/proc/PID/stat`)."""


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The fields of `/proc/PID/stat` that matter here."""

    id: ProcessId
    state: str
    """One letter: `R`, `S`, `D`, `T` (stopped), `Z` (zombie), …"""
    parent: int
    session: int

    @property
    def is_dead(self) -> bool:
        """Ended and maybe not reaped yet."""
        return self.state in {"Z", "X"}


def read_stat(pid: int) -> ProcessStat | None:
    """None where there is no such process, or where we may not see it."""
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
    """None where there is no such process. A zombie still has one: see `is_alive`."""
    stat = read_stat(pid)
    return stat.id if stat else None


def is_alive(process: ProcessId) -> bool:
    """It runs, sleeps or is stopped; a zombie is dead."""
    stat = read_stat(process.pid)
    return stat is not None and stat.id == process and not stat.is_dead


def need_processes() -> None:
    """Raises RltuiError where the system does not show its processes, by which all that lives is known."""
    if not (PROC / "self").exists():
        raise RltuiError("there is no /proc here, which tells what runs", hint="mount -t proc proc /proc")


def living_processes() -> list[ProcessStat]:
    """Every visible process but zombies. Takes about 15 µs for each.

    A program that forks and exits all the time is not missed: where a process ends between the listing and
    its reading, those born since are listed too.

    Raises:
        RltuiError: as `need_processes`.
    """
    need_processes()
    stats: dict[str, ProcessStat | None] = {}
    living: list[ProcessStat] = []
    for _ in range(_LISTINGS):
        names = [name for name in os.listdir(PROC) if name.isdigit() and name not in stats]  # noqa: PTH208 - 3× slower
        stats.update((name, read_stat(int(name))) for name in names)
        fresh = [stat for name in names if (stat := stats[name]) is not None and not stat.is_dead]
        living += fresh
        if len(fresh) == len(names):
            break
    return living


def descendants(pid: int) -> list[ProcessId]:
    """Living children of `pid`, their children and so on; parents before their children.

    An orphan is only found below its sub-reaper, which for a component's processes is its shim.
    """
    children: dict[int, list[ProcessId]] = {}
    for stat in living_processes():
        children.setdefault(stat.parent, []).append(stat.id)
    found = list(children.get(pid, ()))
    for process in found:  # grows while it is walked
        found.extend(children.get(process.pid, ()))
    return found


def ancestors(pid: int) -> Iterator[int]:
    """The process itself, its parent and so on, as far up as can be seen."""
    while pid > 0 and (stat := read_stat(pid)) is not None:
        yield pid
        pid = stat.parent


def command_line(pid: int) -> str:
    """Arguments or title, joined by blanks and in full; `""` where the process is gone."""
    try:
        text = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:  # gone meanwhile
        return ""
    return text.replace(b"\0", b" ").decode(errors="replace").strip()


def boot_identity() -> str:
    """Names this boot and pid namespace, `""` where unknown: recorded pids mean nothing elsewhere."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {(PROC / 'self/ns/pid').readlink()}"
    except OSError:  # hidden in some sandboxes
        return ""


def open_pidfd(process: ProcessId) -> int | None:
    """A descriptor of that very process, to be closed by the caller; None where it has ended.

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
    """Signal that very process. False where it has ended.

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
