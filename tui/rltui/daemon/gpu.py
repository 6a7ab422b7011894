"""The GPUs as clients see them: read while somebody looks or something runs, with all that is known."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from rltui.core.api import ComponentState, Orphan
from rltui.core.gpu.devices import GpuChoice, is_order_certain
from rltui.core.gpu.history import MemoryHistory, Peaks
from rltui.core.gpu.report import GpuDevice, GpuHistories, GpuReport
from rltui.core.layout import GpuSourceSpec
from rltui.core.text import duration
from rltui.daemon.component import ComponentRunner
from rltui.daemon.forecast import MemoryOutlook
from rltui.errors import RltuiError
from rltui.services.cuda_order import fastest_first
from rltui.services.gpu.accounting import GpuOwners, LivingComponent
from rltui.services.gpu.cuda import in_bus_order
from rltui.services.gpu.memory_plan import read_peaks, write_peaks
from rltui.services.gpu.other_hosts import GpuSources
from rltui.services.gpu.sampling import GpuReadings, GpuSampler

logger = logging.getLogger(__name__)

RECENT = 60
"""Values for the sparkline of a device."""
NOTABLE_GROWTH = 1.01
"""A peak is written down when it is this much above what was written."""
OTHERS = "others"
"""Label, in a history, of all that does not belong to a component of this experiment."""


class GpuPicture:
    """Remembers what it was shown. Lives on the supervisor's loop."""

    def __init__(
        self, experiment: str, runners: Mapping[str, ComponentRunner], outlook: MemoryOutlook
    ) -> None:
        self._runners = runners
        self._outlook = outlook
        self._owners = GpuOwners(experiment)
        self._peaks = Peaks()
        self._written: dict[tuple[str, int], dict[str, int]] = {}
        """(Component, attempt) → peaks as they are on disk."""
        self._histories: dict[str, MemoryHistory] = {}
        self._recent: dict[str, deque[int]] = {}

    def complete(
        self, report: GpuReport, orphans: Sequence[Orphan], *, fastest_first: Sequence[str]
    ) -> GpuReport:
        """`report`, which has just been read, with all that we know besides.

        `fastest_first`: UUIDs in CUDA's own order, where that matters.
        """
        living = [item for runner in self._runners.values() if (item := _living(runner)) is not None]
        report = self._owners.attributed(report, living, orphans, fastest_first=fastest_first)
        for item in living:
            self._begin(item)
        devices = tuple(self._complete(device, report.sampled_at or 0.0) for device in report.devices)
        self._write_peaks()
        return self._outlook.added(report.model_copy(update={"devices": devices}))

    def histories(self) -> GpuHistories:
        """Of every device seen so far."""
        return GpuHistories(histories=tuple(history.history(key) for key, history in self._histories.items()))

    def _complete(self, device: GpuDevice, at: float) -> GpuDevice:
        if device.used_bytes is None or device.total_bytes is None:
            return device
        device = self._peaks.add(device)
        self._histories.setdefault(device.key, MemoryHistory()).add(at, _by_label(device))
        recent = self._recent.setdefault(device.key, deque(maxlen=RECENT))
        recent.append(round(100 * (device.used_bytes or 0) / max(1, device.total_bytes or 0)))
        return device.model_copy(update={"recent": tuple(recent)})

    def _begin(self, item: LivingComponent) -> None:
        if (item.component, item.attempt) not in self._written:
            folder = self._runners[item.component].attempt_dir
            known = read_peaks(folder) if folder is not None else {}
            self._written[item.component, item.attempt] = known
            self._peaks.begin(item.component, item.attempt, known)

    def _write_peaks(self) -> None:
        for (component, attempt), written in self._written.items():
            runner = self._runners[component]
            peaks = self._peaks.of(component)
            grown = any(size > NOTABLE_GROWTH * written.get(key, 0) for key, size in peaks.items())
            if runner.attempt != attempt or runner.attempt_dir is None or not grown:
                continue
            try:
                write_peaks(runner.attempt_dir, peaks)
            except RltuiError as error:  # a full disk: the next growth tries again
                logger.warning("%s", error)
            self._written[component, attempt] = dict(peaks)


def _living(runner: ComponentRunner) -> LivingComponent | None:
    launch, record = runner.launch, runner.record
    if not runner.life.alive or launch is None or record is None or runner.attempt is None:
        return None
    return LivingComponent(
        component=runner.spec.id,
        attempt=runner.attempt,
        root_pids=runner.root_pids,
        is_starting=runner.life.state is ComponentState.STARTING,
        started_at=record.started_at,
        choice=launch.gpus,
        utilization=launch.gpu_memory,
    )


def _by_label(device: GpuDevice) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for share in device.shares:
        label = (share.component if share.owner == "component" else None) or OTHERS
        sizes[label] = sizes.get(label, 0) + share.used_bytes
    return sizes


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
