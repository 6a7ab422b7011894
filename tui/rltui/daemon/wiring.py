"""Parts of a supervisor that take more than one line to put together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rltui.daemon.component import ComponentRunner
from rltui.daemon.progress import ProgressTracker
from rltui.daemon.setup import Setup
from rltui.services.gpu.memory_plan import MemoryPlan
from rltui.services.launch import Launcher
from rltui.services.logs.followed import FollowedLogs
from rltui.services.metrics import RunMetrics, earlier_logs
from rltui.services.runs.run_folder import RunFolder


def progress_of(
    setup: Setup, folder: RunFolder, logs: FollowedLogs, runners: Mapping[str, ComponentRunner]
) -> ProgressTracker:
    """Progress by the metrics in `folder`, and by what `runners` and their earlier attempts print."""

    def present_logs() -> dict[str, Path]:
        own = {name: runner.log for name, runner in runners.items() if runner.log is not None}
        return {**own, **logs.paths}

    metrics = RunMetrics(
        folder.metrics,
        setup.framework,
        logs=present_logs,
        earlier_logs=lambda: earlier_logs(setup.control, setup.components),
    )
    return ProgressTracker(metrics, setup.framework, setup.components)


def memory_plan_of(setup: Setup, recipe: Launcher) -> MemoryPlan:
    """Forecasts for the components of `setup`."""
    return MemoryPlan(
        layout=setup.layout,
        framework=setup.framework,
        recipe=recipe,
        control=setup.control,
        workspace=setup.workspace,
    )
