"""A run that begins with the config of another, or with a checkpoint of it. The other one is left alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.base.text import join_words, numbered, size_text
from rltui.client import creation
from rltui.client.configured import configured
from rltui.client.draft import ConfiguredRequest, plan_record
from rltui.client.reader import ExperimentReader
from rltui.core import hints
from rltui.core.experiment.request import ConfigLine, ExperimentRequest
from rltui.core.hosts.options import lasting_options
from rltui.core.runs.forks import CheckpointChoice, ForkPlan, ForkRequest, fork_name
from rltui.core.runs.row import RunOrigin, RunRow
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.registry import find_experiment
from rltui.services.own_files import make_folder
from rltui.services.processes import subprocesses
from rltui.services.runs.catalog import record_of
from rltui.services.runs.disk import size_of
from rltui.services.runs.folder import RunFolder, run_folder_of
from rltui.services.runs.index import RunIndex
from rltui.services.runs.references import find_run

_COPY_TIMEOUT_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class ForkStart:
    """A checkpoint of one run that another begins with."""

    step: int
    folder: RunFolder

    @property
    def names(self) -> list[Path]:
        """Files of the checkpoint, relative to the folder."""
        return self.folder.belonging_to(self.step)

    @property
    def size_bytes(self) -> int:
        return sum(size_of(self.folder.path / name) for name in self.names)


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork that could be started. Nothing is written yet."""

    plan: ForkPlan
    request: ExperimentRequest
    run: ConfiguredRequest
    record: ExperimentRecord


def refuse_foreign(row: RunRow) -> None:
    """Refuse a run that rltui did not start.

    Raises:
        UsageError: if it is one.
    """
    if row.kind == "evaluation" or row.observed:
        raise UsageError(f"{row.name} was not started by rltui, so its config is unknown", hint=str(hints.UP))


def request_like(
    record: ExperimentRecord,
    name: str,
    folder: Path,
    *,
    devices: str | None,
    origin: RunOrigin,
    edits: Mapping[str, str] | None = None,
) -> ExperimentRequest:
    return ExperimentRequest(
        config=ConfigLine(edits=edits or {}),
        layout=record.layout_file,
        framework=record.framework,
        name=name,
        output_dir=folder,
        workspace=Path(record.workspace),
        inference=record.inference or None,
        inference_of=record.inference_of or None,
        host_options=lasting_options(record.host_options),
        devices=record.devices if devices is None else devices,
        force=record.forced,
        origin=origin,
    )


def request_of_fork(row: RunRow, fork_request: ForkRequest) -> ExperimentRequest:
    """The request that a fork of `row` comes to: its checkpoint by step, and a free name and folder.

    Raises:
        UsageError: if it is a run that cannot be started.
        ConflictError: if there is no such checkpoint, or name or folder are taken.
    """
    refuse_foreign(row)
    if row.trashed_at is not None:
        raise ConflictError(f"{row.name} is in the trash", hint=hints.RESTORE(run=row.name))
    record = record_of(row)
    begin = fork_request.begin
    step = None if begin is None else _step(record, run_folder_of(record), begin)
    name, folder = _name_and_folder(row, fork_request, step)
    return request_like(
        record,
        name,
        folder,
        devices=fork_request.devices,
        origin=RunOrigin(parent=row.id, parent_step=step),
        edits=fork_request.edits,
    )


@contextmanager
def plan_fork(row: RunRow, fork_request: ForkRequest) -> Iterator[Fork]:
    """Plan a fork of `row`; the plan is valid within the context. Nothing is written.

    Raises:
        UsageError, ConflictError: as `request_of_fork`.
        ConfigError: if an edit names no knob, or the config breaks a rule with it.
    """
    request = request_of_fork(row, fork_request)
    with configured(request) as run:
        planned_record, start = creation.examine(run), beginning(request)
        notes = run.notes
        if request.inference and not request.inference_of:
            urls = join_words(list(request.inference))
            notes += (f"the inference server of {row.name}, {urls}, would receive weights from both",)
        plan = ForkPlan(
            parent=row.name,
            name=planned_record.name,
            folder=str(request.output_dir),
            diff="".join(change.diff() for change in run.copies.changes),
            step=request.origin.parent_step,
            copied=() if start is None else tuple(map(str, start.names)),
            copied_bytes=0 if start is None else start.size_bytes,
            notes=notes,
        )
        yield Fork(plan, request, run, planned_record)


# --- what it begins with --------------------------------------------------------------------------------


