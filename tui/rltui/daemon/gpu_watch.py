"""Reads the GPUs, as often as somebody looks or something runs, and tells what they hold."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence

from rltui.core.api import Orphan
from rltui.core.gpu.choice import GpuChoice
from rltui.core.gpu.report import GpuReport
from rltui.core.gpu.visible import is_order_certain
from rltui.core.layout import GpuSourceSpec
from rltui.core.text import duration
from rltui.daemon.gpu_picture import GpuPicture
from rltui.daemon.gpu_readings import GpuReadings
from rltui.daemon.gpu_sources import GpuSources
from rltui.services.cuda_devices import in_bus_order
from rltui.services.cuda_order import fastest_first
from rltui.services.gpu_sampler import GpuSampler

WATCHED_S = 1.0
UNWATCHED_S = 5.0
"""While components live and nobody looks: short enough to see most of a trainer's peak."""
IDLE_S = 10.0
ABSENT_S = 30.0
"""Where there is no GPU: a driver may be loaded later."""
LOOK_S = 1.0
"""Between two looks at how often to read, and whether the driver still answers."""
STUCK_S = 10.0
"""A reading that takes this long has met a driver that hangs."""


class GpuWatch:
    """The readings of this machine and those of other hosts, as one report."""

    def __init__(
        self,
        readings: GpuReadings,
        picture: GpuPicture,
        *,
        source_specs: Callable[[], tuple[Sequence[GpuSourceSpec], str | None]],
        orphans: Callable[[], Sequence[Orphan]],
        is_watched: Callable[[], bool],
        is_busy: Callable[[], bool],
        publish: Callable[[GpuReport], None],
    ) -> None:
        """`source_specs` also says why they must not be run, and is asked again until they may.

        `is_busy`: some component lives. `publish` passes a new report on.
        """
        self._readings = readings
        self._picture = picture
        self._source_specs = source_specs
        self._sources = GpuSources((), self._sources_changed)
        self._orphans = orphans
        self._is_watched = is_watched
        self._is_busy = is_busy
        self._publish = publish
        self._local = readings.newest
        """The newest report of this machine alone."""
        self._asked_for_order = in_bus_order(os.environ)

    async def run(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()

        def take(report: GpuReport) -> None:
            """Called in the sampler's thread."""
            loop.call_soon_threadsafe(self._take, report)

        sampler = GpuSampler(take)
        sampler.set_interval(self._interval_s())
        sampler.start()
        sources: asyncio.Task[None] | None = None
        try:
            while True:
                sources = sources or self._begun_sources()
                wanted = self._readings.wanted
                with contextlib.suppress(TimeoutError):  # nobody waits for one
                    async with asyncio.timeout(LOOK_S):
                        await wanted.wait()
                    wanted.clear()
                    sampler.read_now()
                sampler.set_interval(self._interval_s())
                if sampler.stuck_s > STUCK_S:
                    self._tell_stuck()
                if not self._asked_for_order:
                    await self._ask_for_order()
        finally:
            sampler.close()
            if sources is not None:
                sources.cancel()
                await asyncio.wait([sources])

    def _begun_sources(self) -> asyncio.Task[None] | None:
        specs, problem = self._source_specs()
        self._sources = GpuSources(specs, self._sources_changed, problem=problem)
        return None if problem else asyncio.create_task(self._sources.run(), name="gpu sources")

    def _sources_changed(self) -> None:
        """Another host has reported: pass it on with what is known of this one."""
        self._amend(self._local)

    def _interval_s(self) -> float:
        if not self._local.available:
            return ABSENT_S
        if self._is_watched():
            return WATCHED_S
        return UNWATCHED_S if self._is_busy() else IDLE_S

    def _take(self, report: GpuReport) -> None:
        self._local = self._picture.complete(
            report, self._orphans(), fastest_first=self._readings.fastest_first
        )
        whole = self._with_other_hosts(self._local)
        self._readings.take(whole)
        self._publish(whole)

    def _amend(self, local: GpuReport) -> None:
        self._local = local
        whole = self._with_other_hosts(local)
        self._readings.amend(whole)
        self._publish(whole)

    def _with_other_hosts(self, local: GpuReport) -> GpuReport:
        devices = (*local.devices, *self._sources.devices())
        return local.model_copy(update={"devices": devices, "sources": self._sources.sources()})

    def _tell_stuck(self) -> None:
        """Once: what was read before stays, and grows old."""
        reason = f"the NVIDIA driver has not answered for {duration(STUCK_S)} and more"
        if self._local.reason != reason:
            self._amend(self._local.model_copy(update={"reason": reason}))

    async def _ask_for_order(self) -> None:
        """Numbers in `CUDA_VISIBLE_DEVICES` count in CUDA's own order here, which only CUDA knows."""
        devices = self._local.devices
        if devices and not is_order_certain(GpuChoice(None, by_bus=False), devices):
            self._readings.fastest_first = await asyncio.to_thread(fastest_first)
            self._asked_for_order = True
