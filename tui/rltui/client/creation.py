"""An experiment is made on disk, as its draft says, or leaves nothing; an earlier run is never touched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rltui import paths
from rltui.base.text import join_words
from rltui.client import down, launch
from rltui.client.checking import check
from rltui.client.draft import ConfiguredRequest, EarlierRun, owner_of, plan_record
from rltui.client.gpu import with_devices
from rltui.client.ports import with_ports
from rltui.client.reader import ExperimentReader
from rltui.core import hints
from rltui.core.config.report import Problem, config_error
from rltui.core.experiment.api import Request
from rltui.core.experiment.request import ConfigLine
from rltui.core.experiment.rights import Act
from rltui.core.runs.row import RunOrigin
from rltui.errors import ConflictError, RltuiError
from rltui.frameworks import registry
from rltui.services.config import origins
from rltui.services.config.readers import readers_of
from rltui.services.config.run_config import RunConfig, RunConfigBuilder
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.leases import save_lease
from rltui.services.experiment.registry import find_experiment, forget
from rltui.services.experiment.rights import accepted_entry, require
from rltui.services.experiment.shell import make_room_for_files, save_shell
from rltui.services.own_files import FileLock, make_folder
from rltui.services.runs.index import RunIndex
from rltui.services.runs.metadata import change_metadata, new_metadata, read_metadata, save_metadata

_LOCK_TIMEOUT_S = 60.0
"""Others who create experiments hold the lock for a second or two each, longer on a busy machine."""


class UndoSteps:
    """Takes the steps of a creation back."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def add(self, step: Callable[[], object]) -> None:
        """Add what takes back the step that comes now."""
        self._steps.append(step)

    def run(self) -> None:
        """Take all back, the newest first. What cannot be taken back stays."""
        for step in reversed(self._steps):
            with suppress(RltuiError, OSError):
                step()


@dataclass(frozen=True, slots=True)
class Created:
    """An experiment that is written down and has a supervisor."""

    record: ExperimentRecord
    undo_steps: UndoSteps
    supervisor: int | None
    """Pid of the supervisor."""
    notes: tuple[str, ...] = ()
    """Sentences about what differs from the config: ports that were busy."""


def examine(run: ConfiguredRequest) -> ExperimentRecord:
    """The experiment that `create` would make. No side effects.

    Raises:
        ConfigError: if the config breaks a rule.
        ConflictError: if the experiment runs already, its folder belongs to one that runs, or holds an
            earlier run and the request does not say what to do.
    """
    request = run.request
    record, earlier = plan_record(run)
    owner = owner_of(Path(record.output_dir), record.name)
    if owner is not None and launch.is_running(owner):
        raise _folder_in_use(owner)
    before = find_experiment(record.name)
    # else what is in the folder is the owner's
    if (before is not None or owner is None) and launch.is_running(before or record):
        raise launch.already_running(before or record)
    if earlier is not None and request.earlier_run == "ask":
        raise earlier.refusal()
    if request.earlier_run == "resume":
        _refuse_resume(record, earlier)
    refuse_invalid(record)
    if before is None:
        return record
    return replace(
        record,
        created_at=before.created_at,
        overrides=before.overrides,
        overridden=before.overridden,
        devices=before.devices if request.devices is None else request.devices,
    )


def create(run: ConfiguredRequest, begin: Callable[[Created], None] = lambda _: None) -> Created:
    """Write the experiment down and start its supervisor; no component yet, unless `begin` starts some. Until
    that is done nobody else can take its name or its folder; where it fails, nothing is left.

    Of several that create one experiment at the same time, exactly one succeeds.

    Raises:
        ConfigError, ConflictError: as `examine`; nothing was written.
        RltuiError: if the supervisor cannot be started, or as `begin`.
    """
    make_room_for_files()
    with creation_lock():
        record, device_notes = with_devices(examine(run), on_one=run.request.is_on_one_gpu)
        record, port_notes = with_ports(record)
        _require_right(record, run)
        owner = owner_of(Path(record.output_dir), record.name)
        # A supervisor with nothing to do knows the config and layout of before.
        try:
            down.stop_idle_supervisor(owner or find_experiment(record.name) or record)
        except ConflictError:  # somebody has just started it
            examine(run)  # refuses in words that say whose it is
            raise
        undo_steps = UndoSteps()
        try:
            record, copy_notes = _write(record, run, undo_steps)
            if owner is not None:
                forget(owner)
                launch.clear_away(owner)
            launch.start_supervisor(record)
            notes = (*device_notes, *port_notes, *copy_notes)
            created = Created(record, undo_steps, _supervisor(record), notes)
            begin(created)
        except (RltuiError, KeyboardInterrupt):
            _take_back(record, undo_steps)
            raise
    return created


