"""A config that names other instances than the experiment has components for, such as another environment."""

from __future__ import annotations

from rltui.core.config_report import Problem
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services.runs.experiment_files import ExperimentRecord


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
