"""Chooses the experiment of a command that names none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.client import launch
from rltui.services.runs.experiment_files import ExperimentRecord

if TYPE_CHECKING:
    from rltui.services.runs.index import RunIndex


def choose_experiment(name: str | None, *, acts: bool = False) -> ExperimentRecord:
    """The experiment called `name`; without a name the only one alive, or there is, else the one of this
    folder, else the newest: a line on stderr says so. What `acts` on one of several living takes no guess.

    Raises:
        UsageError: if there is none, or the choice is not clear.
    """
    try:
        return launch.choose(name)
    except launch.AmbiguousNameError as error:
        in_folder = [record for record in error.candidates if _is_of(record, Path.cwd())]
        among = in_folder or error.candidates
        if acts and error.are_alive and len(in_folder) != 1:
            raise
    record = max(among, key=lambda candidate: candidate.created_at)
    location = "this folder" if in_folder else "all"
    choice = f"the one of {location}" if len(among) == 1 else f"the newest of {len(among)} of {location}"
    print(f"{record.name}: {choice} (another: -n NAME)", file=sys.stderr)
    return record


def ready_index() -> RunIndex:
    """The index of runs, up to date with their folders; what is new of those is told on stderr."""
    from rltui.services.runs.catalog import catch_up  # only what is about many runs needs it
    from rltui.services.runs.index import RunIndex

    index = RunIndex()
    for sentence in catch_up(index).messages:
        print(sentence, file=sys.stderr)
    return index


def _is_of(record: ExperimentRecord, folder: Path) -> bool:
    """True if the experiment runs in `folder`, or has its config or its output there."""
    configs = (Path(file).parent for file in record.config_files)
    return folder in (Path(record.workspace), *configs) or folder.is_relative_to(record.output_dir)
