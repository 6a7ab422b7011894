"""What a config means for the GPUs of this machine, where no supervisor is there to say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rltui.core.gpu.devices import GpuChoice, chosen_devices
from rltui.core.gpu.forecast import worst_per_component
from rltui.core.gpu.report import GpuDevice, GpuReport, MemoryVerdict
from rltui.core.layout import Layout
from rltui.core.text import gib
from rltui.errors import UsageError
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services import layout_files
from rltui.services.config.store import ConfigStore
from rltui.services.gpu.claims import report_once
from rltui.services.gpu.cuda import VISIBLE_DEVICES
from rltui.services.gpu.memory_plan import MemoryPlan
from rltui.services.launch import Launcher
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import default_output_dir, known_experiments
from rltui.services.runs.observed import framework_of


def named_devices(choice: str) -> str:
    """`choice`, where each entry is a device of this machine.

    Raises:
        UsageError: if one is not, or two are the same.
    """
    report = report_once()
    entries = [entry.strip() for entry in choice.split(",")]
    if report.available and len(chosen_devices(choice, report.devices)) != len(entries):
        known = ", ".join(device.label for device in report.devices if not device.host)
        raise UsageError(
            f"--devices {choice} does not name devices of this machine, each once",
            hint=f"there are: {known}; rltui gpus has their UUIDs",
        )
    return ",".join(entries)


def roomiest_device() -> tuple[str | None, str]:
    """The one device for all components: that with the most memory free, and why, in words; `None` where no
    GPU can be read.
    """
    report = report_once()
    visible = chosen_devices(os.environ.get(VISIBLE_DEVICES), report.devices)
    readable = [(free, device) for device in visible if (free := device.unclaimed_bytes) is not None]
    if not readable:
        return None, f"--single-gpu chooses none: no GPU of this machine can be read ({report.reason})"
    free, device = max(readable, key=lambda each: each[0])  # the first of equals
    room = f"{gib(free)} of {gib(device.total_bytes or 0)} GiB are free"
    words = f"all components share GPU {device.label}: {room}"
    return device.uuid if device.mig is not None else str(device.index), words


def verdicts(
    config_files: tuple[Path, ...],
    layout_file: Path,
    layout: Layout,
    framework: Framework,
    files: ConfigFiles,
    devices: str | None = None,
) -> tuple[MemoryVerdict, ...]:
    """One for each component that would start on a device, with what is free there now.

    `devices`: those that may be used, as `ExperimentRequest.devices`.

    What runs of an experiment with the same files counts as stopped first; what its earlier attempts measured
    is known. Empty where no GPU can be read.

    Raises:
        ConfigError: if layout or config cannot be understood.
    """
    record = _record(config_files, layout_file, layout, framework, files)
    record = record if devices is None else replace(record, devices=devices)
    report = report_once(record.name)
    plan = _plan(record, layout, framework, report)
    return worst_per_component(
        plan.verdicts(report.devices, files, starts=plan.components, stops=plan.components)
    )


def needed_bytes(record: ExperimentRecord) -> Mapping[str, int]:
    """By key of each device that its components would use now: what they will hold of it together; 0 where
    nothing is known of that. Empty where no GPU can be read.

    Raises:
        ConfigError: if layout or config cannot be understood.
    """
    framework, layout = framework_of(record), layout_files.load_for(record)
    files = ConfigStore([Path(name) for name in record.config_files], framework).load()
    report = report_once(record.name)
    starts = [spec.id for spec in layout.automatic]
    found: dict[str, int] = {}
    for claim in _plan(record, layout, framework, report).needs(report.devices, files, starts=starts):
        found[claim.device] = found.get(claim.device, 0) + claim.size_bytes
    return found


def _plan(record: ExperimentRecord, layout: Layout, framework: Framework, report: GpuReport) -> MemoryPlan:
    def choose(choice: GpuChoice) -> tuple[GpuDevice, ...]:
        return chosen_devices(choice, report.devices)

    return MemoryPlan(
        layout=layout,
        framework=framework,
        launcher=Launcher(record, layout, framework, choose=choose),
        control=ControlFolder(Path(record.output_dir)),
        workspace=Path(record.workspace),
    )


def _record(
    config_files: tuple[Path, ...],
    layout_file: Path,
    layout: Layout,
    framework: Framework,
    files: ConfigFiles,
) -> ExperimentRecord:
    """The newest experiment with these files, else the one that would be made here."""
    names = tuple(str(path) for path in config_files)
    for record in known_experiments():
        if set(record.config_files) == set(names) and record.framework == framework.id:
            return record
    workspace = Path.cwd()
    output_dir = workspace / (
        framework.output_dir(files) or default_output_dir(config_files or [layout_file])
    )
    return ExperimentRecord(
        name=output_dir.name,
        output_dir=str(output_dir),
        workspace=str(workspace),
        config_files=names,
        layout_file=str(layout_file),
        framework=framework.id,
        created_at=0.0,
        run_dir=str(output_dir / layout.run_dir),
        instances=framework.instances(files),
    )
