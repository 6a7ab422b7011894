"""Whether the kernel has killed processes for want of memory."""

from __future__ import annotations

import re
from pathlib import Path

_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def oom_kills(root: Path = Path("/")) -> int | None:
    """A counter of which only a rise means something; `None` where the kernel does not tell.

    The sum of the machine's (`/proc/vmstat`, Linux 4.13 on) and this process's control group's: in some
    sandboxes only one of them is visible. A kill may count in both.
    """
    files = [root / "proc/vmstat", *_group_files(root)]
    counts = [count for file in files if (count := _count(file)) is not None]
    return sum(counts) if counts else None


def _group_files(root: Path) -> list[Path]:
    """`memory.events` (version 2) or `memory.oom_control` (version 1), nearest first; one that exists.

    A container often sees its own group mounted as the root of the tree, whatever `/proc/self/cgroup` says.
    """
    try:
        entries = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        entries = []
    candidates: list[Path] = []
    for entry in entries:
        _, controllers, path = entry.split(":", 2)
        if controllers == "":
            candidates.append(root / "sys/fs/cgroup" / path.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            candidates.append(root / "sys/fs/cgroup/memory" / path.lstrip("/") / "memory.oom_control")
    candidates += [
        root / "sys/fs/cgroup/memory.events",
        root / "sys/fs/cgroup/memory/memory.oom_control",
    ]
    return [file for file in candidates if file.exists()][:1]


def _count(file: Path) -> int | None:
    try:
        found = _KILLS.search(file.read_text(encoding="ascii", errors="replace"))
    except OSError:
        return None
    return int(found[1]) if found else None
