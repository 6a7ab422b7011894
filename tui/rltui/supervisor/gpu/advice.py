"""Advice to components that ran out of GPU memory: the device, and edits that break no rule."""

from __future__ import annotations

from rltui.core.gpu.advice import MemoryFailure, advise
from rltui.core.gpu.budget import largest_passing_utilization
from rltui.core.gpu.forecast import Forecast
from rltui.core.gpu.report import GpuDevice, OutOfMemory, Remedy
from rltui.errors import ConfigError
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.memory_levers import LEVERS
from rltui.frameworks.roles import TABLES
from rltui.services.config.document import ConfigDocument
from rltui.services.experiment.launch import Launcher
from rltui.services.gpu.assignment import assigned_devices
from rltui.services.gpu.forecast import Forecaster
from rltui.services.gpu.sampling import GpuReadings
from rltui.supervisor.component import ComponentRunner
from rltui.views.gpu.advice import remedy


class RemedyAdvisor:
    """Remedies for components that ran out of memory."""

    def __init__(
        self, document: ConfigDocument, launcher: Launcher, forecaster: Forecaster, readings: GpuReadings
    ) -> None:
        self._document = document
        self._launcher = launcher
        self._forecaster = forecaster
        self._readings = readings
        self._cached: dict[str, tuple[MemoryFailure, tuple[Remedy, ...]]] = {}
        """Component → its last failure, and the remedies for it."""

    def advice(self, runner: ComponentRunner) -> tuple[OutOfMemory, tuple[Remedy, ...]] | None:
        """The error with its device, and remedies, best first; `None` for one that did not run
        out of memory.
        """
        memory = runner.lifecycle.exit.memory if runner.lifecycle.exit is not None else None
        if memory is None:
            return None
        try:
            return self._advice(runner.spec.id, memory)
        except ConfigError:  # reported by others; the failure itself is still worth showing
            return memory, ()

    def _advice(self, component: str, memory: OutOfMemory) -> tuple[OutOfMemory, tuple[Remedy, ...]]:
        files = self._document.files
        # the one that `cuda:N` means; the only one where the text names none
        devices = assigned_devices(component, self._launcher.context(files))
        index = memory.local_device if memory.local_device is not None else 0 if len(devices) == 1 else None
        device = devices[index] if index is not None and index < len(devices) else None
        forecasts = () if device is None else self._restart_of_all(files, device)
        safe = [one.safe for one in forecasts if one.user.engine is not None and one.safe is not None]
        users = forecasts[0].plan.users if forecasts else ()
        peaks = [
            user.peak_bytes[device.key]
            for user in users
            if user.engine is None and device is not None and device.key in user.peak_bytes
        ]
        usable, free = (None, None) if device is None else (device.usable_bytes, device.free_bytes)
        remedies = self._remedies(
            MemoryFailure(
                memory,
                self._document.rows({}),
                component,
                self._forecaster.sharing(component, files),
                tables=TABLES,
                safe_utilization=min(safe, default=None),
                largest_passing=largest_passing_utilization(usable, free)
                if usable and free is not None
                else None,
                peak_bytes=max(peaks, default=None),
            )
        )
        return memory.replace(device=device.index if device is not None else None), remedies

    def _restart_of_all(self, files: ConfigFiles, device: GpuDevice) -> list[Forecast]:
        """The forecasts for this device, were everything started again."""
        everything, devices = self._forecaster.components, self._readings.newest.devices
        forecasts = self._forecaster.forecast(devices, files, starts=everything, stops=everything)
        return [one for one in forecasts if one.plan.device.key == device.key]

    def _remedies(self, failure: MemoryFailure) -> tuple[Remedy, ...]:
        """Remedies that break no rule of the framework. They are computed again only when the failure has
        changed.
        """
        cached = self._cached.get(failure.component)
        if cached is not None and cached[0] == failure:
            return cached[1]
        allowed = tuple(
            remedy(failure, advice)
            for advice in advise(failure, LEVERS)
            if not self._document.with_edits(advice.edits).blocked
        )
        self._cached[failure.component] = (failure, allowed)
        return allowed
