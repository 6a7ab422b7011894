"""A run's folder: is it used, what can be resumed, what must be moved aside. Nothing is deleted."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui.core.api import Archived, Request
from rltui.core.config_data import value_at
from rltui.core.config_report import Problem
from rltui.core.text import listed
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.frameworks.base import ConfigFiles, Framework, RunFiles
from rltui.services.config.files import load_files, load_snapshot
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.observed import framework_of

_NUMBER = r"(0|[1-9]\d{0,14})"
"""Behind the prefix, the whole name of a folder that a framework makes: `best_step_400` and `step_0400` are a
person's."""


ARCHIVED_SERIES = "metrics"
"""In what a restart moved aside, the series of the run: no file of the framework's."""


class RunFolder:
    """The folder `path` of a framework that lays its files out as `files` says.

    rltui's own folder is in `output_dir`, by default in the same.
    """

    def __init__(self, path: Path, files: RunFiles, output_dir: Path | None = None) -> None:
        self.path = path
        self.files = files
        self._name = re.compile(re.escape(files.checkpoint_prefix) + _NUMBER)
        self.archive = ControlFolder(path if output_dir is None else output_dir).archive

    @property
    def metrics(self) -> tuple[Path, ...]:
        """Where the metrics may be: the first file that exists counts."""
        return tuple(self.path / place for place in self.files.metrics)

    def beat(self, component: str) -> int | None:
        """Changes with every step that the component has done; `None` where no file tells."""
        try:
            return (self.path / self.files.beats[component]).stat().st_mtime_ns
        except (KeyError, OSError):
            return None

    def artifacts(self) -> list[str]:
        """Names of what an earlier run left here: an empty folder, too, is refused by some launchers."""
        named = (
            sorted(entry.name for entry in self.path.glob(name)) if "*" in name else [name]
            for name in self.files.artifacts
        )
        return [name for names in named for name in names if self._is_left(self.path / name)]

    def _is_left(self, path: Path) -> bool:
        made = self.files.made_by_rltui
        if made and (self.path / made).is_relative_to(path):
            return any(files for _, _, files in os.walk(path))
        return path.exists()

    def checkpoints(self) -> list[int]:
        """Steps of the complete checkpoints that a run can continue from, ascending."""
        return [] if self.files.no_resume else sorted(self.checkpoint_folders())

    def checkpoint_folders(self) -> dict[int, Path]:
        """Step → folder of the complete checkpoints, in no order."""
        folder = self.path / self.files.checkpoints
        return {step: entry for step, entry in self._steps(folder) if self._is_complete(step, entry)}

    def _is_complete(self, step: int, entry: Path) -> bool:
        parts = (self.path / part.format(step=step) for part in self.files.checkpoint_parts)
        return (entry / self.files.checkpoint_marker).exists() and all(part.exists() for part in parts)

    def checkpoint_roots(self) -> tuple[Path, ...]:
        """The folders of the folders that the parts of checkpoints lie in; the main one first."""
        halves = (part.partition("/step_{step}/")[0] for part in self.files.checkpoint_parts)
        return tuple(self.path / name for name in dict.fromkeys((self.files.checkpoints, *halves)))

    def belonging_to(self, step: int) -> list[Path]:
        """The folders of one checkpoint, relative to this one: what a run in another folder needs of it."""
        name = f"{self.files.checkpoint_prefix}{step}"
        beside = (self.path / place for place in self.files.beside_checkpoint)
        roots = dict.fromkeys((*self.checkpoint_roots(), *beside))
        return [(root / name).relative_to(self.path) for root in roots if (root / name).is_dir()]

    def checkpoint_files(self) -> list[CheckpointFiles]:
        """All checkpoints, whole or not, by step, ascending."""
        found: dict[int, list[Path]] = {}
        for root in self.checkpoint_roots():
            for step, entry in self._steps(root):
                found.setdefault(step, []).append(entry)
        return [self._files_of(step, found[step]) for step in sorted(found)]

    def _files_of(self, step: int, folders: list[Path]) -> CheckpointFiles:
        main = self.path / self.files.checkpoints / f"{self.files.checkpoint_prefix}{step}"
        needed = [self.path / part.format(step=step) for part in self.files.checkpoint_parts]
        needed += [main / self.files.checkpoint_marker] if self.files.checkpoint_marker else []
        missing = [self._first_missing(path) for path in needed if not path.exists()]
        names = [each.name for folder in folders for each in sorted(folder.iterdir()) if each.is_dir()]
        names += [self.files.checkpoint_marker] if (main / self.files.checkpoint_marker).is_file() else []
        if "weights" in self.files.artifacts and (self.path / "weights" / main.name).is_dir():
            names.append("weights")
        names += ["adapters"] if (main / "adapter_config.json").is_file() else []
        parts = tuple(name for name in dict.fromkeys(names) if name and not name.startswith("."))
        whole = [path for path in needed if path.exists()]
        return CheckpointFiles(step, tuple(folders), parts, tuple(dict.fromkeys(missing)), tuple(whole))

    def archives(self) -> dict[str, list[int]]:
        """Name of each folder in which a restart moved files aside → steps of the checkpoints in it,
        ascending; the oldest first.
        """
        folders = sorted(self.archive.iterdir()) if self.archive.is_dir() else ()
        return {
            folder.name: sorted(step for step, _ in self._steps(folder / self.files.checkpoints))
            for folder in folders
            if folder.is_dir() and {entry.name for entry in folder.iterdir()} - {ARCHIVED_SERIES}
        }

    def latest_checkpoint(self) -> int | None:
        """Step of the newest complete checkpoint."""
        return max(self.checkpoints(), default=None)

    def stale(self, resume_step: int | None) -> list[Path]:
        """What processes that resume from there must not see.

        Resuming: `step_<N>` entries beyond the step, or all of them, in the folders that the framework names.
        From the beginning: everything an earlier run left. What a person laid beside the `step_<N>` folders
        stays.
        """
        if resume_step is None:
            return [entry for name in self.artifacts() for entry in self._left_in(name)]
        files, last_done = self.files, resume_step - 1 + self.files.first_step
        kept = {
            **dict.fromkeys(files.stale_after_resume, resume_step),
            **dict.fromkeys(files.stale_batches, last_done),
            **dict.fromkeys(files.stale_always, -1),
        }
        return [
            entry
            for name, last in kept.items()
            for step, entry in self._steps(self.path / name)
            if step > last
        ]

    def archived(self, resume_step: int | None) -> tuple[Archived, ...]:
        """What `move_stale_aside` would move, by folder, in words for a plan."""
        found: dict[str, list[int]] = {}
        for entry in self.stale(resume_step):
            name, match = str(entry.relative_to(self.path)), self._name.fullmatch(entry.name)
            if match is not None:
                found.setdefault(name.rpartition("/")[0] or "checkpoints", []).append(int(match[1]))
            else:
                found[name] = [step for step, _ in self._steps(entry)]
        return tuple(Archived(folder=name, steps=tuple(sorted(steps))) for name, steps in found.items())

    def move_stale_aside(self, resume_step: int | None) -> Path | None:
        """Before a start: move what `stale` names. Returns the folder it went to; `None`: there was nothing.

        Raises:
            RltuiError: if they cannot be moved.
        """
        stale = self.stale(resume_step)
        if not stale:
            return None
        aside = self._new_archive()
        for entry in stale:
            target = aside / entry.relative_to(self.path)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                entry.rename(target)
            except OSError as error:
                raise RltuiError(f"cannot move {entry} aside: {error.strerror}") from error
        return aside

    def bring_back(self, name: str, resume_step: int | None) -> Path | None:
        """Move what lies in one of `archives` to where it came from. To be called while nothing runs.

        `resume_step`: the run went on from there when it was moved aside. What the run has written since
        takes its place: the folder of that is returned, `None` where there is nothing.

        Raises:
            ConflictError: if something else lies there now; nothing was moved.
            RltuiError: if they cannot be moved.
        """
        source = self.archive / name
        entries = [entry for entry in sorted(source.iterdir()) if entry.name != ARCHIVED_SERIES]

        def moves() -> list[tuple[Path, Path]]:
            return [move for entry in entries for move in _moves(entry, self.path / entry.name)]

        going = set(self.stale(resume_step))
        there = [target for _, target in moves() if target.exists()]
        if taken := [target for target in there if going.isdisjoint((target, *target.parents))]:
            names = listed([str(target.relative_to(self.path)) for target in taken])
            raise ConflictError(
                f"{names} cannot be brought back: something of that name lies in {self.path}",
                hint="move that elsewhere, and ask again; nothing was moved",
            )
        aside = self.move_stale_aside(resume_step)
        for entry, target in moves():
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                entry.rename(target)
            except OSError as error:
                raise RltuiError(f"cannot move {entry} back: {error.strerror}") from error
        for folder, _, _ in os.walk(source, topdown=False):
            with contextlib.suppress(OSError):  # something is left in it
                Path(folder).rmdir()
        return aside

    def _left_in(self, name: str) -> list[Path]:
        """An artifact as a whole, or only its steps where a person keeps something beside them."""
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
        """`orchestrator` of `…/step_5/orchestrator/progress.pt` where the folder is missing."""
        name = path.name
        for parent in path.parents:
            if self._name.fullmatch(parent.name):
                break
            name = f"{parent.name}/{name}" if parent.exists() else parent.name
        return name

    def _new_archive(self) -> Path:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for number in range(1, 1000):
            candidate = self.archive / (stamp if number == 1 else f"{stamp}-{number}")
            if not candidate.exists():
                return candidate
        raise RltuiError(f"too many archived runs in {self.archive}", hint="remove the ones you do not need")


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    step: int
    folders: tuple[Path, ...]
    """The main one first, where it is there."""
    parts: tuple[str, ...]
    missing: tuple[str, ...]
    """Of what makes it complete: `orchestrator`, or `trainer/.metadata` where only that is not there yet."""
    marks: tuple[Path, ...]
    """Files that are written last, as far as they are there."""

    def written_at(self) -> float | None:
        """When its last part was; `None` where it is gone meanwhile."""
        times = []
        for path in self.marks or self.folders:
            with contextlib.suppress(OSError):  # gone since
                times.append(path.stat().st_mtime)
        return max(times, default=None)


