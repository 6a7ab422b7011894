"""What a config means for the GPUs of this machine, where no supervisor is there to say."""

from __future__ import annotations

from pathlib import Path

from rltui.core.gpu.devices import GpuChoice, chosen_devices
from rltui.core.gpu.forecast import worst_per_component
from rltui.core.gpu.report import GpuDevice, MemoryVerdict
from rltui.core.layout import Layout
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services.gpu.memory_plan import MemoryPlan
from rltui.services.gpu.sampling import read_once
from rltui.services.launch import Launcher
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import default_output_dir, known_experiments


def verdicts(
    config_files: tuple[Path, ...],
    layout_file: Path,
    layout: Layout,
    framework: Framework,
    files: ConfigFiles,
) -> tuple[MemoryVerdict, ...]:
    """One for each component that would start on a device, with what is free there now.

    What runs of an experiment with the same files counts as stopped first; what its earlier attempts measured
    is known. Empty where no GPU can be read.

    Raises:
        ConfigError: if layout or config cannot be understood.
    """
    record = _record(config_files, layout_file, layout, framework, files)
    report = read_once(record.name)

    def choose(choice: GpuChoice) -> tuple[GpuDevice, ...]:
        return chosen_devices(choice, report.devices)

    plan = MemoryPlan(
        layout=layout,
        framework=framework,
        recipe=Launcher(record, layout, framework, choose=choose),
        control=ControlFolder(Path(record.output_dir)),
        workspace=Path(record.workspace),
    )
    return worst_per_component(
        plan.verdicts(report.devices, files, starts=plan.components, stops=plan.components)
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
