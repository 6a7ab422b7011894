"""What systemd-logind does with a user's processes and files at logout (logind.conf(5))."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rltui.services.processes.details import login_name

_CONFIG_DIRS = ("etc/systemd", "run/systemd", "usr/lib/systemd")
"""The first that has a file of a name wins."""
_LAST_SYSTEM_UID = 999
_TRUE = frozenset({"1", "yes", "y", "true", "t", "on"})


@dataclass(frozen=True, slots=True)
class Logout:
    """Settings of logind.conf(5) about this user's processes and files at logout."""

    kills_processes: bool
    """True if all processes of a session end with it, those in tmux too."""
    removes_ipc: bool
    """Shared memory in /dev/shm and System V IPC are removed with the last session."""


def at_logout(root: Path = Path("/"), *, uid: int | None = None, user: str | None = None) -> Logout | None:
    """Consequences of a logout for the user, by default this one; `None` where no systemd runs. A user who
    lingers keeps shared memory, but not the processes of a session.
    """
    if not (root / "run/systemd/system").is_dir():
        return None
    uid = os.getuid() if uid is None else uid
    user = login_name(uid) if user is None else user
    values = dict(_assignments(root))
    only = values.get("KillOnlyUsers", "").split()
    excluded_users = values.get("KillExcludeUsers", "root").split()
    lingers = (root / "var/lib/systemd/linger" / user).exists()
    return Logout(
        kills_processes=_is_on(values, "KillUserProcesses", default="no")
        and user not in excluded_users
        and (not only or user in only),
        removes_ipc=_is_on(values, "RemoveIPC", default="yes") and uid > _LAST_SYSTEM_UID and not lingers,
    )


def _is_on(values: dict[str, str], key: str, *, default: str) -> bool:
    return (values.get(key) or default).lower() in _TRUE


def _assignments(root: Path) -> Iterator[tuple[str, str]]:
    """Settings of logind's main file, then of its drop-ins by name: the last one counts."""
    folders = [root / folder for folder in _CONFIG_DIRS]
    main = next((folder / "logind.conf" for folder in folders if (folder / "logind.conf").exists()), None)
    drop_ins: dict[str, Path] = {}
    for folder in reversed(folders):
        drop_ins |= {path.name: path for path in (folder / "logind.conf.d").glob("*.conf")}
    for path in (*([main] if main else []), *(drop_ins[name] for name in sorted(drop_ins))):
        yield from _of_file(path)


def _of_file(path: Path) -> Iterator[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not for us to read: the defaults are all that can be said
        return
    for line in lines:
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith(("#", ";")):
            yield key.strip(), value.strip()
