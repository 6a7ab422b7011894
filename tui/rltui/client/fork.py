"""A run that begins with the config of another, or with a checkpoint of it. The other one is left alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rltui.client import creation, draft, launch
from rltui.client.actor import actor
from rltui.client.reader import ExperimentReader
from rltui.core import hints
from rltui.core.api import Request
from rltui.core.config_data import value_at
from rltui.core.experiment_api import ExperimentApi
from rltui.core.forks import CheckpointChoice, ForkPlan, ForkRequest, fork_name
from rltui.core.host_options import lasting_options
from rltui.core.runs import RunOrigin, RunRow
from rltui.core.text import join_words, numbered, size_text
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.services import subprocesses
from rltui.services.config.diff import text_diff
from rltui.services.config.run_config import ConfigLine, RunConfig, RunConfigBuilder
from rltui.services.config.store import ConfigStore
from rltui.services.own_files import make_folder
from rltui.services.runs.catalog import record_of
from rltui.services.runs.disk import size_of
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import find_experiment
from rltui.services.runs.recorded_config import recorded_config
from rltui.services.runs.run_folder import RunFolder, run_folder_of

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


@contextmanager
def prepared(
    request: draft.ExperimentRequest,
    record: ExperimentRecord,
    begin: ForkStart | None,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[draft.ExperimentRequest]:
    """Copy the checkpoint and yield the request from which `creation.create` makes `record`. The copy is
    deleted if no experiment was made of it within the context.

    Raises:
        ConflictError: if the folder was taken meanwhile.
        RltuiError: if the checkpoint cannot be copied, or is gone.
    """
    draft.trust_what_runs(request)
    if begin is None:
        yield request
        return
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
        yield replace(request, earlier_run="resume", checkpoint=begin.step)
    finally:
        if not ControlFolder(folder).record_file.exists():
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork that could be started. Nothing is written yet."""

    plan: ForkPlan
    request: draft.ExperimentRequest
    record: ExperimentRecord
    begin: ForkStart | None
    edits: Mapping[str, str]
    """Those that a person asked for."""


def refuse_foreign(row: RunRow) -> None:
    """Refuse a run that rltui did not start.

    Raises:
        UsageError: if it is one.
    """
    if row.kind == "evaluation" or row.observed:
        raise UsageError(f"{row.name} was not started by rltui, so its config is unknown", hint=str(hints.UP))


def request_like(
    record: ExperimentRecord,
    copies: RunConfig,
    name: str,
    folder: Path,
    *,
    devices: str | None,
    origin: RunOrigin,
) -> draft.ExperimentRequest:
    return draft.ExperimentRequest(
        config_files=copies.files,
        copies=copies,
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


@contextmanager
def plan_fork(row: RunRow, fork_request: ForkRequest) -> Iterator[Fork]:
    """Plan a fork of `row`; the plan is valid within the context. Nothing is written.

    Raises:
        UsageError: if it is a run that cannot be started.
        ConfigError: if an edit names no knob, or the config breaks a rule with it.
        ConflictError: if there is no such checkpoint, or name or folder are taken.
    """
    refuse_foreign(row)
    if row.trashed_at is not None:
        raise ConflictError(f"{row.name} is in the trash", hint=hints.RESTORE(run=row.name))
    record = record_of(row)
    parent = run_folder_of(record)
    step = None if fork_request.begin is None else _step(record, parent, fork_request.begin)
    name, folder = _name_and_folder(row, fork_request, step)
    framework, workspace = registry.get(record.framework), Path(record.workspace)
    with recorded_config(row) as config:
        cleared, notes = _cleared(config, framework, is_resumed=step is not None)
        edits = {key: value for key, value in cleared.items() if key not in fork_request.edits} | dict(
            fork_request.edits
        )
        line = ConfigLine(config.files, edits=edits, is_copied=True)
        with RunConfigBuilder(
            line, lambda _: framework, workspace=workspace, force=record.forced
        ).build() as copies:
            origin = RunOrigin(
                parent=row.id, parent_step=step, entry=fork_request.entry, group=fork_request.group
            )
            request = request_like(record, copies, name, folder, devices=fork_request.devices, origin=origin)
            planned = creation.examine(request)
            begin = None if step is None else ForkStart(step, parent)
            if record.inference and not record.inference_of:
                urls = join_words(list(record.inference))
                notes += (f"the inference server of {record.name}, {urls}, would receive weights from both",)
            plan = ForkPlan(
                parent=row.name,
                name=name,
                folder=str(folder),
                diff="".join(
                    text_diff(copies.unedited[path.name], path.read_bytes().decode(), path.name)
                    for path in copies.files
                ),
                step=step,
                copied=() if begin is None else tuple(map(str, begin.names)),
                copied_bytes=0 if begin is None else begin.size_bytes,
                notes=notes,
            )
            yield Fork(plan, request, planned, begin, fork_request.edits)


def carry_out(fork: Fork) -> tuple[ExperimentRecord, tuple[str, ...]]:
    """Make it and start it: the experiment, and what a person should know. It is not started where its
    memory would not do: then somebody has to look.

    Raises:
        ConfigError, ConflictError, RltuiError: as `creation.create` and `prepared`.
    """
    notes: list[str] = []

    def begin(created: creation.Created) -> None:
        with launch.connect_or_start(created.record) as wire:
            message = Request(action="start", resume_step=fork.plan.step, by=actor())
            plan = wire.request(ExperimentApi.plan, message)
            if bad := [verdict.text for verdict in plan.memory if verdict.is_bad]:
                notes.extend(("the fork was created but not started", *bad))
            else:
                wire.request(ExperimentApi.execute, message)

    with prepared(fork.request, fork.record, fork.begin) as request:
        created = creation.create(request, begin)
    return created.record, (*created.notes, *notes)


# --- what it begins with --------------------------------------------------------------------------------


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


def _cleared(
    config: RunConfig, framework: Framework, *, is_resumed: bool
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Edits that take away what the parent's config says of where it continued and kept its checkpoints, and
    that in words.
    """
    store = ConfigStore(config.files, framework)
    elsewhere = framework.run.resume_elsewhere
    removed_keys = [
        *framework.run.resume_keys,
        *(key for key in elsewhere if is_resumed or key.endswith("output_dir")),
    ]
    names = {(knob.file, knob.key): knob.name for knob in store.knobs}
    present = {
        names.get((role, key), key): "none"
        for role, file in store.files.items()
        for key in removed_keys
        if value_at(file.data, key) is not None
    }
    if not present:
        return {}, ()
    return present, (f"{join_words(list(present))} of the parent is not copied: it has its own checkpoints",)


# --- the checkpoint -------------------------------------------------------------------------------------


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
