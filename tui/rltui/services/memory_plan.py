"""What the devices' memory will do if components start: config, models and earlier attempts put together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rltui.core.gpu.budget import budget_bytes
from rltui.core.gpu.forecast import forecast
from rltui.core.gpu.memory_user import MemoryUser
from rltui.core.gpu.report import GpuBudget, GpuDevice, MemoryVerdict
from rltui.core.knobs import TomlValue, shown
from rltui.core.layout import Layout
from rltui.frameworks.base import ConfigFiles, Framework, values_of
from rltui.frameworks.generic import ANY_COMPONENT
from rltui.frameworks.memory_levers import LEVERS
from rltui.services.config_store import load_snapshot
from rltui.services.engine_knowledge import EngineKnowledge
from rltui.services.experiment_files import ControlFolder
from rltui.services.gpu_peaks import newest_peaks
from rltui.services.of_files import OfFiles
from rltui.services.recipe import Recipe


class MemoryPlan:
    """Forecasts for one experiment. Reads small files; blocking, for some milliseconds at most."""

    def __init__(
        self,
        *,
        layout: Layout,
        framework: Framework,
        recipe: Recipe,
        control: ControlFolder,
        workspace: Path,
    ) -> None:
        """`control` holds the earlier attempts, if there are any."""
        self._layout = layout
        self.components = layout.start_order()
        """Ids, in start order."""
        self._framework = framework
        self._recipe = recipe
        self._control = control
        self._engines = EngineKnowledge(framework, control, workspace)
        self._what_changed = OfFiles(self._compare)

    def budgets(self, files: ConfigFiles) -> dict[str, tuple[GpuBudget, ...]]:
        """By device key: what the engines may take there.

        Raises:
            ConfigError: if layout or config cannot be understood.
        """
        found: dict[str, tuple[GpuBudget, ...]] = {}
        for component in self.components:
            if (engine := self._recipe.engine(component, files)) is None:
                continue
            for device in self._recipe.devices(component, files):
                if (size := budget_bytes(device, engine.utilization)) is not None:
                    budget = GpuBudget(component=component, utilization=engine.utilization, budget_bytes=size)
                    found[device.key] = (*found.get(device.key, ()), budget)
        return found

    def verdicts(
        self,
        devices: Sequence[GpuDevice],
        files: ConfigFiles,
        *,
        starts: Collection[str],
        stops: Collection[str] = (),
        freed: Mapping[str, int] | None = None,
    ) -> tuple[MemoryVerdict, ...]:
        """What the components in `starts` will meet, once those in `stops` are gone, in start order.

        Jobs that only prepare something are left out: they are gone when the others come.

        `freed`: bytes that are given back besides, by device key.

        Raises:
            ConfigError: if layout or config cannot be understood.
        """
        lasting = [name for name in self._loading_order(files) if not self._layout[name].creates]
        users = [self._user(component, files, starts, stops) for component in lasting]
        return forecast(devices, [user for user in users if user.devices], freed=freed or {})

    def is_engine(self, component: str, files: ConfigFiles) -> bool:
        """It claims a fixed part of its devices' memory as it starts.

        Raises:
            ConfigError: if layout or config cannot be understood.
        """
        return self._recipe.engine(component, files) is not None

    def sharing(self, component: str, files: ConfigFiles) -> tuple[str, ...]:
        """The other components that have a device in common with it, in start order.

        Raises:
            ConfigError: if layout or config cannot be understood.
        """
        mine = self._keys(component, files)
        others = (other for other in self.components if other != component)
        return tuple(other for other in others if mine & self._keys(other, files))

    def _loading_order(self, files: ConfigFiles) -> tuple[str, ...]:
        """Engines, and what they need, before those that are held back until they are ready."""
        engines = [name for name in self.components if self.is_engine(name, files)]
        first = {needed for engine in engines for needed in self._layout.needs(engine)} | set(engines)
        return tuple(sorted(self.components, key=lambda name: name not in first))

    def _keys(self, component: str, files: ConfigFiles) -> set[str]:
        return {device.key for device in self._recipe.devices(component, files)}

    def _user(
        self, component: str, files: ConfigFiles, starts: Collection[str], stops: Collection[str]
    ) -> MemoryUser:
        devices = tuple(device.key for device in self._recipe.devices(component, files))
        user = MemoryUser(component, devices, starts=component in starts, stops=component in stops)
        if not devices:
            return user
        attempt, peak_bytes = newest_peaks(self._control, component) or (None, {})
        note = "" if attempt is None else self._what_changed(files, component, attempt)
        user = replace(user, peak_bytes=peak_bytes, peak_note=note)
        engine = self._recipe.engine(component, files)
        return user if engine is None else self._engines.added(user, engine)

    def _compare(self, files: ConfigFiles, component: str, attempt: int) -> str:
        """Values that decide about memory and are others now than in that attempt."""
        folder = self._control.attempt_dir(component, attempt) / "config"
        now = self._values(component, files)
        then = self._values(component, load_snapshot(folder, self._framework))
        changed = (name for name in now if name in then and now[name] != then[name] and _decides_memory(name))
        return ", ".join(f"{name} was {shown(then[name])}, is {shown(now[name])}" for name in changed)

    def _values(self, component: str, files: ConfigFiles) -> dict[str, TomlValue]:
        """What `component` reads, by knob name."""
        knobs = [
            knob
            for knob in self._framework.knobs(files)
            if {component, ANY_COMPONENT}.intersection(knob.readers)
        ]
        return values_of(knobs, files, self._framework)


def _decides_memory(name: str) -> bool:
    ends = (end for lever in LEVERS for end in (*lever.knobs, *lever.shared))
    return any(name == end or name.endswith(f".{end}") for end in ends)
