"""What on the box stands in the way of a start: leftovers, a port, GPU memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from rltui.core.api import Orphan
from rltui.core.command_text import short_command
from rltui.core.gpu.report import GpuReport
from rltui.core.gpu.start_check import lack_of_memory
from rltui.core.gpu.visible import chosen_devices
from rltui.services import processes
from rltui.services.recipe import Launch

NAMED_ORPHANS = 3
"""Most leftover processes named in one reason."""


class Orphans(Protocol):
    """Who knows of processes that outlived their attempt."""

    async def settled(self) -> None:
        """Return when what ended up to now has been looked into."""
        ...

    def of(self, component: str) -> Sequence[Orphan]:
        """Those of one component."""
        ...


class Obstacles:
    """Looks at the box. `read_gpus` gives a reading made after it was asked for."""

    def __init__(self, orphans: Orphans, read_gpus: Callable[[], Awaitable[GpuReport]]) -> None:
        self._orphans = orphans
        self._read_gpus = read_gpus

    async def first(self, component: str, launch: Launch) -> str | None:
        """The first thing in the way, in words that go behind "waits for"; `None` where the way is free."""
        await self._orphans.settled()
        if orphans := self._orphans.of(component):
            return f"{leftovers_text(orphans)} (`rltui orphans --free` ends them)"
        if launch.port is not None and (holders := processes.port_holders(launch.port)):
            return f"port {launch.port}, held by {' and '.join(map(str, holders))}"
        if launch.gpu_memory and launch.gpus.text:
            report = await self._read_gpus()
            return lack_of_memory(chosen_devices(launch.gpus, report.devices), launch.gpu_memory)
        return None


def leftovers_text(orphans: Sequence[Orphan]) -> str:
    """`2 leftover processes of attempt 1: pid 4711 VLLM::EngineCore, …`."""
    named = [
        f"pid {orphan.pid} {short_command(orphan.command)}".rstrip() for orphan in orphans[:NAMED_ORPHANS]
    ]
    if len(orphans) > NAMED_ORPHANS:
        named.append("…")
    word = "process" if len(orphans) == 1 else "processes"
    attempts = {orphan.attempt for orphan in orphans}
    whose = f" of attempt {orphans[0].attempt}" if len(attempts) == 1 and orphans[0].attempt else ""
    return f"{len(orphans)} leftover {word}{whose}: {', '.join(named)}"
