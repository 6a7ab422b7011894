"""The report of the GPUs that clients see: readings, completed with owners, budgets and verdicts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from rltui.core.experiment.api import Orphan
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.history import MemoryHistory
from rltui.core.gpu.report import GpuBudget, GpuDevice, GpuHistories, GpuReport, GpuReservation
from rltui.core.gpu.reservations import with_claims
from rltui.services.gpu.account import GpuOwners, Holders, LivingComponent
from rltui.services.gpu.peaks import AttemptPeaks
from rltui.supervisor.component import ComponentRunner
from rltui.supervisor.gpu.forecast import MemoryForecast

_RECENT = 60
"""Values in the sparkline of a device."""
_OTHERS = "others"
"""Label, in a history, of memory that does not belong to a component of this experiment."""


class GpuAccount:
    """Completes readings with owners, peaks, budgets and verdicts."""

    def __init__(
        self,
        experiment: str,
        runners: Mapping[str, ComponentRunner],
        forecast: MemoryForecast,
        reservations: Callable[[], Collection[GpuReservation]],
    ) -> None:
        """`reservations` returns the reservations of other experiments."""
        self._runners = runners
        self._reservations = reservations
        self._forecast = forecast
        self._owners = GpuOwners(experiment)
        self._peaks = AttemptPeaks()
        self._histories: dict[str, MemoryHistory] = {}
        self._recent: dict[str, deque[int]] = {}

    def report(self, reading: GpuReport, orphans: Sequence[Orphan], *, interval_s: float) -> GpuReport:
        living = [
            item for runner in self._runners.values() if (item := _living_component(runner)) is not None
        ]
        for item in living:
            if (handle := self._runners[item.component].handle) is not None:
                self._peaks.follow(item.component, handle.attempt.folder)
        budgets = self._forecast.budgets()
        devices = tuple(
            self._device(device, held, budgets.get(device.key, ()), reading.sampled_at or 0.0)
            for device, held in self._owners.holders(reading.devices, living, orphans)
        )
        self._peaks.save()
        if reservations := self._reservations():
            devices = with_claims(devices, reservations)
        verdicts = self._forecast.of_idle_engines(devices)
        return reading.replace(devices=devices, interval_s=interval_s, verdicts=verdicts)

    def histories(self) -> GpuHistories:
        return GpuHistories(histories=tuple(history.history(key) for key, history in self._histories.items()))

    def _device(
        self, device: GpuDevice, held: Holders, budgets: tuple[GpuBudget, ...], sampled_at: float
    ) -> GpuDevice:
        """With its holders and budgets, and if its memory is known with peaks and its recent use."""
        fields = {"budgets": budgets, **held._asdict()}
        if device.used_bytes is not None and device.total_bytes is not None:
            fields["shares"] = shares = self._peaks.with_peaks(device.key, held.shares)
            sizes: dict[str, int] = {}
            for share in shares:
                label = (share.component if share.owner == "component" else None) or _OTHERS
                sizes[label] = sizes.get(label, 0) + share.used_bytes
            self._histories.setdefault(device.key, MemoryHistory()).add(sampled_at, sizes)
            percents = self._recent.setdefault(device.key, deque(maxlen=_RECENT))
            percents.append(round(100 * device.used_bytes / max(1, device.total_bytes)))
            fields["recent"] = tuple(percents)
        return device.replace(**fields)


def _living_component(runner: ComponentRunner) -> LivingComponent | None:
    """The component as `GpuOwners` needs it; `None` where it does not live.

    All its processes descend from the shim, which inherits orphans, or from the main process.
    """
    launch, record = runner.launch, runner.record
    if not runner.lifecycle.alive or launch is None or record is None or runner.attempt is None:
        return None
    return LivingComponent(
        component=runner.spec.id,
        attempt=runner.attempt,
        root_pids=tuple(process.pid for process in (record.shim, record.main) if process is not None),
        is_starting=runner.lifecycle.state is ComponentState.STARTING,
        started_at=record.started_at,
        choice=launch.gpus,
        utilization=launch.gpu_memory,
    )
