"""What on the box stands in the way of a start: leftovers, a port, GPU memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from rltui.core.api import Orphan
from rltui.core.gpu.devices import chosen_devices
from rltui.core.gpu.forecast_text import lack_of_memory
from rltui.core.gpu.report import GpuReport
from rltui.services import processes
from rltui.services.launch import Launch
from rltui.services.orphans import leftovers_text
from rltui.services.probes import served_model


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
            model = await asyncio.to_thread(served_model, launch.port)
            server = f" (a server is already there, serving {model})" if model else ""
            return f"port {launch.port}, held by {' and '.join(map(str, holders))}{server}"
        if not launch.gpus.text:
            return None
        # Read for every start: what others hold by now must not be counted as this component's, where that
        # has to be estimated from changes.
        report = await self._read_gpus()
        if not launch.gpu_memory:
            return None
        return lack_of_memory(chosen_devices(launch.gpus, report.devices), launch.gpu_memory)
