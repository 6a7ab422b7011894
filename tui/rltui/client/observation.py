"""Creates an experiment that only watches a run that somebody else started."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rltui import paths
from rltui.base.text import numbered
from rltui.client import launch
from rltui.client.creation import creation_lock
from rltui.core import hints
from rltui.core.runs.row import RunRow
from rltui.errors import ConflictError, UsageError
from rltui.frameworks import registry
from rltui.paths import require_folder
from rltui.services.experiment import layout_files
from rltui.services.experiment.files import ControlFolder, ExperimentRecord, same_folder
from rltui.services.experiment.registry import check_new_record, find_experiment, known_experiments
from rltui.services.runs import catalog
from rltui.services.runs.index import RunIndex
from rltui.services.runs.observed import DetectedRun, find_run, find_runs, is_own

LAYOUT = "watch"
_TELLS_NOTHING = re.compile(r"[0-9a-f]{8}|[0-9a-f-]{32,36}|runs?|outputs?|out|run_default|\d+")
"""Names of run folders that say nothing: `vf-eval` numbers its results so."""
_LONGEST_NAME = 44
"""Leaves room for a number."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ObservationRequest:
    """A run to watch. A field that is `None` is taken from its folder."""

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
            f"{layout_file} starts components, but an observed run has none",
            hint="leave out --layout, or name one with only [[log]] entries",
        )
    with creation_lock():
        same = [
            experiment for experiment in known_experiments() if same_folder(experiment.run_dir, str(run.path))
        ]
        if supervised := next((experiment for experiment in same if not experiment.observed), None):
            raise ConflictError(
                f"{run.path} belongs to the experiment {supervised.name}",
                hint=f"open it: {hints.OPEN(opened=supervised.name)}",
            )
        before = next((experiment for experiment in same if request.name in (None, experiment.name)), None)
        if before is not None and (before.layout_file, before.framework) == (str(layout_file), run.framework):
            return before
        if before is not None and launch.has_supervisor(before):
            raise ConflictError(
                f"{before.name} already observes that run with other options",
                hint=f"end that first: {hints.DOWN(name=before.name)}",
            )
        if before is None:
            _refuse_taken(request.name)
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


@dataclass(frozen=True, slots=True)
class AddedRuns:
    new: tuple[RunRow, ...]
    known: tuple[RunRow, ...]
    """Runs that the index had already."""
    messages: tuple[str, ...] = ()
    """Sentences for the person: of a folder that was moved."""


def add(folder: Path, name: str | None = None) -> AddedRuns:
    """Take all runs in a folder and below into the index, whoever wrote them. Into those that are somebody
    else's nothing is written, and none of them is watched. Done twice, it changes nothing.

    Raises:
        UsageError: if there is none, or `name` cannot be that of one.
        ConflictError: if the name is taken.
        RltuiError: if the index, or what is kept of a run, cannot be written.
    """
    require_folder(folder)
    detected_runs = [*find_runs(folder)]
    if not detected_runs:
        raise UsageError(
            f"{folder} holds no known run",
            hint="name the folder that contains logs/ or results.jsonl",
        )
    if name is not None and len(detected_runs) > 1:
        raise UsageError(f"{folder} holds {len(detected_runs)} runs, which cannot all be named {name}")
    index = RunIndex()
    messages = catalog.catch_up(index).messages
    before = index.ids()
    with creation_lock():
        by_folder = {record.run_dir: record for record in known_experiments()}
        folders = [_observed_folder(run, by_folder, name) for run in detected_runs]
        messages += catalog.read_folders(index, folders)
    rows = {run.control: run.id for run in index.fingerprinted_runs()}
    ids = [rows.get(str(ControlFolder(output_dir).path), "") for output_dir in folders]
    ours = [row for id_ in ids if (row := index.row(id_)) is not None]
    return AddedRuns(
        new=tuple(row for row in ours if row.id not in before),
        known=tuple(row for row in ours if row.id in before),
        messages=messages,
    )


def _observed_folder(run: DetectedRun, experiments: Mapping[str, ExperimentRecord], name: str | None) -> Path:
    """The folder that rltui keeps its own of the run in."""
    if is_own(run.path):
        return run.path
    if (record := experiments.get(str(run.path))) is not None:
        return Path(record.output_dir)
    _refuse_taken(name)
    folder = _written(
        name=name or _free_name(run.path),
        run_dir=run.path,
        layout_file=layout_files.find(LAYOUT),
        framework=run.framework,
    )
    return Path(folder.output_dir)


def _refuse_taken(name: str | None) -> None:
    if name is not None and (same_name := find_experiment(name)) is not None:
        raise ConflictError(
            f"the name {name} is taken by the experiment in {same_name.run_dir}",
            hint="choose another with -n NAME",
            code="name_taken",
        )


def _written(*, name: str, run_dir: Path, layout_file: Path, framework: str) -> ExperimentRecord:
    folder = str(paths.state_dir() / "observed" / name)
    record = ExperimentRecord(
        name=name,
        output_dir=folder,
        workspace=folder,
        config_files=(),
        layout_file=str(layout_file),
        framework=framework,
        created_at=time.time(),
        run_dir=str(run_dir),
        observed=True,
    )
    check_new_record(record)
    record.control.write_record(record)
    return record


def _free_name(run_dir: Path) -> str:
    """Named like the folder, with a number where that name is taken; like the one above, too, where it has a
    name that tells nothing.
    """
    base_name = (
        f"{run_dir.parent.name}-{run_dir.name}" if _TELLS_NOTHING.fullmatch(run_dir.name) else run_dir.name
    )
    name = _NOT_IN_NAMES.sub("-", base_name).strip("-_")[:_LONGEST_NAME] or "run"
    return next(candidate for candidate in numbered(name) if find_experiment(candidate) is None)
