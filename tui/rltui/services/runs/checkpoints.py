"""The checkpoints in a run's folder: what is there of each, who wrote it, and how to be rid of some."""

from __future__ import annotations

import math
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rltui.core.checkpoints import (
    BEING_WRITTEN,
    HIGHEST,
    NEWEST,
    Checkpoint,
    CheckpointReport,
    PrunePlan,
    SetAside,
    levels_around,
)
from rltui.core.metric_names import concept_of, find, find_all, label_of
from rltui.core.series import SeriesKey
from rltui.core.text import size_text, steps_text
from rltui.errors import RltuiError
from rltui.services.metrics.store import SeriesReader
from rltui.services.processes.attempts import AttemptRecord, read_attempt
from rltui.services.runs.disk import size_of, still_to_come
from rltui.services.runs.experiment_files import ControlFolder
from rltui.services.runs.run_folder import CheckpointFiles, RunFolder

_GOING = ".rltui-pruned-"
"""A checkpoint that is being deleted is called so first: no reader takes half of it for a whole one."""
_CLOCK_SLACK_S = 5.0
"""Between the clock of a file server and ours."""


@dataclass(frozen=True, slots=True)
class CheckpointNews:
    """What of the experiment, besides its files, the report tells."""

    step: int | None = None
    """Steps completed."""
    max_steps: int | None = None
    is_alive: bool = False
    """Its jobs run: what is unfinished may be under way."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """By step, why it must not go: the config names it …"""


@dataclass(frozen=True, slots=True)
class _Scores:
    """How the run did, by completed steps."""

    reward: Mapping[int, float]
    evals: Mapping[str, Mapping[int, float]]
    """By name of the evaluation."""


class CheckpointReader:
    """Reads what lies in `folder`. Blocks for as long as the file system does: call from a thread, one at a
    time.

    The size of a checkpoint that is complete is added up once.
    """

    def __init__(self, folder: RunFolder, control: ControlFolder, run_jobs: Collection[str]) -> None:
        self._folder = folder
        self._control = control
        self._run_jobs = run_jobs
        self._sizes: dict[tuple[int, float], int] = {}
        self._ended: dict[Path, AttemptRecord] = {}
        self._series = SeriesReader(control.series)

    def report(self, experiment: str, news: CheckpointNews) -> CheckpointReport:
        folder = self._folder
        found = folder.checkpoint_files()
        problem = ""
        try:
            free = shutil.disk_usage(folder.path).free
        except OSError as error:
            free, problem = None, f"{folder.path}: {error.strerror}"
        attempts, scores = self._attempts(), self._scores()
        steps = [0, *(each.step for each in found)]
        listed = [
            self._checkpoint(each, scores, attempts, before)
            for each, before in zip(found, steps, strict=False)
        ]
        complete = [each for each in listed if each.complete]
        newest = complete[-1] if complete else None
        highest = max(
            (each for each in complete if each.reward is not None),
            key=lambda each: each.reward or 0.0,
            default=None,
        )
        resumed = folder.latest_checkpoint()
        listed = [_noted(each, newest, highest, news, resumed=resumed) for each in listed]
        size = newest.size_bytes if newest is not None else None
        return CheckpointReport(
            experiment=experiment,
            folder=str(folder.path / folder.files.checkpoints),
            checkpoints=tuple(listed),
            step=news.step,
            total_bytes=sum(each.size_bytes or 0 for each in listed),
            free_bytes=free,
            fits=free // size if free is not None and size else None,
            to_come=still_to_come([each.step for each in complete], news.max_steps) if complete else None,
            archive=str(folder.archive),
            archive_bytes=size_of(folder.archive),
            set_aside=tuple(
                SetAside(name=name, steps=tuple(steps), size_bytes=size_of(folder.archive / name))
                for name, steps in folder.archives().items()
            ),
            problem=problem,
        )

    def _checkpoint(
        self, files: CheckpointFiles, scores: _Scores, attempts: Sequence[AttemptRecord], before_step: int
    ) -> Checkpoint:
        at = files.written_at()
        before, after = levels_around(scores.reward.items(), files.step)
        evals = {}
        for name, by_step in scores.evals.items():
            if known := [step for step in by_step if before_step < step <= files.step]:
                evals[name] = by_step[max(known)]
        return Checkpoint(
            step=files.step,
            at=at,
            size_bytes=self._size(files, at),
            complete=not files.missing,
            parts=files.parts,
            missing=files.missing,
            attempt=_written_by(at, attempts),
            path=str(files.folders[0]),
            reward=None if before is None else before.mean,
            reward_std=None if before is None else before.std,
            reward_after=None if after is None else after.mean,
            evals=evals,
        )

    def _size(self, files: CheckpointFiles, at: float | None) -> int:
        key = (files.step, at or 0.0)
        if files.missing or key not in self._sizes:
            size = sum(map(size_of, files.folders))
            if files.missing:
                return size
            self._sizes[key] = size
        return self._sizes[key]

    def _scores(self) -> _Scores:
        """Of the line that counts: what a resume abandoned does not."""
        self._series.look()
        keys = self._series.keys()
        reward, first = find("reward", keys), self._folder.files.first_step
        evals = concept_of("eval")
        return _Scores(
            {} if reward is None else self._by_step(reward, first),
            {label_of(evals, key): self._by_step(key, first) for key in find_all("eval", keys)}
            if evals is not None
            else {},
        )

    def _by_step(self, key: SeriesKey, first_step: int) -> dict[int, float]:
        """Values that are numbers, by completed steps."""
        line, _ = self._series.read(key).lines(self._series.rewinds())
        found = zip(line.steps, line.values, strict=True)
        return {step - first_step + 1: value for step, value in found if step >= 0 and math.isfinite(value)}

    def _attempts(self) -> list[AttemptRecord]:
        """Of the jobs of the run, those that train first."""
        found: list[AttemptRecord] = []
        for component in sorted(self._run_jobs, key=lambda name: (name == "orchestrator", name)):
            for number in self._control.attempts(component):
                folder = self._control.attempt_dir(component, number)
                record = self._ended.get(folder) or read_attempt(folder)
                if record is None:
                    continue
                if record.ended_at is not None:
                    self._ended[folder] = record
                found.append(record)
        return found


def _noted(
    each: Checkpoint,
    newest: Checkpoint | None,
    highest: Checkpoint | None,
    news: CheckpointNews,
    *,
    resumed: int | None,
) -> Checkpoint:
    """`resumed`: the one that a plain resume takes."""
    notes = [NEWEST] if each.step == resumed else []
    if each is highest:
        notes.append(HIGHEST)
    if each.step in news.notes:
        notes.append(news.notes[each.step])
    if not each.complete and news.is_alive and (newest is None or each.step > newest.step):
        notes.append(BEING_WRITTEN)
    return each.model_copy(update={"notes": tuple(notes)})


def _written_by(at: float | None, attempts: Iterable[AttemptRecord]) -> int | None:
    """The attempt during which it was written."""
    for record in attempts if at is not None else ():
        ended_at = record.ended_at
        if record.started_at - _CLOCK_SLACK_S <= at and (ended_at is None or at <= ended_at + _CLOCK_SLACK_S):  # type: ignore[operator]  # looked at above
            return record.attempt
    return None


def take_away(folder: RunFolder, plan: PrunePlan) -> list[Path]:
    """Make what `plan` names nobody's checkpoint any more, at once, and return it: it is to be deleted then.

    Also what an earlier call was killed at.

    Raises:
        RltuiError: if that cannot be done with one of them; those before it are to be deleted by the next
            call.
    """
    there = {each.step: each for each in folder.checkpoint_files()}
    for each in plan.delete:
        for place in there[each.step].folders if each.step in there else ():
            try:
                place.rename(place.with_name(f"{_GOING}{place.name}"))
            except OSError as error:
                raise RltuiError(f"cannot delete {place}: {error.strerror}") from error
    going = [path for root in folder.checkpoint_roots() for path in sorted(root.glob(f"{_GOING}*"))]
    if plan.archive and Path(plan.archive) == folder.archive and folder.archive.is_dir():
        going += sorted(folder.archive.iterdir())
    return going


def delete(going: Sequence[Path]) -> None:
    """Delete what was taken away. Blocks for as long as the file system takes.

    Raises:
        RltuiError: if something cannot be deleted; the rest is.
    """
    problems = [problem for path in going if (problem := _remove(path))]
    if problems:
        raise RltuiError("not everything could be deleted", details=problems)


def pruned_text(plan: PrunePlan) -> str:
    """For the journal: what is gone."""
    steps = [each.step for each in plan.delete]
    gone = [f"checkpoint{'s' if len(steps) > 1 else ''} {steps_text(steps)}"] if steps else []
    gone += [f"what was set aside in {plan.archive}"] if plan.archive else []
    return f"deleted {' and '.join(gone)}: {size_text(plan.frees_bytes)}"


def _remove(path: Path) -> str | None:
    """Why it could not be deleted."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        return None  # somebody was quicker
    except OSError as error:
        return f"{error.filename or path}: {error.strerror}"
    return None
