"""The newest reading of the GPUs, and a way to ask for one made from now on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rltui.core.gpu.choice import GpuChoice
from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.core.gpu.visible import chosen_devices

PATIENCE_S = 10.0
"""How long somebody waits for a reading. A driver may hang for minutes, and must not hold everything up."""


class GpuReadings:
    """Shared by the watch, which takes readings, and by those who need them. Lives on one loop."""

    def __init__(self) -> None:
        self.newest = GpuReport(available=False, reason="not read yet")
        self.fastest_first: Sequence[str] = ()
        """UUIDs in CUDA's own order, where that was asked for."""
        self.wanted = asyncio.Event()
        """Somebody waits for a reading: the next one need not wait for its turn."""
        self._taken = 0
        self._arrived = asyncio.Event()

    def take(self, report: GpuReport) -> None:
        """A new reading."""
        self.newest = report
        self._taken += 1
        self._arrived.set()
        self._arrived = asyncio.Event()

    def amend(self, report: GpuReport) -> None:
        """The newest reading with more about it: not a new one."""
        self.newest = report

    async def first(self) -> GpuReport:
        """The newest reading, once there is one; what there is where the driver does not answer."""
        return await self._after(1)

    async def fresh(self) -> GpuReport:
        """A reading begun after this call, since the one under way may be older; as `first`."""
        return await self._after(self._taken + 2)

    async def _after(self, count: int) -> GpuReport:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self._taken < count:
                    self.wanted.set()
                    await self._arrived.wait()
        except TimeoutError:
            pass
        return self.newest

    def chosen(self, choice: GpuChoice) -> tuple[GpuDevice, ...]:
        """The devices of this machine that `choice` names."""
        return chosen_devices(choice, self.newest.devices, fastest_first=self.fastest_first)
