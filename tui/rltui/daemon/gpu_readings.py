"""The newest reading of the GPUs, and a way to ask for one made from now on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable, Sequence

from rltui.core.gpu.choice import GpuChoice
from rltui.core.gpu.report import GpuDevice, GpuReport
from rltui.core.gpu.visible import chosen_devices

PATIENCE_S = 10.0
"""How long somebody waits for a reading. A driver may hang for minutes, and must not hold everything up."""


class GpuReadings:
    """Shared by the watch, which takes readings, and by those who need them. Lives on one loop."""

    def __init__(self) -> None:
        self.newest = GpuReport(available=False, reason="not read yet")
        self._fastest_first: Sequence[str] = ()
        self._chosen: dict[GpuChoice, tuple[GpuDevice, ...]] = {}
        """Of the newest reading: asked for again and again, for every component."""
        self.wanted = asyncio.Event()
        """Somebody waits for a reading: the next one need not wait for its turn."""
        self._taken = 0
        self._arrived = asyncio.Event()

    @property
    def present(self) -> Hashable:
        """Which devices there are, their size and order. The same value: `chosen` names the same ones."""
        devices = self.newest.devices
        return tuple((device.key, device.label, device.usable_bytes) for device in devices), tuple(
            self._fastest_first
        )

    @property
    def fastest_first(self) -> Sequence[str]:
        """UUIDs in CUDA's own order, where that was asked for."""
        return self._fastest_first

    @fastest_first.setter
    def fastest_first(self, uuids: Sequence[str]) -> None:
        self._fastest_first = uuids
        self._chosen.clear()

    def take(self, report: GpuReport) -> None:
        """A new reading."""
        self.amend(report)
        self._taken += 1
        self._arrived.set()
        self._arrived = asyncio.Event()

    def amend(self, report: GpuReport) -> None:
        """The newest reading with more about it: not a new one."""
        self.newest = report
        self._chosen.clear()

    async def first(self) -> GpuReport:
        """The newest reading, once there is one; what there is where the driver does not answer."""
        return await self._after(1)

    async def fresh(self) -> GpuReport:
        """A reading begun after this call, since the one under way may be older; as `first`."""
        return await self._after(self._taken + 2)

    async def _after(self, count: int) -> GpuReport:
        with contextlib.suppress(TimeoutError):  # the driver hangs: what there is must do
            async with asyncio.timeout(PATIENCE_S):
                while self._taken < count:
                    self.wanted.set()
                    await self._arrived.wait()
        return self.newest

    def chosen(self, choice: GpuChoice) -> tuple[GpuDevice, ...]:
        """The devices of this machine that `choice` names."""
        if choice not in self._chosen:
            self._chosen[choice] = chosen_devices(
                choice, self.newest.devices, fastest_first=self._fastest_first
            )
        return self._chosen[choice]
