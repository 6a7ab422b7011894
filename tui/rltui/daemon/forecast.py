"""GPU memory: the config's demand, verdicts on the starts of a plan, and remedies for a lack of it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from rltui.core.api import Plan
from rltui.core.config_report import Problem
from rltui.core.gpu.budget import largest_passing_utilization
from rltui.core.gpu.forecast import worst_per_component
from rltui.core.gpu.remedies import Case, remedies
from rltui.core.gpu.report import GpuBudget, GpuDevice, MemoryVerdict, OutOfMemory, Remedy
from rltui.core.layout import Layout
from rltui.core.states import ComponentState
from rltui.daemon.component import ComponentRunner
from rltui.errors import ConfigError
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.memory_levers import LEVERS
from rltui.frameworks.roles import TABLES
from rltui.services.config.files import FilesCache
from rltui.services.config.store import ConfigStore
from rltui.services.gpu.memory_plan import MemoryPlan, newest_peaks
from rltui.services.gpu.sampling import GpuReadings
from rltui.services.launch import Launcher
from rltui.services.runs.experiment_files import ControlFolder

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
        store: ConfigStore,
        memory: MemoryPlan,
        readings: GpuReadings,
    ) -> None:
        self._layout = layout
        self._runners = runners
        self._store = store
        self._memory = memory
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
            verdicts = self._memory.verdicts(devices, self._store.files, starts=idle)
        except ConfigError:
            return ()
        return worst_per_component(verdict for verdict in verdicts if verdict.component in engines)

    def _present_demand(self) -> _ConfigDemand:
        return self._demand(self._store.files, self._readings.present)

    def _compute_demand(self, files: ConfigFiles, present: Hashable) -> _ConfigDemand:
        del present  # other devices are other budgets
        engines = frozenset(name for name in self._runners if self._memory.is_engine(name, files))
        return _ConfigDemand(engines, self._memory.budgets(files))

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
        return worst_per_component(
            self._memory.verdicts(devices, files, starts=plan.start, stops=plan.stop, freed=freed)
        )

    def start_blocker(self, component: str) -> str | None:
        """The engine that must be ready first, because it measures a device that `component` loads.

        Memory that another process takes while vLLM profiles counts as vLLM's own, and what is given back
        then makes it abort (`facts/vllm.md`, Memory budget).
        """
        try:
            files = self._store.files
            is_engine = self._memory.is_engine(component, files)
            sharing = self._memory.sharing(component, files)
            engines = [name for name in sharing if self._memory.is_engine(name, files)]
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
        engines = [name for name in plan.start if self._memory.is_engine(name, files)]
        return tuple(
            f"{name} loads once {engine} is ready, {_MEASURES}"
            for engine in engines
            for name in self._memory.sharing(engine, files)
            if name in plan.start and name not in engines and name not in self._layout.needs(engine)
        )


def problems_of(verdicts: Collection[MemoryVerdict], *, standing: bool) -> tuple[Problem, ...]:
    """The bad verdicts, as warnings: a person confirms before anything starts against them."""
    return tuple(
        Problem(severity="warning", key="gpu_memory", message=verdict.text, standing=standing)
        for verdict in verdicts
        if verdict.is_bad
    )


Advice = tuple[OutOfMemory, tuple[Remedy, ...]]


class RemedyAdvisor:
    """Remedies for components that ran out of memory."""

    def __init__(
        self,
        store: ConfigStore,
        launcher: Launcher,
        memory: MemoryPlan,
        control: ControlFolder,
        readings: GpuReadings,
    ) -> None:
        self._store = store
        self._launcher = launcher
        self._memory = memory
        self._control = control
        self._readings = readings
        self._cached: dict[str, tuple[Case, tuple[Remedy, ...]]] = {}
        """Component → its last case, and the remedies for it."""

    def advice(self, runner: ComponentRunner) -> Advice | None:
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

    def _advice(self, component: str, memory: OutOfMemory) -> Advice:
        files = self._store.files
        # the one that `cuda:N` means; the only one where the text names none
        devices = self._launcher.devices(component, files)
        index = memory.local_device if memory.local_device is not None else 0 if len(devices) == 1 else None
        device = devices[index] if index is not None and index < len(devices) else None
        shares_with = self._memory.sharing(component, files)
        engines = [name for name in (component, *shares_with) if self._memory.is_engine(name, files)]
        trainers = [name for name in (component, *shares_with) if name not in engines]
        key = device.key if device is not None else ""
        newest = (newest_peaks(self._control, name) for name in trainers)
        peaks = [size for found in newest if found is not None and (size := found[1].get(key)) is not None]
        free_bytes = device.free_bytes if device is not None else None
        remedies = self._remedies(
            Case(
                memory,
                self._store.rows({}),
                component,
                shares_with,
                tables=TABLES,
                safe_utilization=self._safe_utilization(engines, key),
                largest_passing=None
                if device is None or free_bytes is None
                else largest_passing_utilization(device, free_bytes),
                peak_bytes=max(peaks, default=None),
            )
        )
        return memory.model_copy(update={"device": device.index if device is not None else None}), remedies

    def _remedies(self, case: Case) -> tuple[Remedy, ...]:
        """Remedies that break no rule of the framework. They are computed again only when the case has
        changed.
        """
        cached = self._cached.get(case.component)
        if cached is not None and cached[0] == case:
            return cached[1]
        candidates = remedies(case, LEVERS)
        allowed = tuple(remedy for remedy in candidates if not self._store.preview(remedy.edits).blocked)
        self._cached[case.component] = (case, allowed)
        return allowed

    def _safe_utilization(self, engines: Sequence[str], key: str) -> float | None:
        """The smallest that any engine there should have, were everything started again."""
        everything = self._memory.components
        verdicts = self._memory.verdicts(
            self._readings.newest.devices, self._store.files, starts=everything, stops=everything
        )
        on_device = [v for v in verdicts if v.component in engines and key.endswith(f"/{v.uuid}")]
        return min((v.safe_utilization for v in on_device if v.safe_utilization is not None), default=None)
