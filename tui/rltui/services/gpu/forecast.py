"""Forecasts of starts of an experiment's components: from config, models and earlier attempts."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.base.toml.values import TomlValue
from rltui.core.config.knobs import display
from rltui.core.experiment.layout import Layout
from rltui.core.gpu.budget import EngineMeasurements, EngineMemory, ModelShape
from rltui.core.gpu.forecast import Forecast, MemoryUser, forecast, needs
from rltui.core.gpu.report import GpuBudget, GpuDevice, GpuReservation
from rltui.core.gpu.training import TrainingNeed
from rltui.core.logs.failure_cause import LONGEST_LINE
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.engines.base import Engine
from rltui.frameworks.inputs import ConfigFiles
from rltui.frameworks.memory_levers import LEVERS
from rltui.frameworks.plain_knobs import ANY_COMPONENT
from rltui.services.config.files import FilesCache, read_snapshot
from rltui.services.experiment.files import ControlFolder
from rltui.services.experiment.launch import Launcher
from rltui.services.gpu.assignment import assigned_devices, engine_of
from rltui.services.gpu.model_files import model_folder, read_shape, read_training_shape
from rltui.services.gpu.peaks import newest_peaks

_LIMIT_BYTES = 4 << 20
"""Limit of what is read of a log; the start of eight ranks with progress bars takes some hundred kB."""


def read_engine_log(
    log: Path, engine: Engine, *, limit_bytes: int = _LIMIT_BYTES
) -> EngineMeasurements | None:
    """Memory sizes that an engine printed within the first `limit_bytes`; `None` if there are none, or no
    file.
    """
    try:
        with log.open("rb") as file:
            lines = file.read(limit_bytes).decode(errors="replace").split("\n")
    except OSError:
        return None
    text = "\n".join(line[:LONGEST_LINE] for line in lines)
    return engine.read_measurements(text)


_NEWEST_ATTEMPTS = 5
"""Number of attempts that are searched for one that printed its KV cache."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    engine: EngineMemory | None
    """Settings in its config; `None` if that cannot be parsed any more."""
    measurements: EngineMeasurements | None
    read_bytes: int
    """Size of its output when it was read."""

    @property
    def is_complete(self) -> bool:
        """True if its output will contain no more on memory, however long it grows."""
        has_cache = self.measurements is not None and self.measurements.kv_cache_bytes is not None
        return has_cache or self.read_bytes >= _LIMIT_BYTES


class EngineHistory:
    """Measured memory of the engines of one experiment. Reads small files, and logs of attempts as they
    grow.
    """

    def __init__(self, framework: Framework, control: ControlFolder, workspace: Path) -> None:
        self._framework = framework
        self._control = control
        self._workspace = workspace
        self._attempts: dict[Path, _Attempt] = {}

    def with_measurements(self, engine: EngineMemory) -> EngineMemory:
        """`engine` with what is known of it from earlier attempts and its model's files."""
        return replace(engine, measured=self._measurements(engine), shape=self._shape(engine))

    def _measurements(self, engine: EngineMemory) -> EngineMeasurements:
        """Sizes from the newest attempt with the same model that measured its KV cache."""
        for number in reversed(self._control.attempts(engine.component)[-_NEWEST_ATTEMPTS:]):
            attempt = self._attempt(engine.component, number)
            then, measured = attempt.engine, attempt.measurements
            if then is None or then.model != engine.model or measured is None:
                continue
            if measured.kv_cache_bytes is not None:
                return replace(measured, utilization=measured.utilization or then.utilization)
        return EngineMeasurements()

    def _attempt(self, component: str, number: int) -> _Attempt:
        folder, log = self._control.attempt_dir(component, number), self._control.log_file(component, number)
        cached = self._attempts.get(folder)
        size = _size(log)
        if cached is None or not (cached.is_complete or cached.read_bytes == size):
            engine = cached.engine if cached is not None else self._engine(folder)
            cached = self._attempts[folder] = _Attempt(
                engine, read_engine_log(log, self._framework.engine), size
            )
        return cached

    def _engine(self, attempt_dir: Path) -> EngineMemory | None:
        try:
            return self._framework.gpu_needs.engine(read_snapshot(attempt_dir, self._framework))
        except ConfigError:  # damaged since
            return None

    def _shape(self, engine: EngineMemory) -> ModelShape:
        if engine.model is None:
            return ModelShape()
        folder = model_folder(engine.model, workspace=self._workspace, environment=os.environ)
        shape = folder and read_shape(folder, dtype=engine.dtype, kv_cache_dtype=engine.kv_cache_dtype)
        return shape or ModelShape()


