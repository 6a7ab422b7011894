"""Config files that another experiment reads too: an edit for one of them is an edit for both."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rltui.core.config_report import Problem
from rltui.services import processes
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import known_experiments


def shared_configs(files: Iterable[str | Path], own: ExperimentRecord | None = None) -> tuple[Problem, ...]:
    """A warning for each of `files` that an experiment reads of which something runs, `own` left out."""
    wanted = {Path(file).resolve(): str(file) for file in files}
    found: list[Problem] = []
    if not wanted:
        return ()
    for other in known_experiments():
        if other.observed or (own is not None and other.output_dir == own.output_dir):
            continue
        shared = [wanted[path] for name in other.config_files if (path := Path(name).resolve()) in wanted]
        if shared and _runs(other):
            found.extend(Problem(severity="warning", file=file, message=_words(other)) for file in shared)
    return tuple(found)


def _words(other: ExperimentRecord) -> str:
    return (
        f"the experiment {other.name}, which runs in {other.output_dir}, reads this file too: it starts next "
        "with what is edited here; give one of them a copy of its own to keep them apart"
    )


def _runs(record: ExperimentRecord) -> bool:
    folders = ControlFolder(Path(record.output_dir)).newest_attempts()
    attempts = map(processes.read_attempt, folders)
    return any(each is not None and (each.is_supervised or each.living_main is not None) for each in attempts)
