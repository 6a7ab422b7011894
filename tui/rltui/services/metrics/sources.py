"""The metrics of an experiment, by its record: of its files, up to now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rltui.core.experiment.layout import Layout
from rltui.core.metrics.progress import MetricSeries
from rltui.frameworks.base import Framework
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.journal import read_journal
from rltui.services.logs.followed import FollowedLogs
from rltui.services.metrics.recorder import RunRecorder
from rltui.services.metrics.rows import MetricRows, MetricSources
from rltui.services.runs.folder import RunFolder, run_folder_of
from rltui.services.runs.observed import framework_of

_EARLIER_ATTEMPTS = 5
"""Number of attempts of a component, before its newest, whose output is read."""


def read_series(
    record: ExperimentRecord, components: Sequence[str], followed: Mapping[str, Path]
) -> MetricSeries:
    """The metrics of a run up to now, read once. `followed`: logs that no component writes."""
    framework = framework_of(record)
    folder = RunFolder(Path(record.run_dir), framework.run.locations)
    rows = MetricRows(_sources(record.control, framework, folder, components, followed))
    series = MetricSeries(framework.progress.names, framework.run.locations.first_step)
    is_behind = True
    while is_behind:
        for row in rows.read():
            if not row.is_gap:
                series.add(row.values)
        is_behind = rows.has_more
    return series


def update_series_store(record: ExperimentRecord) -> str | None:
    """Read new rows of the run's files into the store, unless a supervisor does that.

    Returns an error message if the store cannot be written.
    """
    return fill_series_store(
        record, framework_of(record), layout_files.load_for(record), run_folder_of(record)
    )


def fill_series_store(
    record: ExperimentRecord, framework: Framework, layout: Layout, folder: RunFolder
) -> str | None:
    """Call `update_series_store` for a caller that has read the rest of the run already."""
    components = [spec.id for spec in layout.component]
    logs = FollowedLogs(Path(record.run_dir), layout.log)
    logs.poll()
    recorder = RunRecorder(
        record.control, _sources(record.control, framework, folder, components, logs.paths)
    )
    try:
        recorder.catch_up()
        return recorder.problem
    finally:
        recorder.close()


def _sources(
    control: ControlFolder, framework: Framework, folder: RunFolder, components: Sequence[str],
    followed: Mapping[str, Path],
) -> MetricSources:  # fmt: skip
    return MetricSources(
        folder.metrics,
        framework,
        logs=lambda: {**newest_logs(control, components), **followed},
        earlier_logs=lambda: earlier_logs(control, components),
    )


def earlier_logs(control: ControlFolder, components: Sequence[str]) -> list[tuple[str, Path]]:
    """Component and output of its attempts before the newest, by their end.

    Only attempts since the run last started from the beginning.
    """
    resumes = (entry for entry in read_journal(control.journal_file) if entry.kind == "resume")
    fresh_start_at = max((entry.at for entry in resumes if entry.data.get("step") is None), default=0.0)
    logs: list[tuple[float, str, Path]] = []
    for component in components:
        for attempt in control.attempts(component)[-_EARLIER_ATTEMPTS - 1 : -1]:
            log = control.log_file(component, attempt)
            if log.exists() and (finished_at := log.stat().st_mtime) > fresh_start_at:
                logs.append((finished_at, component, log))
    return [(component, log) for _, component, log in sorted(logs)]


def newest_logs(control: ControlFolder, components: Sequence[str]) -> dict[str, Path]:
    """Component → output of its newest attempt."""
    attempts = ((component, control.attempts(component)) for component in components)
    return {component: control.log_file(component, numbers[-1]) for component, numbers in attempts if numbers}
