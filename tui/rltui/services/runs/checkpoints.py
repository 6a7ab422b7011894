"""The checkpoints in a run's folder: reports on them, and their deletion."""

from __future__ import annotations

import math
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rltui.base.text import size_text, steps_text
from rltui.core.metrics.names import concept_of, find, find_all, label_of
from rltui.core.metrics.series import SeriesKey
from rltui.core.runs.checkpoints import (
    BEING_WRITTEN,
    HIGHEST,
    NEWEST,
    Checkpoint,
    CheckpointReport,
    PrunePlan,
    SetAside,
    levels_around,
)
from rltui.errors import RltuiError
from rltui.services.experiment.files import ControlFolder
from rltui.services.metrics.store import SeriesReader
from rltui.services.processes.attempts import AttemptRecord, read_attempt
from rltui.services.runs.disk import size_of, still_to_come
from rltui.services.runs.folder import CheckpointFiles, RunFolder

_DELETING = ".rltui-pruned-"
"""Prefix of a checkpoint that is being deleted: no reader takes an incomplete one for complete."""
_CLOCK_SLACK_S = 5.0
"""Largest difference between the clock of a file server and ours."""


@dataclass(frozen=True, slots=True)
class CheckpointContext:
    """A report needs these facts of the run besides its files."""

    step: int | None = None
    max_steps: int | None = None
    is_alive: bool = False
    """True if its jobs run, so that an incomplete checkpoint may be in progress."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """Step → reason why it must not be deleted: the config names it …"""


_Scores = tuple[Mapping[int, float], Mapping[str, Mapping[int, float]]]
"""Rewards of the run by completed steps; name of an evaluation → step → result."""


class CheckpointReader:
    """Reads the checkpoints in `folder`. Blocks for as long as the file system does: call from a thread, one
    at a time.

    The size of a complete checkpoint is computed once.
    """

    def __init__(self, folder: RunFolder, control: ControlFolder, run_jobs: Collection[str]) -> None:
        self._folder = folder
        self._control = control
        self._run_jobs = run_jobs
        self._sizes: dict[tuple[int, float], int] = {}
        self._finished: dict[Path, AttemptRecord] = {}
        self._series = SeriesReader(control.series)

    def report(self, experiment: str, context: CheckpointContext) -> CheckpointReport:
        folder = self._folder
        files = folder.checkpoint_files()
        problem = ""
        try:
            free = shutil.disk_usage(folder.path).free
        except OSError as error:
            free, problem = None, f"{folder.path}: {error.strerror}"
        attempts, scores = self._attempts(), self._scores()
        steps = [0, *(item.step for item in files)]
        checkpoints = [
            self._checkpoint(item, scores, attempts, before)
            for item, before in zip(files, steps, strict=False)
        ]
        complete = [item for item in checkpoints if item.complete]
        newest = complete[-1] if complete else None
        highest = max(
            (item for item in complete if item.reward is not None),
            key=lambda item: item.reward or 0.0,
            default=None,
        )
        resumed = folder.latest_checkpoint()
        checkpoints = [_with_notes(item, newest, highest, context, resumed=resumed) for item in checkpoints]
        size = newest.size_bytes if newest is not None else None
        return CheckpointReport(
            experiment=experiment,
            folder=str(folder.path / folder.files.checkpoints),
            checkpoints=tuple(checkpoints),
            step=context.step,
            total_bytes=sum(item.size_bytes or 0 for item in checkpoints),
            free_bytes=free,
            fits=free // size if free is not None and size else None,
            to_come=still_to_come([item.step for item in complete], context.max_steps) if complete else None,
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
        written_at = files.written_at()
        rewards, results = scores
        before, after = levels_around(rewards.items(), files.step)
        evals = {}
        for name, by_step in results.items():
            if evaluated_steps := [step for step in by_step if before_step < step <= files.step]:
                evals[name] = by_step[max(evaluated_steps)]
        return Checkpoint(
            step=files.step,
            at=written_at,
            size_bytes=self._size(files, written_at),
            complete=not files.missing,
            parts=files.parts,
            missing=files.missing,
            attempt=_written_by(written_at, attempts),
            path=str(files.folders[0]),
            reward=None if before is None else before.mean,
            reward_std=None if before is None else before.std,
            reward_after=None if after is None else after.mean,
            evals=evals,
        )

    def _size(self, files: CheckpointFiles, written_at: float | None) -> int:
        key = (files.step, written_at or 0.0)
        if files.missing or key not in self._sizes:
            size = sum(map(size_of, files.folders))
            if files.missing:
                return size
            self._sizes[key] = size
        return self._sizes[key]

    def _scores(self) -> _Scores:
        """Scores of the current line: steps that a resume abandoned do not count."""
        self._series.poll()
        keys = self._series.keys()
        reward, evals = find("reward", keys), concept_of("eval")
        eval_keys = find_all("eval", keys)
        return (
            {} if reward is None else self._by_step(reward),
            {label_of(evals, key): self._by_step(key) for key in eval_keys if evals is not None},
        )

    def _by_step(self, key: SeriesKey) -> dict[int, float]:
        """Completed steps → finite values."""
        line, _ = self._series.read(key).lines(self._series.rewinds())
        points, done = zip(line.steps, line.values, strict=True), 1 - self._folder.files.first_step
        return {step + done: value for step, value in points if step >= 0 and math.isfinite(value)}

    def _attempts(self) -> list[AttemptRecord]:
        """Attempts of the run's jobs, training jobs first."""
        records: list[AttemptRecord] = []
        for component in sorted(self._run_jobs, key=lambda name: (name == "orchestrator", name)):
            for number in self._control.attempts(component):
                folder = self._control.attempt_dir(component, number)
                record = self._finished.get(folder) or read_attempt(folder)
                if record is None:
                    continue
                if record.ended_at is not None:
                    self._finished[folder] = record
                records.append(record)
        return records


