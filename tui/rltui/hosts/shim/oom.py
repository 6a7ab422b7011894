# ruff: noqa: PTH110, PTH118, PTH123
"""The kernel's count of the processes that it killed for want of memory."""

from __future__ import annotations

import os


def oom_kills(root: str = "/") -> tuple[int, bool] | None:
    """The count, and True if it is of this process's control group, as of a container, else of the machine;
    `None` if the kernel does not tell. Only an increase is meaningful.

    From `memory.events` of version 2 or `memory.oom_control` of version 1, else `/proc/vmstat` (Linux 4.13
    on). A container often sees its own group as the root of the tree, whatever `/proc/self/cgroup` says.
    """
    tree = os.path.join(root, "sys/fs/cgroup")
    groups = (line.split(":", 2) for line in _lines(os.path.join(root, "proc/self/cgroup")))
    files = []
    for _, controllers, path in groups:
        if controllers == "":
            files.append(f"{tree}{path}/memory.events")
        elif "memory" in controllers.split(","):
            files.append(f"{tree}/memory{path}/memory.oom_control")
    files += [f"{tree}/memory.events", f"{tree}/memory/memory.oom_control"]
    own = next((file for file in files if os.path.exists(file)), None)
    for file in (own, os.path.join(root, "proc/vmstat")):
        for line in _lines(file) if file is not None else ():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.isdecimal():
                return int(count), file == own
    return None


def _lines(path: str) -> list[str]:
    """Read the lines of a file; none if it is missing or cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
