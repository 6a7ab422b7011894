"""What would help a component that ran out of device memory, with config and devices as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rltui.core.config_report import KnobInfo
from rltui.core.gpu.budget import largest_passing_utilization
from rltui.core.gpu.remedies import remedies
from rltui.core.gpu.report import GpuDevice, OutOfMemory, Remedy
from rltui.daemon.component import ComponentRunner
from rltui.daemon.gpu_readings import GpuReadings
from rltui.errors import ConfigError
from rltui.frameworks.memory_levers import LEVERS
from rltui.services.config_store import ConfigStore
from rltui.services.experiment_files import ControlFolder
from rltui.services.gpu_peaks import newest_peaks
from rltui.services.memory_plan import MemoryPlan
from rltui.services.recipe import Recipe


@dataclass(frozen=True, slots=True)
class _Case:
    """All that remedies follow from."""

    memory: OutOfMemory
    knobs: Sequence[KnobInfo]
    component: str
    shares_with: Sequence[str]
    safe_utilization: float | None
    largest_passing: float | None
    peak_bytes: int | None


Advice = tuple[OutOfMemory, tuple[Remedy, ...]]


class RemedyDesk:
    """Advises on failed components. Lives on the supervisor's loop."""

    def __init__(
        self,
        store: ConfigStore,
        recipe: Recipe,
        memory: MemoryPlan,
        control: ControlFolder,
        readings: GpuReadings,
    ) -> None:
        self._store = store
        self._recipe = recipe
        self._memory = memory
        self._control = control
        self._readings = readings
        self._given: dict[str, tuple[_Case, tuple[Remedy, ...]]] = {}
        """By component: the newest advice, and what it was given on."""

    def advice(self, runner: ComponentRunner) -> Advice | None:
        """The error with its device, and remedies, best first; `None` for what did not run out of memory."""
        memory = runner.life.exit.memory if runner.life.exit is not None else None
        if memory is None:
            return None
        try:
            return self._advice(runner.spec.id, memory)
        except ConfigError:  # told by the teller; what failed is still worth telling
            return memory, ()

    def _advice(self, component: str, memory: OutOfMemory) -> Advice:
        files = self._store.files
        device = _device(self._recipe.devices(component, files), memory)
        shares_with = self._memory.sharing(component, files)
        engines = [name for name in (component, *shares_with) if self._memory.is_engine(name, files)]
        trainers = [name for name in (component, *shares_with) if name not in engines]
        key = device.key if device is not None else ""
        peaks = [size for name in trainers if (size := self._peak(name, key)) is not None]
        found = self._remedies(
            _Case(
                memory,
                self._store.rows({}),
                component,
                shares_with,
                safe_utilization=self._safe_utilization(engines, key),
                largest_passing=_largest_passing(device),
                peak_bytes=max(peaks, default=None),
            )
        )
        return memory.model_copy(update={"device": device.index if device is not None else None}), found

    def _remedies(self, case: _Case) -> tuple[Remedy, ...]:
        """Those that break no rule of the framework. Worked out anew only when something has changed."""
        known = self._given.get(case.component)
        if known is not None and known[0] == case:
            return known[1]
        found = remedies(
            case.memory,
            case.knobs,
            LEVERS,
            component=case.component,
            shares_with=case.shares_with,
            safe_utilization=case.safe_utilization,
            largest_passing=case.largest_passing,
            peak_bytes=case.peak_bytes,
        )
        allowed = tuple(remedy for remedy in found if not self._store.preview(remedy.edits).blocked)
        self._given[case.component] = (case, allowed)
        return allowed

    def _safe_utilization(self, engines: Sequence[str], key: str) -> float | None:
        """The smallest that any engine there should have, were everything started anew."""
        everything = self._memory.components
        verdicts = self._memory.verdicts(
            self._readings.newest.devices, self._store.files, starts=everything, stops=everything
        )
        on_device = [v for v in verdicts if v.component in engines and key.endswith(f"/{v.uuid}")]
        return min((v.safe_utilization for v in on_device if v.safe_utilization is not None), default=None)

    def _peak(self, component: str, key: str) -> int | None:
        found = newest_peaks(self._control, component)
        return found[1].get(key) if found is not None else None


def _device(devices: Sequence[GpuDevice], memory: OutOfMemory) -> GpuDevice | None:
    """The one that `cuda:N` means; the only one where the text names none."""
    number = memory.local_device if memory.local_device is not None else 0 if len(devices) == 1 else None
    return devices[number] if number is not None and number < len(devices) else None


def _largest_passing(device: GpuDevice | None) -> float | None:
    if device is None or device.free_bytes is None:
        return None
    return largest_passing_utilization(device, device.free_bytes)
