"""Details of a process that a person needs before stopping it."""

from __future__ import annotations

import functools
import os
import pwd
import time

from rltui.services.processes.identity import PROC, ProcessId, read_stat

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_TITLE_BYTES = 256
"""Length of the part of a command line that is read for a name, its first word."""

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""Value of `PROC_PID_INIT_INO` in `linux/proc_ns.h`."""


def age_s(process: ProcessId) -> float:
    """Seconds since it started, at least 0; correct also after a suspend or a change of the clock."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - process.start / _TICKS_PER_S)


def is_stopped(process: ProcessId) -> bool:
    """True if it was stopped, by SIGSTOP or ctrl+z, and does nothing until SIGCONT. False if it has ended."""
    stat = read_stat(process.pid)
    return stat is not None and stat.id == process and stat.state == "T"


def survival_reason(process: ProcessId) -> str:
    """The reason why a process that was killed still lives, as far as the kernel shows it: `pid 7 dd is in
    …`.
    """
    name = f"pid {process.pid} {command_name(process.pid)}".rstrip()
    stat = read_stat(process.pid)
    if stat is None or stat.id != process or stat.is_dead:
        return f"{name} has already ended"
    owner = uid(process.pid)
    if os.getuid() not in (0, owner):
        return f"{name} belongs to {owner_name(process.pid)}"
    if stat.state != "D":
        return f"{name} is still ending (state {stat.state})"
    wait_text = _wait_channel(process.pid)
    return f"{name} is in an uninterruptible sleep (D){wait_text}; SIGKILL takes effect only afterwards"


def _wait_channel(pid: int) -> str:
    """Text like ` in nfs_wait_bit_killable`, if the kernel shows it."""
    try:
        function = (PROC / str(pid) / "wchan").read_text(errors="replace").strip("\0 \n")
    except OSError:  # gone, or hidden
        return ""
    return f" in {function}" if function not in ("", "0") else ""


def command_name(pid: int) -> str:
    """First word of the command line without its folder, `""` if nothing can be read.

    `comm` ends after 15 characters (`VLLM::EngineCor` of vLLM's title), so it is used only if there is no
    command line, as for a process that is ending.
    """
    title = _start_of(pid, "cmdline") or _start_of(pid, "comm")
    words = title.split(b"\0", 1)[0].split(maxsplit=1)[:1]
    name = b"".join(words).rpartition(b"/")[2].decode(errors="replace")
    return "".join(character if character.isprintable() else "?" for character in name)


def uid(pid: int) -> int | None:
    """User id of the owner; `None` if it is gone or hidden. Visible even if `hidepid=1` hides all else.

    A process that may not be traced, such as one that has changed its user, counts as root's.
    """
    try:
        return (PROC / str(pid)).stat().st_uid
    except OSError:
        return None


def owner_name(pid: int) -> str | None:
    """Login name of its user, the number if that has none, `None` if the process is gone."""
    number = uid(pid)
    return None if number is None else login_name(number)


def in_initial_pid_namespace() -> bool:
    """True if pids here are those of the machine, as drivers report them. False also if unknown."""
    try:
        return str((PROC / "self/ns/pid").readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:  # hidden in some sandboxes
        return False


@functools.lru_cache(maxsize=256)
def login_name(number: int) -> str:
    """The number where there is none. Cached: a lookup may ask a directory service over the network."""
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
