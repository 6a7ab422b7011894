"""Warnings about config files that need more than the files: who else reads them, whom they name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rltui.core.config_report import Problem
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services import processes
from rltui.services.experiment_files import ControlFolder, ExperimentRecord, known_experiments


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


def changed_instances(
    record: ExperimentRecord, framework: Framework, files: ConfigFiles
) -> tuple[Problem, ...]:
    """A warning for each kind of which `files` name others than when the experiment was made."""
    if not record.instances:
        return ()
    now = framework.instances(files)
    return tuple(
        _problem(record, word, before, now.get(word, ()))
        for word, before in record.instances.items()
        if tuple(now.get(word, ())) != before
    )


def _problem(record: ExperimentRecord, word: str, before: tuple[str, ...], now: tuple[str, ...]) -> Problem:
    files = " ".join(record.config_files)
    return Problem(
        severity="warning",
        message=f"{word}: the config names {', '.join(now) or 'none'}, this experiment has components for "
        f"{', '.join(before) or 'none'}: it gets others with `rltui down {record.name}`, then "
        f"`rltui up {files} -n {record.name} --resume`",
    )
