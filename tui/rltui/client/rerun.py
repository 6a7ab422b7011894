"""A run again: from the config as it was recorded, with what is not as it was then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rltui.client import creation, draft
from rltui.client.fork import ForkStart, refuse_foreign, request_like
from rltui.client.memory import used_devices
from rltui.core import hints
from rltui.core.provenance import differences
from rltui.core.runs import RunOrigin, RunRow
from rltui.errors import ConflictError, RltuiError
from rltui.services.gpu.reservations import report_once
from rltui.services.own_files import free_path
from rltui.services.runs.catalog import record_of
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import find_experiment, free_name
from rltui.services.runs.index import RunIndex
from rltui.services.runs.observed import setup_of
from rltui.services.runs.provenance import ProvenanceCollector, latest
from rltui.services.runs.recorded_config import changed_files, recorded_config
from rltui.services.runs.references import find_run
from rltui.services.runs.run_folder import run_folder_of


@dataclass(frozen=True, slots=True)
class RerunPlan:
    request: draft.ExperimentRequest
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
    with recorded_config(row) as copies:
        name = name or free_name(folder.name, folder)
        request = request_like(record, copies, name, folder, devices=devices, origin=RunOrigin(again=row.id))
        draft_record = creation.examine(request)
        yield RerunPlan(request, draft_record, _begin_of(row, record), *_comparison(row, draft_record))


def _begin_of(row: RunRow, record: ExperimentRecord) -> ForkStart | None:
    """The checkpoint, by the run's own copy of it; else by what it was copied from.

    Raises:
        ConflictError: if neither is there any more.
    """
    if row.parent_step is None:
        return None
    folders = [run_folder_of(record)]
    with suppress(RltuiError):  # the parent is gone, or damaged
        folders.append(run_folder_of(record_of(find_run(RunIndex(), row.parent))))
    folder = next((candidate for candidate in folders if row.parent_step in candidate.checkpoints()), None)
    if folder is None:
        raise ConflictError(
            f"{row.name} started from checkpoint {row.parent_step} of another run, which no longer exists",
            hint=f"start over: {hints.FORK(run=row.name)}",
        )
    return ForkStart(row.parent_step, folder)


def _refuse_existing(folder: Path, name: str | None) -> None:
    """A run that is repeated never goes on with another."""
    existing = ControlFolder(folder).read_record()
    existing = existing or (find_experiment(name) if name is not None else None)
    if existing is not None:
        raise ConflictError(
            f"the experiment {existing.name} already exists in {existing.output_dir}",
            hint="choose another name with -n, or another folder with -o; nothing was started",
        )


def _comparison(row: RunRow, planned_record: ExperimentRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
    notes = [
        f"{path} has changed since that run; the recorded content is used" for path in changed_files(row)
    ]
    recorded = latest(Path(row.control))
    if recorded is None:
        notes.append("code, versions and data were not recorded; they may have changed")
        return (), tuple(notes)
    layout, framework, files = setup_of(planned_record)
    report = report_once(planned_record.name)
    devices = used_devices(planned_record, layout, framework, files, report)
    gpus = {device.label: device.name for device in devices}
    surveyor = ProvenanceCollector(
        control=planned_record.control.path,
        workspace=Path(planned_record.workspace),
        output_dir=Path(planned_record.output_dir),
        framework=framework,
        layout=layout,
        config_files=planned_record.config_paths,
    )
    now = asyncio.run(surveyor.collect(files, gpus, report.driver))
    return differences(now, recorded), tuple(notes)
