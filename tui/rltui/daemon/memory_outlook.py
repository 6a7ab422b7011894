"""What the present config means for the devices: budgets, verdicts, and who must not load just now."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass

from rltui.core.api import ComponentState, Plan
from rltui.core.config_report import Problem
from rltui.core.gpu.forecast import worst_per_component
from rltui.core.gpu.report import GpuBudget, GpuReport, MemoryVerdict
from rltui.core.layout import Layout
from rltui.daemon.component import ComponentRunner
from rltui.daemon.gpu_readings import GpuReadings
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFiles
from rltui.services.config_store import ConfigStore
from rltui.services.memory_plan import MemoryPlan
from rltui.services.of_files import OfFiles

_MEASURES = (ComponentState.WAITING, ComponentState.STARTING)
"""An engine in these states has not measured its device's memory, or is at it."""


@dataclass(frozen=True, slots=True)
class _Claims:
    """What a config says of the devices, whatever is used there."""

    engines: frozenset[str]
    budgets: Mapping[str, tuple[GpuBudget, ...]]
    """By device key."""


class MemoryOutlook:
    """Looks at config, components and the newest reading; changes nothing."""

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
        self._claims = OfFiles(self._claims_on)

    def added(self, report: GpuReport) -> GpuReport:
        """`report` with the budgets of all engines, and verdicts on those that do not run.

        Without them where the config cannot be read, of which the teller tells.
        """
        if not report.devices:
            return report
        try:
            files = self._store.files
            claims = self._claims(files, self._readings.present)
            idle = {name for name, runner in self._runners.items() if not runner.life.alive}
            engines = idle & claims.engines
            verdicts = self._memory.verdicts(report.devices, files, starts=idle) if engines else ()
        except ConfigError:
            return report
        devices = tuple(
            device.model_copy(update={"budgets": claims.budgets[device.key]})
            if device.key in claims.budgets
            else device
            for device in report.devices
        )
        shown = worst_per_component(verdict for verdict in verdicts if verdict.component in engines)
        return report.model_copy(update={"devices": devices, "verdicts": shown})

    def _claims_on(self, files: ConfigFiles, present: Hashable) -> _Claims:
        del present  # other devices are other budgets
        engines = frozenset(name for name in self._runners if self._memory.is_engine(name, files))
        return _Claims(engines, self._memory.budgets(files))

    def of_plan(self, plan: Plan, files: ConfigFiles) -> tuple[MemoryVerdict, ...]:
        """What each start of `plan` will meet at worst with the config `files`.

        Raises:
            ConfigError: if the config cannot be understood.
        """
        devices = self._readings.newest.devices
        ended = {orphan.pid for orphan in plan.free}
        freed = {
            device.key: sum(process.used_bytes or 0 for process in device.processes if process.pid in ended)
            for device in devices
        }
        return worst_per_component(
            self._memory.verdicts(devices, files, starts=plan.start, stops=plan.stop, freed=freed)
        )

    def why_held(self, component: str) -> str | None:
        """The engine that must be ready first, because it measures a device that `component` loads.

        Memory that another process takes while vLLM profiles counts as vLLM's own, and what is given back
        then makes it abort (`reference/vllm.md`, section 5).
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
            measures = self._runners[name].life.state in _MEASURES
            if measures and comes_first and component not in self._layout.needs(name):
                return f"{name} to be ready, which measures the GPU they share while it starts"
        return None

    def reasons(self, plan: Plan, files: ConfigFiles) -> tuple[str, ...]:
        """Which starts of `plan` are held back for that.

        Raises:
            ConfigError: if the config cannot be understood.
        """
        engines = [name for name in plan.start if self._memory.is_engine(name, files)]
        return tuple(
            f"{name} loads when {engine} is ready, which measures the GPU they share while it starts"
            for engine in engines
            for name in self._memory.sharing(engine, files)
            if name in plan.start and name not in engines and name not in self._layout.needs(engine)
        )


def problems_of(verdicts: Collection[MemoryVerdict]) -> tuple[Problem, ...]:
    """The bad ones, as warnings: a person is asked before anything starts against them."""
    return tuple(
        Problem(severity="warning", key="gpu_memory", message=verdict.text)
        for verdict in verdicts
        if verdict.is_bad
    )
