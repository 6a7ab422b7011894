"""Where a run that is started again goes on: the checkpoint that somebody asks for, else the newest one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rltui.core.api import Request
from rltui.core.config_data import value_at
from rltui.core.config_report import Problem
from rltui.errors import ConfigError
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services.config.files import load_snapshot
from rltui.services.experiment_files import ControlFolder
from rltui.services.run_folder import RunFolder

_NAMED = 12
"""Of many checkpoints, so many are named: those nearest to the one that is not there."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """What the jobs of the run continue from."""

    step: int | None
    """A complete checkpoint; `None`: the beginning."""
    asked: int | None = None
    """The step that somebody asked for, 0 for the beginning; `None`: the newest will do."""
    because: str = ""
    """Who asks, where that is the config."""
    problem: Problem | None = None
    """Why what was asked for cannot be had; `step` is then meaningless."""


@dataclass(frozen=True, slots=True)
class _Asked:
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
        asked = self._asked(request, files, edited or {})
        there = self.folder.checkpoints()
        if asked is None:
            return ResumePoint(there[-1] if there and request.resume == "latest" else None)
        because = f"{asked.key} = {asked.step} asks for that checkpoint" if asked.key else ""
        if asked.step in there or asked.step == 0:
            return ResumePoint(asked.step if asked.step in there else None, asked.step, because)
        return ResumePoint(None, asked.step, because, self._missing(asked, there))

    def _asked(
        self, request: Request, files: ConfigFiles, edited: Mapping[str, Collection[str]]
    ) -> _Asked | None:
        if request.resume_step is not None:
            return _Asked(request.resume_step)
        named = _named(self.framework, files)
        if named is None or request.resume == "scratch":
            return None
        role, key, step = named
        if key in edited.get(role, ()) or step not in self._started_with():
            return _Asked(step, key, files[role].path)
        return None

    def _started_with(self) -> list[int]:
        """What the config named when each job of the run was last started."""
        folders = [folder for folder in self.control.newest_attempts() if folder.parent.name in self.run_jobs]
        steps = []
        for folder in folders:
            try:
                named = _named(self.framework, load_snapshot(folder / "config", self.framework))
            except ConfigError:  # damaged since: it tells nothing
                continue
            steps.extend([named[2]] if named is not None else [])
        return steps

    def _missing(self, asked: _Asked, there: Sequence[int]) -> Problem:
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


def _named(framework: Framework, files: ConfigFiles) -> tuple[str, str, int] | None:
    """Role, key and step of the checkpoint of this run that a config names; below 0 means the newest."""
    for role, file in files.items():
        if any(value_at(file.data, key) is not None for key in framework.resume_elsewhere):
            return None
        for key in framework.resume_keys:
            step = value_at(file.data, key)
            if isinstance(step, int) and not isinstance(step, bool) and step >= 0:
                return role, key, step
    return None
