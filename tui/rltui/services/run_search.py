"""The run that a person means by a folder: the folder itself, or the only run in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rltui import paths
from rltui.errors import UsageError
from rltui.frameworks.registry import LOOKED_INTO, framework_of_tree
from rltui.services.experiment_files import ControlFolder

MOST_ENTRIES = 500
"""Of each folder; those that tell are few."""


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run on the disk."""

    path: Path
    """Absolute, without links."""
    framework: str


def find_run(folder: Path, framework: str | None = None) -> FoundRun:
    """The run in `folder`, or the only one in a folder of that.

    With `framework`, the folder is taken as a run of it, whatever it holds.

    Raises:
        UsageError: if there is none, or several: names them, the one written to last first.
        ConfigError: if another rltui runs it, and its record there is damaged.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder", hint="name the output folder of a run")
    folder = folder.resolve()
    if framework is not None:
        return FoundRun(folder, framework)
    if (found := _run_at(folder)) is not None:
        return found
    inside = [run for entry in _folders(folder) if (run := _run_at(entry)) is not None]
    if len(inside) == 1:
        return inside[0]
    if not inside:
        raise UsageError(
            f"{folder} holds no run of a framework that rltui knows",
            hint="name the folder that has logs/ in it; if the run is just beginning, say which framework "
            "with --framework",
        )
    inside.sort(key=lambda run: run.path.stat().st_mtime, reverse=True)
    raise UsageError(
        f"{folder} holds {len(inside)} runs: say which",
        details=[f"rltui watch {run.path}" for run in inside],
        hint="the one that changed last comes first",
    )


def _run_at(folder: Path) -> FoundRun | None:
    """The run that was written to just this folder."""
    if (folder / paths.STATE_FOLDER / "experiment.toml").is_file():
        record = ControlFolder(folder).read_record()
        if record is not None:  # another person's rltui runs it, maybe in another place of the file system
            below = os.path.relpath(record.run_dir, record.output_dir)
            return FoundRun((folder / below).resolve(), record.framework)
    framework = framework_of_tree([*_names(folder)])
    return None if framework is None else FoundRun(folder, framework)


def _names(folder: Path) -> Iterator[str]:
    for inner in ("", *LOOKED_INTO):
        for entry in _entries(folder / inner):
            yield f"{inner}/{entry}" if inner else entry


def _entries(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(MOST_ENTRIES), strict=False)]
    except OSError:  # not there, or not for us to read: it tells nothing
        return []


def _folders(folder: Path) -> list[Path]:
    return [path for name in _entries(folder) if (path := folder / name).is_dir()]
