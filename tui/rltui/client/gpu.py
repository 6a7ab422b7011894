"""The GPUs of this machine for an experiment without a supervisor: which it gets, and what its start does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.base.text import gib, join_words
from rltui.core import hints
from rltui.core.experiment.layout import Layout
from rltui.core.gpu.devices import NO_DEVICES, chosen_devices
from rltui.core.gpu.forecast import has_little_room
from rltui.core.gpu.report import GpuDevice, GpuReport, MemoryVerdict
from rltui.core.gpu.reservations import other_experiments
from rltui.errors import ConfigError, UsageError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.experiment.files import ExperimentRecord
from rltui.services.experiment.launch import Launcher
from rltui.services.gpu.account import read_once
from rltui.services.gpu.assignment import assigned_devices
from rltui.services.gpu.cuda import visible_devices
from rltui.services.gpu.forecast import Forecaster
from rltui.services.runs.observed import setup_of
from rltui.views.gpu.forecast import worst_verdicts


def named_devices(choice: str) -> str:
    """Check that each entry of `choice` is a device of this machine, and return it without spaces. `none` is
    no device.

    Raises:
        UsageError: if one is not, or two are the same.
    """
    if choice.strip() == NO_DEVICES:
        return NO_DEVICES
    report = read_once()
    entries = [entry.strip() for entry in choice.split(",")]
    if report.available and len(chosen_devices(choice, report.devices)) != len(entries):
        labels = ", ".join(device.label for device in report.devices if not device.host)
        raise UsageError(
            f"--devices must list GPUs of this machine, each once, not {choice}",
            hint=f"available: {labels}; {hints.GPUS} lists UUIDs, too",
        )
    return ",".join(entries)


def roomiest_device() -> tuple[str | None, str]:
    """The one device for all components: that with the most memory free, and why, in words; `None` where no
    GPU can be read.
    """
    report = read_once()
    visible = visible_devices(report)
    readable = [(free, device) for device in visible if (free := device.unclaimed_bytes) is not None]
    if not readable:
        return None, f"--single-gpu: {_unreadable(report)}"
    free, device = max(readable, key=lambda entry: entry[0])  # the first of equals
    room = f"{gib(free)} of {gib(device.total_bytes or 0)} GiB free"
    sentence = f"all components share GPU {device.label}: {room}"
    return device.as_choice, sentence


def _unreadable(report: GpuReport) -> str:
    return f"cannot read any GPU of this machine ({report.reason})"


def with_devices(
    record: ExperimentRecord, *, on_one: bool = False
) -> tuple[ExperimentRecord, tuple[str, ...]]:
    """Move `record` off devices that another experiment uses or that are nearly full, and say why; or to the
    `on_one` device with the most room.

    It stays as it is where its devices are named already, where too few others are free, and where layout,
    config or launcher take no others. Reads the GPUs.
    """
    if on_one and not record.host_options:
        device, sentence = roomiest_device()
        return replace(record, devices=device or ""), (sentence,)
    if record.devices:
        report = read_once()
        if report.available or record.devices == NO_DEVICES or record.host_options:
            return record, ()
        return record, (f"--devices {record.devices}: {_unreadable(report)}",)
    try:
        start, reasons = planned_start(record).moved_apart()
    except ConfigError:  # the start tells it
        return record, ()
    return start.record, reasons


def needed_bytes(record: ExperimentRecord) -> Mapping[str, int]:
    """Device key → bytes that its components would hold there together; 0 where that is unknown. Empty where
    no GPU can be read.

    Raises:
        ConfigError: if layout or config cannot be understood.
    """
    start = planned_start(record)
    components = [spec.id for spec in start.layout.automatic]
    bytes_by_device: dict[str, int] = {}
    for need in start.forecaster.needs(start.report.devices, start.files, starts=components):
        bytes_by_device[need.device] = bytes_by_device.get(need.device, 0) + need.size_bytes
    return bytes_by_device


def planned_start(record: ExperimentRecord) -> PlannedStart:
    """Raises ConfigError if layout or config cannot be understood."""
    layout, framework, files = setup_of(record)
    return PlannedStart(record, layout, framework, files, read_once(record.name))


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """An experiment that would be started, and one reading of this machine's GPUs.

    Its members raise ConfigError if layout or config cannot be understood.
    """

    record: ExperimentRecord
    layout: Layout
    framework: Framework
    files: ConfigFiles
    report: GpuReport

    @property
    def devices(self) -> tuple[GpuDevice, ...]:
        """Devices that its components would use, each once."""
        context = self._launcher.context(self.files)
        devices = (device for spec in self.layout.automatic for device in assigned_devices(spec.id, context))
        return tuple({device.key: device for device in devices}.values())

    @property
    def forecaster(self) -> Forecaster:
        return Forecaster(
            layout=self.layout,
            framework=self.framework,
            launcher=self._launcher,
            control=self.record.control,
            workspace=Path(self.record.workspace),
        )

    @property
    def _launcher(self) -> Launcher:
        def choose(choice: str | None) -> tuple[GpuDevice, ...]:
            return chosen_devices(choice, self.report.devices)

        return Launcher(self.record, self.layout, self.framework, choose=choose)

    def verdicts(self) -> tuple[MemoryVerdict, ...]:
        """Verdict of each component that would start on a device, with the memory that is free there now.

        Running components of an experiment with the same files count as stopped first; measurements of its
        earlier attempts are used. Empty where no GPU can be read.
        """
        start = self if self.record.devices else self.moved_apart()[0]
        forecaster = start.forecaster
        everything = forecaster.components
        forecasts = forecaster.forecast(
            start.report.devices, start.files, starts=everything, stops=everything
        )
        return worst_verdicts(forecasts)

    def moved_apart(self) -> tuple[PlannedStart, tuple[str, ...]]:
        """On other devices, if another experiment uses these or they are nearly full, and why."""
        devices = self.devices
        occupants = {device.key: other_experiments(device) for device in devices}
        if not any(occupants[device.key] or has_little_room(device) for device in devices):
            return self, ()
        free = [
            device
            for device in visible_devices(self.report)
            if not other_experiments(device) and not has_little_room(device)
        ]
        record = replace(self.record, devices=",".join(device.as_choice for device in free))
        moved = replace(self, record=record)
        names = {device.label: occupants[device.key] for device in devices if occupants[device.key]}
        reasons = [f"GPU {label} is used by {join_words(names[label])}" for label in names]
        try:
            new_devices = moved.devices if free else ()
        except ConfigError:  # not enough of them, or a launcher that takes the first ones whatever it is told
            new_devices = ()
        if len(new_devices) == len(devices) and set(new_devices) <= set(free):
            little = [
                f"GPU {device.label} has {gib(device.unclaimed_bytes or 0)} GiB free"
                for device in devices
                if device.label not in names and has_little_room(device)
            ]
            instead = join_words([device.label for device in new_devices])
            return moved, (f"{'; '.join((*reasons, *little))}; this experiment uses GPU {instead}",)
        return self, tuple(
            f"{reason} and by this experiment; to choose other GPUs: --devices" for reason in reasons
        )
