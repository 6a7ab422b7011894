"""Where a run continues: the newest checkpoint, or one that a person or the config asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rltui.base.kinds import is_integer
from rltui.core.config.data import value_at
from rltui.core.config.report import Problem
from rltui.core.experiment.api import Request
from rltui.errors import ConfigError
from rltui.frameworks.base import Framework
from rltui.frameworks.inputs import ConfigFile, ConfigFiles
from rltui.services.config.files import read_snapshot
from rltui.services.experiment.files import ControlFolder
from rltui.services.runs.folder import RunFolder

_MAX_NAMED = 12
"""Number of checkpoints to name in a message: those nearest to the missing one."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    step: int | None
    """Step of a complete checkpoint; `None`: the beginning."""
    requested_step: int | None = None
    """The requested step, 0 for the beginning; `None`: the newest is wanted."""
    because: str = ""
    """Reason for the request, if the config makes it."""
    passed_over: str = ""
    """Note on a step in the config that does not count, and why."""
    problem: Problem | None = None
    """Problem with the requested step; `step` is then meaningless."""


@dataclass(frozen=True, slots=True)
class _RequestedStep:
    step: int
    key: str = ""
    """Key of the config that requests it; empty: a person did, on the command line or screen."""
    file: ConfigFile | None = None
    """The file that has the key."""


@dataclass(frozen=True, slots=True)
class ResumePoints:
    """Resume points of the experiment in `control`, whose run is in `folder` and written by `run_jobs`."""

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
        """The point at which `request` continues with the config `files`. `edited`: role → keys that it sets
        there.

        A step in the config counts once: when it is edited, or differs from the one that the run was last
        started with. A later start uses the newest checkpoint again, or the run would never get beyond it.
        """
        configured = _configured_step(self.framework, files)
        is_new = configured is not None and (
            (configured.file is not None and configured.key in (edited or {}).get(configured.file.role, ()))
            or configured.step not in self._last_configured_steps()
        )
        requested = _RequestedStep(request.resume_step) if request.resume_step is not None else None
        if requested is None and configured is not None and is_new and request.resume == "latest":
            requested = configured
        steps = self.folder.checkpoints()
        if requested is None:
            step = steps[-1] if steps and request.resume == "latest" else None
            return ResumePoint(step, passed_over=self._ignored_step_text(configured, step, is_new=is_new))
        because = f"{requested.key} = {requested.step} selects that checkpoint" if requested.key else ""
        if requested.step in steps or requested.step == 0:
            step = requested.step if requested.step in steps else None
            passed_over = "" if requested.key else self._ignored_step_text(configured, step, is_new=is_new)
            return ResumePoint(step, requested.step, because, passed_over)
        return ResumePoint(None, requested.step, because, problem=self._missing_problem(requested, steps))

    def _ignored_step_text(self, configured: _RequestedStep | None, step: int | None, *, is_new: bool) -> str:
        """A note that the step of the config does not count, and how it would; or that there is no resume."""
        if self.folder.files.no_resume and self.folder.checkpoint_folders():
            return f"starts at step 0: {self.folder.files.no_resume}"
        if configured is None or configured.step == (step or 0):
            return ""
        statement = f"{configured.key} = {configured.step} is ignored"
        if is_new:
            return f"{statement}: a different start was requested"
        advice = (
            f"; to go back: --from {configured.step}" if configured.step in self.folder.checkpoints() else ""
        )
        return f"{statement}: an earlier start has already used that step{advice}"

    def _last_configured_steps(self) -> list[int]:
        """The step in the config of each of the run's jobs at its last start."""
        steps = []
        for folder in self.control.newest_attempts(self.run_jobs):
            try:
                configured = _configured_step(self.framework, read_snapshot(folder, self.framework))
            except ConfigError:  # damaged since: it tells nothing
                continue
            steps.extend([configured.step] if configured is not None else [])
        return steps

    def _missing_problem(self, requested: _RequestedStep, available: Sequence[int]) -> Problem:
        file = requested.file.path if requested.file is not None else None
        if self.folder.files.no_resume:
            statement = f"cannot resume from checkpoint {requested.step}: {self.folder.files.no_resume}"
            return Problem(key=requested.key or None, file=file, message=statement)
        nearest = sorted(sorted(available, key=lambda step: abs(step - requested.step))[:_MAX_NAMED])
        names = ", ".join(map(str, nearest)) or "none"
        more = f" and {len(available) - len(nearest)} others" if len(available) > len(nearest) else ""
        statement = f"{requested.key} = {requested.step}" if requested.key else f"checkpoint {requested.step}"
        return Problem(
            key=requested.key or None,
            file=file,
            message=(
                f"{statement}: {self.folder.path} has no complete checkpoint of that step; complete:"
                f" {names}{more}"
            ),
        )


def named_step(framework: Framework, files: ConfigFiles) -> int | None:
    """Step of the checkpoint of this run that a config names; `None`: none, or the newest."""
    configured = _configured_step(framework, files)
    return configured.step if configured is not None else None


def _configured_step(framework: Framework, files: ConfigFiles) -> _RequestedStep | None:
    """The checkpoint of this run that a config names; below 0 means the newest, as if it named none."""
    for file in files.values():
        if any(value_at(file.data, key) is not None for key in framework.run.resume_elsewhere):
            return None
        for key in framework.run.resume_keys:
            step = value_at(file.data, key)
            if is_integer(step) and step >= 0:
                return _RequestedStep(step, key, file)
    return None
