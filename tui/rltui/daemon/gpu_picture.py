"""From a bare reading to what clients see: whose memory it is, peaks, budgets, verdicts, history."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence

from rltui.core.api import ComponentState, Orphan
from rltui.core.gpu.history import MemoryHistory
from rltui.core.gpu.peaks import Peaks
from rltui.core.gpu.report import GpuDevice, GpuHistories, GpuReport
from rltui.daemon.component import ComponentRunner
from rltui.daemon.memory_outlook import MemoryOutlook
from rltui.errors import RltuiError
from rltui.services.gpu_owners import GpuOwners, LivingComponent
from rltui.services.gpu_peaks import read_peaks, write_peaks

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
