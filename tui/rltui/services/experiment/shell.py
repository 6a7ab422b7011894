"""The shell that an experiment was started from: limits, CPUs, umask and long variables of its components.

A component is started by the tmux server, which has those of the shell that happened to start it. Variables
travel over tmux's socket, which takes 16 KiB each; longer ones, which are hardly secrets, are stored here.
"""

from __future__ import annotations

import json
import os
import re
import resource
from pathlib import Path
from typing import Any

from rltui.base.interpreter import OUTER_VARIABLES
from rltui.errors import RltuiError
from rltui.services.experiment.files import ControlFolder
from rltui.services.own_files import read_own, write_atomically
from rltui.services.processes.identity import require_proc

_FILE = "shell.json"
_LONGEST_VARIABLE = 8000
"""Bytes of a variable, with its name, that tmux certainly passes on."""
_FEWEST_FILES = 128
"""Number of open files that a supervisor, its tmux server and its clients need at least."""
_ENOUGH_FILES = 4096
_FILES = {"NOFILE": resource.getrlimit(resource.RLIMIT_NOFILE)}
"""Limits of the shell; `make_room_for_files` may raise them in this process."""
_UMASK = re.compile(r"^Umask:\s*([0-7]+)$", re.MULTILINE)


def save_shell(control: ControlFolder) -> None:
    """Store this process's shell settings.

    Raises:
        RltuiError: if they cannot be written.
    """
    require_proc()
    umask = _UMASK.search(Path("/proc/self/status").read_text(encoding="ascii", errors="replace"))
    values = {
        "limits": {name: resource.getrlimit(number) for name, number in _limits().items()} | _FILES,
        "affinity": sorted(os.sched_getaffinity(0)),
        "umask": int(umask[1], 8) if umask else None,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "environment": {
            name: value
            for name, value in os.environ.items()
            if len(os.fsencode(name + value)) > _LONGEST_VARIABLE and name not in OUTER_VARIABLES
        },
    }
    write_atomically(control.path / _FILE, json.dumps(values).encode())


def read_shell(control: ControlFolder) -> dict[str, Any]:
    """The stored settings; empty if there are none, or they cannot be parsed."""
    try:
        values = json.loads(read_own(control.path / _FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def make_room_for_files() -> None:
    """Raise the limit of open files of this process, and so of a tmux server that it starts.

    Raises:
        RltuiError: if that is not allowed here.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _FEWEST_FILES:
        raise RltuiError(
            f"this shell allows {hard} open files, and rltui needs {_FEWEST_FILES}",
            hint=f"raise the limit (ulimit -n); a container may need --ulimit nofile={_ENOUGH_FILES}",
        )
    target = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def _limits() -> dict[str, int]:
    """Name without `RLIMIT_` → number, as available on this system. `OFILE` is another name for `NOFILE`."""
    prefix = "RLIMIT_"
    names = [name for name in dir(resource) if name.startswith(prefix) and name != "RLIMIT_OFILE"]
    return {name.removeprefix(prefix): getattr(resource, name) for name in names}