def _with_notes(
    checkpoint: Checkpoint,
    newest: Checkpoint | None,
    highest: Checkpoint | None,
    context: CheckpointContext,
    *,
    resumed: int | None,
) -> Checkpoint:
    """`resumed`: the step that a plain resume takes."""
    notes = [NEWEST] if checkpoint.step == resumed else []
    if checkpoint is highest:
        notes.append(HIGHEST)
    if checkpoint.step in context.notes:
        notes.append(context.notes[checkpoint.step])
    if not checkpoint.complete and context.is_alive and (newest is None or checkpoint.step > newest.step):
        notes.append(BEING_WRITTEN)
    return checkpoint.replace(notes=tuple(notes))


def _written_by(written_at: float | None, attempts: Iterable[AttemptRecord]) -> int | None:
    """The attempt during which it was written."""
    if written_at is None:
        return None
    for record in attempts:
        is_started = record.started_at - _CLOCK_SLACK_S <= written_at
        if is_started and (record.ended_at is None or written_at <= record.ended_at + _CLOCK_SLACK_S):
            return record.attempt
    return None


def take_away(folder: RunFolder, plan: PrunePlan) -> list[Path]:
    """Rename the checkpoints in `plan` at once, so that nobody uses them, and return the paths to delete.

    Includes remains of an earlier call that was killed.

    Raises:
        RltuiError: if that fails for one of them; those before it are to be deleted by the next call.
    """
    files_by_step = {checkpoint.step: checkpoint for checkpoint in folder.checkpoint_files()}
    for checkpoint in plan.delete:
        for step_folder in files_by_step[checkpoint.step].folders if checkpoint.step in files_by_step else ():
            try:
                step_folder.rename(step_folder.with_name(f"{_DELETING}{step_folder.name}"))
            except OSError as error:
                raise RltuiError(f"cannot delete {step_folder}: {error.strerror}") from error
    deletable = [path for root in folder.checkpoint_roots() for path in sorted(root.glob(f"{_DELETING}*"))]
    if plan.archive and Path(plan.archive) == folder.archive and folder.archive.is_dir():
        deletable += sorted(folder.archive.iterdir())
    return deletable


def delete(paths: Sequence[Path]) -> None:
    """Delete what `take_away` returned. Blocks for as long as the file system takes.

    Raises:
        RltuiError: if something cannot be deleted; the rest is.
    """
    problems = [problem for path in paths if (problem := _remove(path))]
    if problems:
        raise RltuiError("some files could not be deleted", details=problems)


def pruned_text(plan: PrunePlan) -> str:
    """Journal text about what was deleted."""
    steps = [checkpoint.step for checkpoint in plan.delete]
    deleted = [f"checkpoint{'s' if len(steps) > 1 else ''} {steps_text(steps)}"] if steps else []
    deleted += [f"files set aside in {plan.archive}"] if plan.archive else []
    return f"deleted {' and '.join(deleted)}: {size_text(plan.frees_bytes)}"


def _remove(path: Path) -> str | None:
    """Returns an error message on failure."""
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
