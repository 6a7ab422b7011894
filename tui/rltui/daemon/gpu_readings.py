"""The newest reading of the GPUs, and a way to ask for one made from now on."""

from __future__ import annotations

import asyncio

from rltui.core.gpu.report import GpuReport


class GpuReadings:
    """Shared by the sampler, which takes readings, and by those who need them. Lives on one loop."""

    def __init__(self) -> None:
        self.newest = GpuReport(available=False, reason="not read yet")
        self.wanted = asyncio.Event()
        """Somebody waits for a reading: the sampler need not wait for its next turn."""
        self._taken = 0
        self._arrived = asyncio.Event()

    def take(self, report: GpuReport) -> None:
        """A new reading."""
        self.newest = report
        self._taken += 1
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def fresh(self) -> GpuReport:
        """A reading begun after this call: the one under way may be older."""
        after = self._taken + 2
        while self._taken < after:
            self.wanted.set()
            await self._arrived.wait()
        return self.newest