def _require_right(record: ExperimentRecord, run: ConfiguredRequest) -> None:
    """Return where whoever acts here may create it, by itself or for an entry of the queue."""
    entry = run.request.origin.entry
    values = (change.values.items() for change in run.copies.changes)
    act = Act(
        "queue" if entry else "up",
        record.name,
        changes={key: new for changed in values for key, (_, new) in changed},
        creates=True,
    )
    require(
        act,
        control=record.control.path,
        accepted_by=accepted_entry(entry),
        instead=f"to propose a run: {hints.QUEUE_ADD}",
    )


def _write(
    record: ExperimentRecord, run: ConfiguredRequest, undo_steps: UndoSteps
) -> tuple[ExperimentRecord, tuple[str, ...]]:
    """Write the experiment down. Returns its record with the run's own copies of the config, and why it has
    some, in words.
    """
    control, output_dir = record.control, Path(record.output_dir)
    before = control.read_record()
    if not output_dir.exists():
        undo_steps.add(output_dir.rmdir)
    if not control.path.exists():
        undo_steps.add(partial(_remove, record))
    elif before is not None:
        undo_steps.add(partial(control.write_record, before))
        if before.name != record.name:
            undo_steps.add(partial(forget, record))
    make_folder(output_dir)
    with _separate_copies(record, run.copies) as (copies, notes):
        record, file_texts = _with_own_copies(record, copies, control)
    control.make()
    _save_origin(control, record, run.request.origin)  # before the list tells others, who would make one
    control.write_record(record)
    if record.inference_of:
        save_lease(launch.choose(record.inference_of), record)
    if file_texts:
        is_birth = run.request.earlier_run != "resume"
        if _edit(record, file_texts, is_birth=is_birth) and not is_birth:
            undo_steps.add(partial(_undo_edit, record))
    save_shell(control)
    return record, notes


def _remove(record: ExperimentRecord) -> None:
    """Remove all that rltui has of an experiment that was not there before."""
    control = record.control
    metadata = read_metadata(control.path)
    forget(record)
    launch.clear_away(record)
    shutil.rmtree(control.path, ignore_errors=True)
    if metadata is not None:
        RunIndex().remove([metadata.id])


def _save_origin(control: ControlFolder, record: ExperimentRecord, origin: RunOrigin) -> None:
    """Save the origin in the metadata of the run; of a resumed run, only who resumed it."""
    metadata = read_metadata(control.path)
    if metadata is None:
        save_metadata(control.path, new_metadata(record.created_at, origin))
    elif origin.entry not in ("", metadata.entry):
        change_metadata(control.path, lambda now: replace(now, entry=origin.entry, group=origin.group))


@contextmanager
def _separate_copies(
    record: ExperimentRecord, copies: RunConfig
) -> Iterator[tuple[RunConfig, tuple[str, ...]]]:
    """The copies; new ones of files that a living experiment reads, or that rltui ships as examples; and why,
    in words.
    """
    files = () if copies.changes else record.config_paths
    readers = [
        (reader, shared_files)
        for reader, shared_files in readers_of(files, record)
        if launch.has_supervisor(reader) or launch.is_running(reader)
    ]
    examples = paths.shipped_dir("examples").resolve()
    shipped_files = [str(file) for file in files if file.resolve().is_relative_to(examples)]
    if not readers and not shipped_files:
        yield copies, ()
        return
    framework, workspace = registry.get(record.framework), Path(record.workspace)
    names = join_words([reader.name for reader, _ in readers])
    files_text = join_words(
        list(dict.fromkeys(file for _, shared_files in readers for file in shared_files)) or shipped_files
    )
    reason = f"{names} is running and reads the same file" if readers else "an example shipped with rltui"
    copy_reason = f"{files_text}: {reason}; {record.name} uses its own copy"
    copy_reason += f", which edits will change (to write them back: {hints.PROMOTE(name=record.name)})"
    with RunConfigBuilder(
        ConfigLine(files, is_copied=True), lambda _: framework, workspace=workspace, force=record.forced
    ).build() as new_copies:
        yield new_copies, (copy_reason,)


