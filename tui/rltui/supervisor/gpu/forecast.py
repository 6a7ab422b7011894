"""Forecasts of starts for the experiment as it is now: budgets, verdicts, components that must wait."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from rltui.core.config.report import Problem
from rltui.core.experiment.api import Plan
from rltui.core.experiment.layout import Layout
from rltui.core.experiment.states import ComponentState
from rltui.core.gpu.budget import EngineMemory, EngineRules
from rltui.core.gpu.devices import chosen_devices
from rltui.core.gpu.forecast import refused_start
from rltui.core.gpu.report import GpuBudget, GpuDevice, MemoryVerdict
from rltui.errors import ConfigError
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.config.document import ConfigDocument
from rltui.services.config.files import FilesCache
from rltui.services.experiment.launch import Launch
from rltui.services.gpu.forecast import Forecaster
from rltui.services.gpu.sampling import GpuReadings
from rltui.supervisor.component import ComponentRunner
from rltui.views.gpu.forecast import wait_text, worst_verdicts

_MEASURING_STATES = (ComponentState.WAITING, ComponentState.STARTING)
"""An engine in these states has not measured its device's memory, or is at it."""
_MEASURES = "which measures the shared GPU while it starts"


@dataclass(frozen=True, slots=True)
class _ConfigDemand:
    """The config's demand on the devices, independent of their present use."""

    engines: frozenset[str]
    budgets: Mapping[str, tuple[GpuBudget, ...]]
    """Device key → budget of each engine there."""


class MemoryForecast:
    """Reads config, components and the newest report; changes nothing."""

    def __init__(
        self,
        layout: Layout,
        runners: Mapping[str, ComponentRunner],
        document: ConfigDocument,
        forecaster: Forecaster,
        readings: GpuReadings,
    ) -> None:
        self._layout = layout
        self._runners = runners
        self._document = document
        self._forecaster = forecaster
        self._readings = readings
        self._demand = FilesCache(self._compute_demand)

    def budgets(self) -> Mapping[str, tuple[GpuBudget, ...]]:
        """Device key → budgets of all engines there.

        Empty where the config cannot be read, which others report.
        """
        try:
            return self._present_demand().budgets
        except ConfigError:
            return {}

    def of_idle_engines(self, devices: Sequence[GpuDevice]) -> tuple[MemoryVerdict, ...]:
        """The worst verdict of each engine that does not run; empty as for `budgets`."""
        try:
            idle = {name for name, runner in self._runners.items() if not runner.lifecycle.alive}
            engines = idle & self._present_demand().engines
            if not devices or not engines:
                return ()
            forecasts = self._forecaster.forecast(devices, self._document.files, starts=idle)
        except ConfigError:
            return ()
        return worst_verdicts(forecast for forecast in forecasts if forecast.user.component in engines)

    def _present_demand(self) -> _ConfigDemand:
        return self._demand(self._document.files, self._readings.present)

    def _compute_demand(self, files: ConfigFiles, present: Hashable) -> _ConfigDemand:
        del present  # other devices are other budgets
        engines = frozenset(name for name in self._runners if self._forecaster.is_engine(name, files))
        return _ConfigDemand(engines, self._forecaster.budgets(files))

    def of_plan(self, plan: Plan, files: ConfigFiles) -> tuple[MemoryVerdict, ...]:
        """The worst verdict of each start of `plan`, with the config `files`.

        Raises:
            ConfigError: if the config cannot be understood.
        """
        devices = self._readings.newest.devices
        freed_pids = {orphan.pid for orphan in plan.free}
        freed = {
            device.key: sum(
                process.used_bytes or 0 for process in device.processes if process.pid in freed_pids
            )
            for device in devices
        }
        return worst_verdicts(
            self._forecaster.forecast(devices, files, starts=plan.start, stops=plan.stop, freed=freed)
        )

    def start_blocker(self, component: str) -> str | None:
        """The engine that must be ready first, because it measures a device that `component` loads.

        Memory that another process takes while vLLM profiles counts as vLLM's own, and what is given back
        then makes it abort (`facts/vllm.md`, Memory budget).
        """
        try:
            files = self._document.files
            is_engine = self._forecaster.is_engine(component, files)
            sharing = self._forecaster.sharing(component, files)
            engines = [name for name in sharing if self._forecaster.is_engine(name, files)]
        except ConfigError:
            return None
        order = self._layout.start_order()
        for name in engines:
            comes_first = not is_engine or order.index(name) < order.index(component)
            measures = self._runners[name].lifecycle.state in _MEASURING_STATES
            if measures and comes_first and component not in self._layout.needs(name):
                return f"{name} to be ready, {_MEASURES}"
        return None

    def reasons(self, plan: Plan, files: ConfigFiles) -> tuple[str, ...]:
        """Sentences about starts of `plan` that wait for such an engine.

        Raises:
            ConfigError: if the config cannot be understood.
        """
        engines = [name for name in plan.start if self._forecaster.is_engine(name, files)]
        return tuple(
            f"{name} loads once {engine} is ready, {_MEASURES}"
            for engine in engines
            for name in self._forecaster.sharing(engine, files)
            if name in plan.start and name not in engines and name not in self._layout.needs(engine)
        )


def problems_of(verdicts: Collection[MemoryVerdict], *, standing: bool) -> tuple[Problem, ...]:
    """The bad verdicts, as warnings: a person confirms before anything starts against them."""
    return tuple(
        Problem(
            severity="warning", key="gpu_memory", message=verdict.text, standing=standing, code="gpu_memory"
        )
        for verdict in verdicts
        if verdict.is_bad
    )


def memory_obstacle(
    component: str, launch: Launch, devices: Sequence[GpuDevice], rules: EngineRules
) -> str | None:
    """The memory that an engine lacks to start this moment, as text that continues "waits for"."""
    if not launch.gpu_memory:
        return None
    engine = EngineMemory(component, launch.gpu_memory, rules=rules)
    refused = refused_start(chosen_devices(launch.gpus, devices), engine)
    return None if refused is None else wait_text(refused)
