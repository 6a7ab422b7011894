"""A run again: from the config as it was recorded, with what is not as it was then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rltui.client import creation
from rltui.client.configured import configured
from rltui.client.draft import ConfiguredRequest
from rltui.client.fork import ForkStart, beginning, refuse_foreign, request_like
from rltui.client.gpu import planned_start
from rltui.core.runs.provenance import differences
from rltui.core.runs.row import RunOrigin, RunRow
from rltui.errors import ConflictError
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.recorded_config import changed_files
from rltui.services.experiment.registry import find_experiment, free_name
from rltui.services.own_files import free_path
from rltui.services.runs.catalog import record_of
from rltui.services.runs.provenance import collector_of, latest


@dataclass(frozen=True, slots=True)
class RerunPlan:
    run: ConfiguredRequest
    record: ExperimentRecord
    begin: ForkStart | None
    """Checkpoint of another run that the run began with."""
    differences: tuple[str, ...]
    """Sentences about what differs from the run's last start, code first."""
    notes: tuple[str, ...]
    """Sentences about what is unknown, and files that are passed over."""


@contextmanager
def plan_rerun(
    row: RunRow, *, name: str | None = None, output_dir: Path | None = None, devices: str | None = None
) -> Iterator[RerunPlan]:
    """Plan to start `row` again; the plan is valid within the context. Nothing is written.

    `name`: by default that of the run with `-again`. `output_dir`: by default next to the run's.

    Raises:
        UsageError: if it was not started by rltui.
        ConfigError: if nothing is known of its config, or its folder is gone.
        ConflictError: if name or folder are taken.
    """
    refuse_foreign(row)
    record = record_of(row)
    folder = output_dir or Path(row.folder).with_name(name or f"{row.name}-again")
    if output_dir is None and name is None:
        folder = free_path(folder)
    _refuse_existing(folder, name)
    name = name or free_name(folder.name, folder)
    request = request_like(record, name, folder, devices=devices, origin=RunOrigin(again=row.id))
    with configured(request) as run:
        planned_record = creation.examine(run)
        yield RerunPlan(run, planned_record, beginning(request), *_comparison(row, planned_record))


def _refuse_existing(folder: Path, name: str | None) -> None:
    """A run that is repeated never goes on with another."""
    existing = ControlFolder(folder).read_record()
    existing = existing or (find_experiment(name) if name is not None else None)
    if existing is not None:
        raise ConflictError(
            f"the experiment {existing.name} already exists in {existing.output_dir}",
            hint="choose another name with -n, or another folder with -o; nothing was started",
            code="name_taken",
        )


def _comparison(row: RunRow, planned_record: ExperimentRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
    notes = [
        f"{path} has changed since that run; the recorded content is used" for path in changed_files(row)
    ]
    recorded = latest(Path(row.control))
    if recorded is None:
        notes.append("code, versions and data were not recorded; they may have changed")
        return (), tuple(notes)
    start = planned_start(planned_record)
    gpus = {device.label: device.name for device in start.devices}
    surveyor = collector_of(planned_record, start.layout, start.framework)
    now = asyncio.run(surveyor.collect(start.files, gpus, start.report.driver))
    return differences(now, recorded), tuple(notes)
