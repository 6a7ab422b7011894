"""From the output folder of a run that somebody else started to an experiment that only looks at it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rltui import paths
from rltui.client import launch
from rltui.client.creation import alone
from rltui.core import hints
from rltui.core.runs import RunRow
from rltui.errors import ConflictError, UsageError
from rltui.frameworks import registry
from rltui.services import layout_files
from rltui.services.runs import catalog
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord, same_folder
from rltui.services.runs.experiments import find_experiment, known_experiments, new_record
from rltui.services.runs.index import RunIndex
from rltui.services.runs.observed import DetectedRun, find_run, find_runs, is_own

LAYOUT = "watch"
"""The shipped layout."""
_TELLS_NOTHING = re.compile(r"[0-9a-f]{8}|[0-9a-f-]{32,36}|runs?|outputs?|out|run_default|\d+")
"""Of the folders of runs: `vf-eval` numbers its results so."""
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
                hint=f"end that first: {hints.DOWN(name=before.name)}",
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


@dataclass(frozen=True, slots=True)
class AddedRuns:
    new: tuple[RunRow, ...]
    """In the index from now on."""
    known: tuple[RunRow, ...]
    """Which were there already."""
    told: tuple[str, ...] = ()
    """Sentences for the person: of a folder that was moved."""


def add(folder: Path, name: str | None = None) -> AddedRuns:
    """Take all runs in a folder and below into the index, whoever wrote them. Into those that are somebody
    else's nothing is written, and none of them is watched. Done twice, it changes nothing.

    Raises:
        UsageError: if there is none, or `name` cannot be that of one.
        ConflictError: if the name is taken.
        RltuiError: if the index, or what is kept of a run, cannot be written.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder", hint="name one with runs in it")
    found = [*find_runs(folder)]
    if not found:
        raise UsageError(
            f"{folder} holds no run that rltui knows",
            hint="name the folder that has logs/ or results.jsonl in it",
        )
    if name is not None and len(found) > 1:
        raise UsageError(f"{folder} holds {len(found)} runs, which cannot all be called {name}")
    index = RunIndex()
    told = catalog.catch_up(index).messages
    before = index.ids()
    with alone():
        by_folder = {record.run_dir: record for record in known_experiments()}
        places = [_kept_place(run, by_folder, name) for run in found]
        told += catalog.read_folders(index, places)
    rows = {row.control: row for row in index.rows()}
    ours = [rows[control] for place in places if (control := str(ControlFolder(place).path)) in rows]
    return AddedRuns(
        new=tuple(row for row in ours if row.id not in before),
        known=tuple(row for row in ours if row.id in before),
        told=told,
    )


def _kept_place(run: DetectedRun, known: Mapping[str, ExperimentRecord], name: str | None) -> Path:
    """The folder that rltui keeps its own of the run in."""
    if is_own(run.path):
        return run.path
    if (record := known.get(str(run.path))) is not None:
        return Path(record.output_dir)
    if name is not None and (taken := find_experiment(name)) is not None:
        raise ConflictError(
            f"the name {name} is taken by the experiment in {taken.run_dir}",
            hint="choose another with -n NAME",
        )
    made = _written(
        name=name or _free_name(run.path),
        run_dir=run.path,
        layout_file=layout_files.find(LAYOUT),
        framework=run.framework,
    )
    return Path(made.output_dir)


def _is_as_wanted(record: ExperimentRecord, layout_file: Path, framework: str) -> bool:
    return record.layout_file == str(layout_file) and record.framework == framework


def _written(*, name: str, run_dir: Path, layout_file: Path, framework: str) -> ExperimentRecord:
    folder = paths.state_dir() / "observed" / name
    record = new_record(
        name=name,
        output_dir=folder,
        workspace=folder,
        config_files=[],
        layout_file=layout_file,
        framework=framework,
        run_dir=str(run_dir),
        observed=True,
    )
    ControlFolder(folder).write_record(record)
    return record


def _free_name(run_dir: Path) -> str:
    """Named like the folder, with a number where that name is taken; like the one above, too, where it has a
    name that tells nothing.
    """
    told = f"{run_dir.parent.name}-{run_dir.name}" if _TELLS_NOTHING.fullmatch(run_dir.name) else run_dir.name
    name = _NOT_IN_NAMES.sub("-", told).strip("-_")[:_LONGEST_NAME] or "run"
    number = 1
    while find_experiment(candidate := name if number == 1 else f"{name}-{number}") is not None:
        number += 1
    return candidate
