"""A run's folder: whether it is used, its checkpoints, and what must be archived. Nothing is deleted."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rltui.base.text import join_words
from rltui.base.times import stamp_text
from rltui.core.experiment.api import Archived
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.frameworks.run_settings import RunFiles
from rltui.services.config.files import load_files
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.own_files import free_path
from rltui.services.runs.observed import framework_of

_NUMBER = r"(0|[1-9]\d{0,14})"
"""Follows the prefix in the complete name of a folder that a framework makes: `best_step_400` and `step_0400`
are a person's.
"""


ARCHIVED_SERIES = "metrics"
"""Name of the run's series in an archive: no file of the framework's."""


class RunFolder:
    """The folder `path` of a framework whose files are described by `files`.

    rltui's own folder is in `output_dir`, by default the same.
    """

    def __init__(self, path: Path, files: RunFiles, output_dir: Path | None = None) -> None:
        self.path = path
        self.files = files
        self._name = re.compile(re.escape(files.checkpoint_prefix) + _NUMBER)
        self.archive = ControlFolder(path if output_dir is None else output_dir).archive

    @property
    def metrics(self) -> tuple[Path, ...]:
        """Possible paths of the metrics file: the first that exists counts."""
        return tuple(self.path / name for name in self.files.metrics)

    def beat(self, component: str) -> int | None:
        """A number that changes with every step of the component; `None` if no file shows it."""
        try:
            return (self.path / self.files.beats[component]).stat().st_mtime_ns
        except (KeyError, OSError):
            return None

    def artifacts(self) -> list[str]:
        """Names of what an earlier run left here: even an empty folder is refused by some launchers."""
        matches = (
            sorted(entry.name for entry in self.path.glob(name)) if "*" in name else [name]
            for name in self.files.artifacts
        )
        return [name for names in matches for name in names if self._has_content(self.path / name)]

    def _has_content(self, path: Path) -> bool:
        own_path = self.files.made_by_rltui
        if own_path and (self.path / own_path).is_relative_to(path):
            return any(files for _, _, files in os.walk(path))
        return path.exists()

    def checkpoints(self) -> list[int]:
        """Steps of the complete ones that a run can continue from, ascending."""
        return [] if self.files.no_resume else sorted(self.checkpoint_folders())

    def checkpoint_folders(self) -> dict[int, Path]:
        """Step → folder of the complete checkpoints, unordered."""
        folder = self.path / self.files.checkpoints
        return {step: entry for step, entry in self._steps(folder) if self._is_complete(step, entry)}

    def _is_complete(self, step: int, entry: Path) -> bool:
        required = (self.path / path.format(step=step) for path in self.files.checkpoint_parts)
        return (entry / self.files.checkpoint_marker).exists() and all(path.exists() for path in required)

    def checkpoint_roots(self) -> tuple[Path, ...]:
        """The parent folders of the parts of checkpoints; the main one first."""
        halves = (path.partition("/step_{step}/")[0] for path in self.files.checkpoint_parts)
        return tuple(self.path / name for name in dict.fromkeys((self.files.checkpoints, *halves)))

    def belonging_to(self, step: int) -> list[Path]:
        """The folders of one checkpoint, relative to this one, that a run in another folder needs."""
        name = f"{self.files.checkpoint_prefix}{step}"
        extra_roots = (self.path / root_name for root_name in self.files.beside_checkpoint)
        roots = dict.fromkeys((*self.checkpoint_roots(), *extra_roots))
        return [(root / name).relative_to(self.path) for root in roots if (root / name).is_dir()]

    def checkpoint_files(self) -> list[CheckpointFiles]:
        """All checkpoints, complete or not, by step, ascending."""
        by_step: dict[int, list[Path]] = {}
        for root in self.checkpoint_roots():
            for step, entry in self._steps(root):
                by_step.setdefault(step, []).append(entry)
        return [self._files_of(step, by_step[step]) for step in sorted(by_step)]

    def _files_of(self, step: int, folders: list[Path]) -> CheckpointFiles:
        main = self.path / self.files.checkpoints / f"{self.files.checkpoint_prefix}{step}"
        needed = [self.path / required.format(step=step) for required in self.files.checkpoint_parts]
        needed += [main / self.files.checkpoint_marker] if self.files.checkpoint_marker else []
        missing_names = [self._first_missing(path) for path in needed if not path.exists()]
        names = [entry.name for folder in folders for entry in sorted(folder.iterdir()) if entry.is_dir()]
        names += [self.files.checkpoint_marker] if (main / self.files.checkpoint_marker).is_file() else []
        if "weights" in self.files.artifacts and (self.path / "weights" / main.name).is_dir():
            names.append("weights")
        names += ["adapters"] if (main / "adapter_config.json").is_file() else []
        names_found = tuple(name for name in dict.fromkeys(names) if name and not name.startswith("."))
        existing = [path for path in needed if path.exists()]
        return CheckpointFiles(
            step, tuple(folders), names_found, tuple(dict.fromkeys(missing_names)), tuple(existing)
        )

    def archives(self) -> dict[str, list[int]]:
        """Name of each archive of a restart → steps of the checkpoints in it, ascending; the oldest first."""
        folders = sorted(self.archive.iterdir()) if self.archive.is_dir() else ()
        return {
            folder.name: sorted(step for step, _ in self._steps(folder / self.files.checkpoints))
            for folder in folders
            if folder.is_dir() and {entry.name for entry in folder.iterdir()} - {ARCHIVED_SERIES}
        }

    def latest_checkpoint(self) -> int | None:
        return max(self.checkpoints(), default=None)

    def stale(self, resume_step: int | None) -> list[Path]:
        """Entries that processes resuming from there must not see.

        For a resume: `step_<N>` entries beyond the step, or all of them, in the folders that the framework
        names. From the beginning: everything an earlier run left. What a person put next to the `step_<N>`
        folders stays.
        """
        if resume_step is None:
            return [entry for name in self.artifacts() for entry in self._stale_entries(name)]
        files, last_done = self.files, resume_step - 1 + self.files.first_step
        last_kept = {
            **dict.fromkeys(files.stale_after_resume, resume_step),
            **dict.fromkeys(files.stale_batches, last_done),
            **dict.fromkeys(files.stale_always, -1),
        }
        return [
            entry
            for name, last in last_kept.items()
            for step, entry in self._steps(self.path / name)
            if step > last
        ]

    def archived(self, resume_step: int | None) -> tuple[Archived, ...]:
        """The entries that `move_stale_aside` would move, by folder, for a plan."""
        by_folder: dict[str, list[int]] = {}
        for entry in self.stale(resume_step):
            name, match = str(entry.relative_to(self.path)), self._name.fullmatch(entry.name)
            if match is not None:
                by_folder.setdefault(name.rpartition("/")[0] or "checkpoints", []).append(int(match[1]))
            else:
                by_folder[name] = [step for step, _ in self._steps(entry)]
        return tuple(Archived(folder=name, steps=tuple(sorted(steps))) for name, steps in by_folder.items())

    def move_stale_aside(self, resume_step: int | None) -> Path | None:
        """Archive what `stale` names, before a start. Returns the folder; `None`: there was nothing.

        Raises:
            RltuiError: if they cannot be moved.
        """
        stale = self.stale(resume_step)
        if not stale:
            return None
        archive = free_path(self.archive / stamp_text(time.time()))
        for entry in stale:
            _move(entry, archive / entry.relative_to(self.path), "aside")
        return archive

    def bring_back(self, name: str, resume_step: int | None) -> Path | None:
        """Move an archive's files back to where they were. Call it while nothing runs.

        `resume_step`: the run was resumed from there when they were archived. What the run has written since
        is archived in exchange: that folder is returned, `None` if there is nothing.

        Raises:
            ConflictError: if something else is there now; nothing was moved.
            RltuiError: if they cannot be moved.
        """
        source = self.archive / name
        entries = [entry for entry in sorted(source.iterdir()) if entry.name != ARCHIVED_SERIES]

        def moves() -> list[tuple[Path, Path]]:
            return [move for entry in entries for move in _moves(entry, self.path / entry.name)]

        leaving = set(self.stale(resume_step))
        existing = [target for _, target in moves() if target.exists()]
        if occupied := [target for target in existing if leaving.isdisjoint((target, *target.parents))]:
            names = join_words([str(target.relative_to(self.path)) for target in occupied])
            raise ConflictError(
                f"{names} cannot be restored: the name is taken in {self.path}",
                hint="nothing was moved; move that away, and try again",
            )
        archive = self.move_stale_aside(resume_step)
        for entry, target in moves():
            _move(entry, target, "back")
        for folder, _, _ in os.walk(source, topdown=False):
            with contextlib.suppress(OSError):  # something is left in it
                Path(folder).rmdir()
        return archive

    def _stale_entries(self, name: str) -> list[Path]:
        """A complete artifact, or only its steps if a person keeps something next to them."""
        artifact = self.path / name
        if name not in (self.files.checkpoints, *self.files.stale_after_resume) or not artifact.is_dir():
            return [artifact]
        steps = [entry for _, entry in self._steps(artifact)]
        return steps if len(steps) < len(list(artifact.iterdir())) else [artifact]

    def _steps(self, folder: Path) -> Iterator[tuple[int, Path]]:
        if not folder.is_dir():
            return
        for entry in folder.iterdir():
            if (match := self._name.fullmatch(entry.name)) and entry.is_dir():
                yield int(match[1]), entry

    def _first_missing(self, path: Path) -> str:
        """Shortest missing path: `orchestrator` of `…/step_5/orchestrator/progress.pt` if the folder is
        missing.
        """
        name = path.name
        for parent in path.parents:
            if self._name.fullmatch(parent.name):
                break
            name = f"{parent.name}/{name}" if parent.exists() else parent.name
        return name


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    step: int
    folders: tuple[Path, ...]
    """Existing ones, the main one first."""
    parts: tuple[str, ...]
    missing: tuple[str, ...]
    """Names that make it incomplete: `orchestrator`, or `trainer/.metadata` if only that is not there yet."""
    marks: tuple[Path, ...]
    """Existing files that are written last."""

    def written_at(self) -> float | None:
        """Time at which its last part was written; `None` if it is gone meanwhile."""
        times = []
        for path in self.marks or self.folders:
            with contextlib.suppress(OSError):  # gone since
                times.append(path.stat().st_mtime)
        return max(times, default=None)


def run_folder_of(record: ExperimentRecord) -> RunFolder:
    """The folder of an experiment's run, by its config if that can be read."""
    framework = framework_of(record)
    try:
        files = framework.run.files(load_files(record.config_paths, framework))
    except ConfigError:
        files = framework.run.locations
    return RunFolder(Path(record.run_dir), files, Path(record.output_dir))


def _move(entry: Path, target: Path, where: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        entry.rename(target)
    except OSError as error:
        raise RltuiError(f"cannot move {entry} {where}: {error.strerror}") from error


def _moves(entry: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """The fewest renames that bring `entry` to `target`, which may be an existing folder."""
    if entry.is_dir() and target.is_dir() and not entry.is_symlink():
        for child in sorted(entry.iterdir()):
            yield from _moves(child, target / child.name)
    else:
        yield entry, target