def run_folder_of(record: ExperimentRecord) -> RunFolder:
    """Where the run of an experiment lies, by its config where that can be read."""
    framework = framework_of(record)
    try:
        files = framework.run_files(load_files([Path(name) for name in record.config_files], framework).files)
    except ConfigError:
        files = framework.files
    return RunFolder(Path(record.run_dir), files, Path(record.output_dir))


def next_free(path: Path) -> Path:
    """`path` with the smallest number from 2 on that does not exist: `outputs/reverse-text-2`."""
    number = 2
    while (candidate := path.with_name(f"{path.name}-{number}")).exists():
        number += 1
    return candidate


def _moves(entry: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """The fewest renames that bring `entry` to `target`, where a folder may be already."""
    if entry.is_dir() and target.is_dir() and not entry.is_symlink():
        for part in sorted(entry.iterdir()):
            yield from _moves(part, target / part.name)
    else:
        yield entry, target


_NAMED = 12
"""Of many checkpoints, so many are named: those nearest to the one that is not there."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    step: int | None
    """A complete checkpoint; `None`: the beginning."""
    asked: int | None = None
    """The step that somebody asked for, 0 for the beginning; `None`: the newest will do."""
    because: str = ""
    """Who asks, where that is the config."""
    passed_over: str = ""
    """What the config asks for, where something else counts, and why."""
    problem: Problem | None = None
    """Why what was asked for cannot be had; `step` is then meaningless."""


@dataclass(frozen=True, slots=True)
class _WantedStep:
    step: int
    key: str = ""
    """Of the config, with the file that holds it; empty: a person said so on the command line or screen."""
    file: str = ""


@dataclass(frozen=True, slots=True)
class ResumePoints:
    """Of the experiment in `control`, whose run lies in `folder` and is written by `run_jobs`."""

    framework: Framework
    control: ControlFolder
    folder: RunFolder
    run_jobs: Collection[str]

    def of(
        self,
        request: Request,
        files: ConfigFiles,
        *,
        edited: Mapping[str, Collection[str]] | None = None,
    ) -> ResumePoint:
        """Where `request` continues with the config `files`. `edited`: role → keys that it sets there.

        A step in the config counts once: when it is edited, or is not the one that the run was last started
        with. A later start takes the newest checkpoint again, or the run would never get beyond it.
        """
        named = _named(self.framework, files)
        is_new = named is not None and self._is_new(named, edited or {})
        asked = _WantedStep(request.resume_step) if request.resume_step is not None else None
        if asked is None and named is not None and is_new and request.resume == "latest":
            asked = _WantedStep(named.step, named.key, files[named.role].path)
        there = self.folder.checkpoints()
        if asked is None:
            step = there[-1] if there and request.resume == "latest" else None
            return ResumePoint(step, passed_over=self._passed_over(named, step, is_new=is_new))
        because = f"{asked.key} = {asked.step} asks for that checkpoint" if asked.key else ""
        if asked.step in there or asked.step == 0:
            step = asked.step if asked.step in there else None
            passed_over = "" if asked.key else self._passed_over(named, step, is_new=is_new)
            return ResumePoint(step, asked.step, because, passed_over)
        return ResumePoint(None, asked.step, because, problem=self._missing(asked, there))

    def _is_new(self, named: _Named, edited: Mapping[str, Collection[str]]) -> bool:
        """Nothing was started with it yet, or somebody writes it just now."""
        return named.key in edited.get(named.role, ()) or named.step not in self._started_with()

    def _passed_over(self, named: _Named | None, step: int | None, *, is_new: bool) -> str:
        """That the step of the config is not the one to go on from, and how it would be; or that none is."""
        if self.folder.files.no_resume and self.folder.checkpoint_folders():
            return f"it begins at step 0 again: {self.folder.files.no_resume}"
        if named is None or named.step == (step or 0):
            return ""
        what = f"{named.key} = {named.step} is passed over"
        if is_new:
            return f"{what}: another start was asked for"
        again = f"; --from {named.step} goes back to it" if named.step in self.folder.checkpoints() else ""
        return f"{what}: the run was started with it before{again}"

    def _started_with(self) -> list[int]:
        """What the config named when each job of the run was last started."""
        folders = [folder for folder in self.control.newest_attempts() if folder.parent.name in self.run_jobs]
        steps = []
        for folder in folders:
            try:
                named = _named(self.framework, load_snapshot(folder / "config", self.framework))
            except ConfigError:  # damaged since: it tells nothing
                continue
            steps.extend([named.step] if named is not None else [])
        return steps

    def _missing(self, asked: _WantedStep, there: Sequence[int]) -> Problem:
        if self.folder.files.no_resume:
            what = f"there is no going on from checkpoint {asked.step}: {self.folder.files.no_resume}"
            return Problem(key=asked.key or None, file=asked.file or None, message=what)
        nearest = sorted(sorted(there, key=lambda step: abs(step - asked.step))[:_NAMED])
        names = ", ".join(map(str, nearest)) or "none"
        more = f" and {len(there) - len(nearest)} others" if len(there) > len(nearest) else ""
        what = f"{asked.key} = {asked.step}" if asked.key else f"checkpoint {asked.step}"
        return Problem(
            key=asked.key or None,
            file=asked.file or None,
            message=f"{what}: {self.folder.path} has no complete checkpoint of that step; "
            f"it has: {names}{more}",
        )


def named_step(framework: Framework, files: ConfigFiles) -> int | None:
    """Of the checkpoint of this run that a config names; `None`: none, or the newest."""
    named = _named(framework, files)
    return named.step if named is not None else None


@dataclass(frozen=True, slots=True)
class _Named:
    role: str
    key: str
    step: int


def _named(framework: Framework, files: ConfigFiles) -> _Named | None:
    """The checkpoint of this run that a config names; below 0 means the newest, as if it named none."""
    for role, file in files.items():
        if any(value_at(file.data, key) is not None for key in framework.resume_elsewhere):
            return None
        for key in framework.resume_keys:
            step = value_at(file.data, key)
            if isinstance(step, int) and not isinstance(step, bool) and step >= 0:
                return _Named(role, key, step)
    return None
