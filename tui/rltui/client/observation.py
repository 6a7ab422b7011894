"""From the output folder of a run that somebody else started to an experiment that only looks at it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from rltui import paths
from rltui.client import launch
from rltui.client.creation import alone
from rltui.errors import ConflictError, UsageError
from rltui.frameworks import registry
from rltui.services import layout_files
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord, same_folder
from rltui.services.runs.experiments import check_name, find_experiment, known_experiments
from rltui.services.runs.observed import find_run

LAYOUT = "watch"
"""The shipped layout."""
_LONGEST_NAME = 44
"""Leaves room for a number."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ObservationRequest:
    """What a person wants to look at. `None`: as the folder says."""

    folder: Path
    name: str | None = None
    layout: str | None = None
    framework: str | None = None


def observe(request: ObservationRequest) -> ExperimentRecord:
    """The observation of a run: the one there is, else a new one, written down in the user's state folder.

    Nothing is written into the run's own folder. The supervisor is the caller's to start.

    Raises:
        UsageError: if the folder holds no run, or several.
        ConflictError: if the run is an experiment of the user's own, or the name is taken.
        ConfigError: for an unknown layout or framework, or a name that does not suit.
    """
    framework = None if request.framework is None else registry.get(request.framework).id
    run = find_run(request.folder, framework)
    layout_file = layout_files.find(request.layout or LAYOUT)
    if layout_files.load(layout_file).component:
        raise UsageError(
            f"{layout_file} starts components, which an observed run has none of",
            hint="leave --layout out, or name one that has only [[log]] entries",
        )
    with alone():
        same = [other for other in known_experiments() if same_folder(other.run_dir, str(run.path))]
        if own := next((other for other in same if not other.observed), None):
            raise ConflictError(
                f"{run.path} is the run of the experiment {own.name}", hint=f"open it: rltui -n {own.name}"
            )
        before = next((other for other in same if request.name in (None, other.name)), None)
        if before is not None and _is_as_wanted(before, layout_file, run.framework):
            return before
        if before is not None and launch.is_alive(before):
            raise ConflictError(
                f"{before.name} observes that run already, in another way",
                hint=f"end that first: rltui down {before.name}",
            )
        if (
            before is None
            and request.name is not None
            and (taken := find_experiment(request.name)) is not None
        ):
            raise ConflictError(
                f"the name {request.name} is taken by the experiment in {taken.run_dir}",
                hint="choose another with -n NAME",
            )
        return _written(
            name=before.name
            if before is not None
            else _free_name(run.path)
            if request.name is None
            else request.name,
            run_dir=run.path,
            layout_file=layout_file,
            framework=run.framework,
        )


def _is_as_wanted(record: ExperimentRecord, layout_file: Path, framework: str) -> bool:
    return record.layout_file == str(layout_file) and record.framework == framework


def _written(*, name: str, run_dir: Path, layout_file: Path, framework: str) -> ExperimentRecord:
    folder = paths.state_dir() / "observed" / name
    check_name(name, folder)
    record = ExperimentRecord(
        name=name,
        output_dir=str(folder),
        workspace=str(folder),
        config_files=(),
        layout_file=str(layout_file),
        framework=framework,
        created_at=time.time(),
        run_dir=str(run_dir),
        observed=True,
    )
    ControlFolder(folder).write_record(record)
    return record


def _free_name(run_dir: Path) -> str:
    """Named like the folder, with a number where that name is taken."""
    name = _NOT_IN_NAMES.sub("-", run_dir.name).strip("-_")[:_LONGEST_NAME] or "run"
    number = 1
    while find_experiment(candidate := name if number == 1 else f"{name}-{number}") is not None:
        number += 1
    return candidate
