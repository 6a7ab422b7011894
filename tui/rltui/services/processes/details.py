"""What a person wants to know of a process before ending it."""

from __future__ import annotations

import functools
import os
import pwd
import time

from rltui.services.processes.identity import PROC, ProcessId, read_stat

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_TITLE_BYTES = 256
"""How much of a command line is read for a name, which is its first word."""

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""`PROC_PID_INIT_INO` of `linux/proc_ns.h`."""


def age_s(process: ProcessId) -> float:
    """Seconds since it started, at least 0; right also after a suspend or a change of the clock."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - process.start / _TICKS_PER_S)


def is_stopped(process: ProcessId) -> bool:
    """It was stopped, by SIGSTOP or ctrl+z, and does nothing until SIGCONT. False where it has ended."""
    stat = read_stat(process.pid)
    return stat is not None and stat.id == process and stat.state == "T"


def why_it_lives(process: ProcessId) -> str:
    """Why a process that was killed still lives, as far as the kernel tells: `pid 7 dd is in …`."""
    name = f"pid {process.pid} {command_name(process.pid)}".rstrip()
    stat = read_stat(process.pid)
    if stat is None or stat.id != process or stat.is_dead:
        return f"{name} has ended meanwhile"
    owner = uid(process.pid)
    if os.getuid() not in (0, owner):
        return f"{name} belongs to {owner_name(process.pid)}"
    if stat.state != "D":
        return f"{name} is in state {stat.state} and goes on ending"
    where = _where_it_sleeps(process.pid)
    return f"{name} is in an uninterruptible sleep (D){where}, which SIGKILL must wait for"


def _where_it_sleeps(pid: int) -> str:
    """` in nfs_wait_bit_killable`, where the kernel says."""
    try:
        place = (PROC / str(pid) / "wchan").read_text(errors="replace").strip("\0 \n")
    except OSError:  # gone, or hidden
        return ""
    return f" in {place}" if place not in ("", "0") else ""


def command_name(pid: int) -> str:
    """First word of the command line without its folder, `""` where nothing can be read.

    `comm` ends after 15 characters (`VLLM::EngineCor` of vLLM's title), so it serves only where there is no
    command line, as with a process that is ending.
    """
    title = _start_of(pid, "cmdline") or _start_of(pid, "comm")
    word = title.split(b"\0", 1)[0].split(maxsplit=1)[:1]
    name = b"".join(word).rpartition(b"/")[2].decode(errors="replace")
    return "".join(character if character.isprintable() else "?" for character in name)


def uid(pid: int) -> int | None:
    """Whose process it is; `None` where it is gone or hidden. Also told where `hidepid=1` hides all else.

    A process that may not be traced, such as one that has changed its user, counts as root's.
    """
    try:
        return (PROC / str(pid)).stat().st_uid
    except OSError:
        return None


def owner_name(pid: int) -> str | None:
    """Login name of its user, the number where that has none, `None` where the process is gone."""
    number = uid(pid)
    return None if number is None else _login_name(number)


def in_initial_pid_namespace() -> bool:
    """Whether pids here are those of the whole machine, as drivers report them. False also if unknown."""
    try:
        return str((PROC / "self/ns/pid").readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:  # hidden in some sandboxes
        return False


@functools.lru_cache(maxsize=256)
def _login_name(number: int) -> str:
    """Remembered: looking one up may ask a directory service over the network."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _start_of(pid: int, file_name: str) -> bytes:
    try:
        with (PROC / str(pid) / file_name).open("rb") as file:
            return file.read(_TITLE_BYTES)
    except OSError:
        return b""