def _with_own_copies(
    record: ExperimentRecord, copies: RunConfig, control: ControlFolder
) -> tuple[ExperimentRecord, Mapping[str, str]]:
    """The record with the copies in its own folder; and by path what they shall say."""
    if not copies.changes:
        return record, {}
    control.make()
    files, file_texts = copies.save(control.path / origins.FOLDER)
    return replace(record, config_files=tuple(map(str, files))), file_texts


def _edit(record: ExperimentRecord, file_texts: Mapping[str, str], *, is_birth: bool) -> bool:
    """Write what the overrides of the command line say: of a run that goes on, as an edit that can be
    undone. False where they change nothing.
    """
    document = ExperimentReader(record).document_to_edit()
    request = Request(action="write", texts=dict(file_texts))
    proposal = document.proposed(request)
    if proposal.blocked:  # it was examined, by the framework's own models too
        document.accept(proposal.after)
        proposal = document.proposed(request)
    return document.commit(proposal, is_birth=is_birth) is not None


def _undo_edit(record: ExperimentRecord) -> None:
    document = ExperimentReader(record).document_to_edit()
    document.commit(document.proposed(Request(action="undo")))


def undo(created: Created) -> None:
    """Take back a creation of which nothing was started: its supervisor ends, new folders go, and a run that
    was there is as before.

    Nothing is taken back where somebody has started something meanwhile.

    Raises:
        ConflictError: if somebody else took the name or the folder before anything was started.
    """
    with creation_lock():
        owner = owner_of(Path(created.record.output_dir), created.record.name)
        if owner is not None:
            raise _folder_in_use(owner)
        if _supervisor(created.record) not in (None, created.supervisor):
            raise launch.already_running(created.record)
        _take_back(created.record, created.undo_steps)


def _supervisor(record: ExperimentRecord) -> int | None:
    """Pid of the supervisor; `None` where there is none."""
    with launch.connected(record) as wire:
        return None if wire is None else wire.server_pid()


def _take_back(record: ExperimentRecord, undo_steps: UndoSteps) -> None:
    try:
        down.stop_idle_supervisor(record)
    except ConflictError:  # somebody has started something: it stays
        return
    undo_steps.run()


@contextmanager
def creation_lock() -> Iterator[None]:
    """Lock of the user's creations, so that two never choose the same name, folder or port."""
    make_folder(paths.state_dir())
    lock = FileLock(paths.state_dir() / "create.lock")
    busy = ConflictError(
        f"another rltui has been creating an experiment for {_LOCK_TIMEOUT_S:g} s",
        hint="find that process: fuser " + str(lock.path),
    )
    with lock.hold(busy, wait_s=_LOCK_TIMEOUT_S):
        yield


def _refuse_resume(record: ExperimentRecord, earlier: EarlierRun | None) -> None:
    """Raises ConflictError if there is nothing to resume, or not from the requested checkpoint."""
    if earlier is not None and earlier.point.problem is not None:
        raise ConflictError(earlier.point.problem.text, hint="nothing was started")
    if earlier is None and record.control.read_record() is None:
        raise ConflictError(
            f"no earlier run in {record.output_dir} to resume",
            hint="leave out --resume to start one there, or name another folder with -o",
        )


def _folder_in_use(owner: ExperimentRecord) -> ConflictError:
    return ConflictError(
        f"{owner.output_dir} belongs to the running experiment {owner.name}",
        hint=(
            f"choose another with -o OUTPUT_DIR; or open it: {hints.OPEN(opened=owner.name)}; or end it:"
            f" {hints.DOWN(name=owner.name)}"
        ),
    )


def refuse_invalid(record: ExperimentRecord) -> None:
    """The framework's own models have the last word, where they can be asked. A config without a value that
    the layout needs is an error, too. Nothing is refused with `--force`.

    Raises:
        ConfigError: if the config breaks a rule.
    """
    if record.forced:
        return
    problems: tuple[Problem, ...] = ()
    for ask_models in (False, True):
        problems = check(
            record.config_paths,
            record.layout_file,
            record.framework,
            workspace=Path(record.workspace),
            ask_models=ask_models,
            starting=True,
            inference=record.inference,
            is_lent=bool(record.inference_of),
        ).problems
        if not any(problem.is_error for problem in problems):
            return
    if errors := [problem for problem in problems if problem.is_error]:
        ways = (f"{problem.message}: {problem.mended_by}" for problem in problems if problem.mended_by)
        fix = next(ways, "fix the file and try again")
        raise config_error(errors, f"nothing was started; {fix}, or start anyway with --force")