def beginning(request: ExperimentRequest) -> ForkStart | None:
    """The checkpoint of another run that a new one begins with, if it is a fork or a repeated run with one.

    Raises:
        ConflictError: if it is gone.
    """
    if not request.source or request.earlier_run == "resume":
        return None
    row = find_run(RunIndex(), request.source)
    record, origin = record_of(row), request.origin
    folder = run_folder_of(record)
    if origin.parent:
        step = origin.parent_step
        return None if step is None else ForkStart(_step(record, folder, step), folder)
    if row.parent_step is None:
        return None
    folders = [folder]
    with suppress(RltuiError):  # the parent is gone, or damaged
        folders.append(run_folder_of(record_of(find_run(RunIndex(), row.parent))))
    for candidate in folders:  # the run's own copy first
        if row.parent_step in candidate.checkpoints():
            return ForkStart(row.parent_step, candidate)
    raise ConflictError(
        f"{row.name} started from checkpoint {row.parent_step} of another run, which no longer exists",
        hint=f"start over: {hints.FORK(run=row.name)}",
    )


def _step(record: ExperimentRecord, folder: RunFolder, choice: CheckpointChoice) -> int:
    """Raises ConflictError where there is no such checkpoint, with those there are."""
    steps = folder.checkpoints()
    if choice == "last" and steps:
        return steps[-1]
    if choice == "best" and steps:
        return ExperimentReader(record).checkpoint_step(choice)
    if choice in steps:
        return int(choice)
    if folder.files.no_resume:
        raise ConflictError(f"cannot resume from checkpoints of {record.name}: {folder.files.no_resume}")
    absence = "no complete checkpoint" if isinstance(choice, str) else f"no complete checkpoint {choice}"
    alternatives = f"available: {', '.join(map(str, steps))}" if steps else "leave out --from to start over"
    raise ConflictError(f"{record.name} has {absence}", hint=alternatives)


def _name_and_folder(row: RunRow, fork_request: ForkRequest, step: int | None) -> tuple[str, Path]:
    """Name and folder; free ones, where nobody asks for others."""
    parent = Path(row.folder).parent
    requested_name = fork_request.name or (Path(fork_request.folder).name if fork_request.folder else None)
    if requested_name is not None:
        folder = Path(fork_request.folder).absolute() if fork_request.folder else parent / requested_name
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConflictError(f"{folder} already exists", hint="choose another with -n NAME or -o FOLDER")
        return requested_name, folder
    base_name = fork_name(row.name, fork_request, step)
    names = (name for name in numbered(base_name) if not (parent / name).exists())
    name = next(filter(_is_free, names))
    return name, parent / name


def _is_free(name: str) -> bool:
    try:
        return find_experiment(name) is None
    except RltuiError:  # damaged, and there
        return False


# --- the checkpoint -------------------------------------------------------------------------------------


@contextmanager
def prepared(
    run: ConfiguredRequest, report: Callable[[str], None] = lambda _: None
) -> Iterator[ConfiguredRequest]:
    """Copy the checkpoint that a fork or repeated run begins with, and yield the request that resumes from
    it. The copy is deleted if no experiment was made of it within the context.

    Raises:
        ConflictError: if the folder was taken meanwhile.
        RltuiError: if the checkpoint cannot be copied, or is gone.
    """
    run.trust_programs()
    begin = beginning(run.request)
    if begin is None:
        yield run
        return
    record, _ = plan_record(run)
    folder, run_dir = Path(record.output_dir), Path(record.run_dir)
    _claim(folder)
    try:
        report(f"copying checkpoint {begin.step}, {size_text(begin.size_bytes)}")
        for name in begin.names:
            _copy(begin.folder.path / name, run_dir / name)
        if begin.step not in RunFolder(run_dir, begin.folder.files).checkpoints():
            raise RltuiError(
                f"checkpoint {begin.step} in {begin.folder.path} was deleted while being copied",
                hint=f"{hints.CHECKPOINTS} lists all",
            )
        yield replace(run, request=replace(run.request, earlier_run="resume", checkpoint=begin.step))
    finally:
        if not ControlFolder(folder).record_file.exists():
            shutil.rmtree(folder, ignore_errors=True)


def _claim(folder: Path) -> None:
    """Create the folder, so that only one of several forks at once gets it."""
    make_folder(folder.parent)
    with suppress(OSError):  # it is empty: anybody's
        folder.rmdir()
    try:
        folder.mkdir()
    except FileExistsError:
        raise ConflictError(
            f"{folder} has been taken", hint="choose another with -n NAME or -o FOLDER"
        ) from None
    except OSError as error:
        raise RltuiError(f"cannot create {folder}: {error.strerror}") from error


def _copy(source: Path, target: Path) -> None:
    """Copy the files, sharing blocks where the file system can; the target appears once it is complete."""
    make_folder(target.parent)
    partial = target.with_name(f".{target.name}.partial")
    command = ["cp", "-a", "--reflink=auto", f"{source}/.", str(partial)]
    subprocesses.check_output(command, timeout_s=_COPY_TIMEOUT_S)
    partial.rename(target)
