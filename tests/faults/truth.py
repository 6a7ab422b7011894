"""What really lives, from `/proc` and from what the programs wrote down; nothing of rltui is asked."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Being:
    """A process that a component started, living or not."""

    component: str
    role: str
    """`main`, `double` (a main that found another living) or what kind of descendant."""
    pid: int
    start: int
    """Clock ticks from boot to its start: with the pid it names the process for good."""
    attempt: int
    behaviour: str
    """The words it was told, in alphabetical order."""

    @property
    def state(self) -> str | None:
        """Letter of `proc(5)`, such as `T` for stopped; `None` where it is dead or a zombie."""
        fields = stat_fields(self.pid)
        return fields[0] if fields is not None and int(fields[19]) == self.start else None

    @property
    def is_alive(self) -> bool:
        return self.state is not None


def stat_fields(pid: int) -> list[str] | None:
    """Fields of `/proc/PID/stat` from the third on, `None` for the dead and for zombies."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # gone
        return None
    return None if fields[0] in "ZX" else fields


@dataclass(frozen=True, slots=True)
class Truth:
    """Reads what the programs of `folder` wrote down."""

    folder: Path
    components: tuple[str, ...]

    def beings(self, component: str) -> list[Being]:
        """Everything it ever started, in that order."""
        try:
            lines = (self.folder / f"{component}.pids").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [Being(component=component, **json.loads(line)) for line in lines]

    def living(self, component: str) -> list[Being]:
        """Its living processes, also the orphaned and renamed."""
        return [being for being in self.beings(component) if being.is_alive]

    def main(self, component: str) -> Being | None:
        """Its living main process; of several, the newest."""
        mains = [being for being in self.living(component) if being.role in {"main", "double"}]
        return mains[-1] if mains else None

    def mains(self) -> dict[str, Being]:
        """The living main process of each component that has one."""
        found = ((component, self.main(component)) for component in self.components)
        return {component: main for component, main in found if main is not None}

    def doubles(self) -> list[Being]:
        """Mains that were started beside a living one."""
        return [
            being
            for component in self.components
            for being in self.beings(component)
            if being.role == "double"
        ]

    def printed(self, component: str, attempt: int) -> int:
        """The last number it has certainly printed, -1 where it printed none."""
        try:
            data = (self.folder / f"{component}-{attempt}.count").read_bytes()
        except FileNotFoundError:
            return -1
        return int(struct.unpack("q", data)[0]) if data else -1


def tagged(tag: str) -> list[int]:
    """Pids of living processes that carry `RLTUI_EXPERIMENT=tag`: components and their descendants."""
    wanted = f"RLTUI_EXPERIMENT={tag}".encode()
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # gone, or another user's
                continue
    return found


def read_numbers(log: bytes) -> list[int]:
    """The numbers of the `count` lines; an unfinished last line is left out."""
    whole = log[: log.rfind(b"\n") + 1]
    return [int(line[6:]) for line in whole.split(b"\n") if line.startswith(b"count ")]