def _size(path: Path) -> int:
    """Size in bytes; 0 if there is no file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class Forecaster:
    """Forecasts for one experiment. Reads small files; blocking, for some milliseconds at most.

    Its methods raise `ConfigError` if layout or config cannot be parsed.
    """

    def __init__(
        self,
        *,
        layout: Layout,
        framework: Framework,
        launcher: Launcher,
        control: ControlFolder,
        workspace: Path,
    ) -> None:
        self._layout = layout
        self.components = layout.start_order()
        """Component ids in start order."""
        self._framework = framework
        self._launcher = launcher
        self._control = control
        self._engines = EngineHistory(framework, control, workspace)
        self._workspace = workspace
        self._changes_since = FilesCache(self._compare)
        self._training = FilesCache(self._read_training)

    def budgets(self, files: ConfigFiles) -> dict[str, tuple[GpuBudget, ...]]:
        """Device key → the memory that engines may take there."""
        budgets: dict[str, tuple[GpuBudget, ...]] = {}
        for component in self.components:
            if (engine := engine_of(component, self._launcher.context(files))) is None:
                continue
            for device in assigned_devices(component, self._launcher.context(files)):
                if (usable := device.usable_bytes) is not None:
                    size = engine.budget_bytes(usable)
                    budget = GpuBudget(component=component, utilization=engine.utilization, budget_bytes=size)
                    budgets[device.key] = (*budgets.get(device.key, ()), budget)
        return budgets

    def forecast(
        self,
        devices: Sequence[GpuDevice],
        files: ConfigFiles,
        *,
        starts: Collection[str],
        stops: Collection[str] = (),
        freed: Mapping[str, int] | None = None,
    ) -> tuple[Forecast, ...]:
        """Forecasts for the components in `starts`, once those in `stops` are gone, in start order.

        Jobs that only prepare something are left out: they have ended when the others start.

        `freed`: device key → further bytes that are freed.
        """
        return forecast(devices, self._users(files, starts, stops), freed=freed or {})

    def needs(
        self, devices: Sequence[GpuDevice], files: ConfigFiles, *, starts: Collection[str]
    ) -> tuple[GpuReservation, ...]:
        """The memory that those in `starts` will finally hold on their devices."""
        return needs(devices, self._users(files, starts, ()))

    def is_engine(self, component: str, files: ConfigFiles) -> bool:
        """True if it takes a fixed share of its devices' memory as it starts."""
        return engine_of(component, self._launcher.context(files)) is not None

    def sharing(self, component: str, files: ConfigFiles) -> tuple[str, ...]:
        """The other components that share a device with it, in start order."""
        mine = self._keys(component, files)
        others = (other for other in self.components if other != component)
        return tuple(other for other in others if mine & self._keys(other, files))

    def _users(self, files: ConfigFiles, starts: Collection[str], stops: Collection[str]) -> list[MemoryUser]:
        """Components with devices, except jobs that only prepare something."""
        lasting = [name for name in self._loading_order(files) if not self._layout[name].creates]
        users = (self._user(component, files, starts, stops) for component in lasting)
        return [user for user in users if user.devices]

    def _loading_order(self, files: ConfigFiles) -> tuple[str, ...]:
        """Engines, and what they need, before components that wait for them."""
        engines = [name for name in self.components if self.is_engine(name, files)]
        first = {needed for engine in engines for needed in self._layout.needs(engine)} | set(engines)
        return tuple(sorted(self.components, key=lambda name: name not in first))

    def _keys(self, component: str, files: ConfigFiles) -> set[str]:
        return {device.key for device in assigned_devices(component, self._launcher.context(files))}

    def _user(
        self, component: str, files: ConfigFiles, starts: Collection[str], stops: Collection[str]
    ) -> MemoryUser:
        devices = tuple(device.key for device in assigned_devices(component, self._launcher.context(files)))
        user = MemoryUser(component, devices, starts=component in starts, stops=component in stops)
        if not devices:
            return user
        attempt, peak_bytes = newest_peaks(self._control, component) or (None, {})
        note = "" if attempt is None else self._changes_since(files, component, attempt)
        user = replace(user, peak_bytes=peak_bytes, peak_note=note)
        engine = engine_of(component, self._launcher.context(files))
        if engine is not None:
            return replace(user, engine=self._engines.with_measurements(engine))
        training = self._training(files)
        programs = (component, *self._layout[component].launches)
        is_trainer = training is not None and training.training.component in programs
        return replace(user, training=training) if is_trainer else user

    def _read_training(self, files: ConfigFiles) -> TrainingNeed | None:
        training = self._framework.gpu_needs.training(files)
        if training is None:
            return None
        folder = training.model and model_folder(
            training.model, workspace=self._workspace, environment=os.environ
        )
        return TrainingNeed(training, read_training_shape(folder) if folder else None)

    def _compare(self, files: ConfigFiles, component: str, attempt: int) -> str:
        """Describe memory-relevant values that differ from that attempt's."""
        folder = self._control.attempt_dir(component, attempt)
        now = self._values(component, files)
        then = self._values(component, read_snapshot(folder, self._framework))
        deciding = {end for lever in LEVERS for end in (*lever.knobs, *lever.shared)}
        return ", ".join(
            f"{name} was {display(then[name])}, is {display(now[name])}"
            for name in now
            if name in then and now[name] != then[name]
            if any(name == end or name.endswith(f".{end}") for end in deciding)
        )

    def _values(self, component: str, files: ConfigFiles) -> dict[str, TomlValue]:
        """Knob name → value of the knobs that `component` reads."""
        knobs = [
            knob
            for knob in self._framework.config.knobs(files)
            if {component, ANY_COMPONENT}.intersection(knob.readers)
        ]
        return self._framework.config.values_of(knobs, files)
