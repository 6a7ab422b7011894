"""The config that a run was last started with: edits since then are for its next start."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFiles
from rltui.services.config.files import load_files, read_snapshot, snapshot_dir
from rltui.services.runs.experiment_files import ExperimentRecord


def last_run_files(record: ExperimentRecord, framework: Framework, run_jobs: Collection[str]) -> ConfigFiles:
    """The files of its newest attempt, of the run itself if there is any; else the current files."""
    folders = sorted(
        record.control.newest_attempts(),
        key=lambda folder: (
            folder.parent.name in run_jobs,
            snapshot_dir(folder).exists() and folder.stat().st_mtime,
        ),
        reverse=True,
    )
    for folder in folders:
        with suppress(ConfigError):
            if snapshot := read_snapshot(folder, framework):
                return snapshot
    with suppress(ConfigError):
        return load_files(record.config_paths, framework)
    return {}


def last_max_steps(
    record: ExperimentRecord,
    framework: Framework,
    run_jobs: Collection[str],
    files: ConfigFiles | None = None,
) -> int | None:
    """Number of steps of the run; `None` if it is unknown. `files`: those of `last_run_files`."""
    files = last_run_files(record, framework, run_jobs) if files is None else files
    return framework.run.max_steps(files) if files or record.observed else None
