"""From config files on the command line to an experiment on disk, without ever touching an earlier run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from rltui import paths
from rltui.client import down, launch
from rltui.client.actor import actor
from rltui.client.checking import check, identify, runnable_layout
from rltui.client.memory import with_devices
from rltui.client.ports import inference_url, with_ports
from rltui.client.reader import ExperimentReader
from rltui.core import hints
from rltui.core.api import Request
from rltui.core.config_report import Problem
from rltui.core.layout import Layout, used_instances
from rltui.core.runs import RunOrigin
from rltui.core.servers import server_url
from rltui.core.text import join_words
from rltui.errors import ConfigError, ConflictError, RltuiError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.services import layout_files, trust
from rltui.services.config import origins
from rltui.services.config.editor import readers_of
from rltui.services.config.run_config import ConfigLine, RunConfig, RunConfigBuilder
from rltui.services.config.store import ConfigStore
from rltui.services.own_files import FileLock, make_folder
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord, same_folder
from rltui.services.runs.experiments import default_output_dir, find_experiment, forget, free_name, new_record
from rltui.services.runs.leases import living, save_lease
from rltui.services.runs.observed import framework_of
from rltui.services.runs.run_folder import ResumePoint, ResumePoints, RunFolder, next_free
from rltui.services.runs.run_metadata import change_metadata, new_metadata, read_metadata, save_metadata
from rltui.services.shell import make_room_for_files, save_shell

_LOCK_TIMEOUT_S = 60.0
"""How long to wait for others who create experiments; each takes a second or two, more on a busy box."""
_LOCK_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ExperimentRequest:
    """What the user asked for. `None`: take it from the config."""

    config_files: tuple[Path, ...]
    layout: str | None = None
    framework: str | None = None
    """Id of a framework, where the files themselves do not tell."""
    name: str | None = None
    output_dir: Path | None = None
    workspace: Path | None = None
    earlier_run: Literal["ask", "resume", "new"] = "ask"
    checkpoint: int | None = None
    """The checkpoint to resume from; `None`: the one that the config asks for, else the newest."""
    inference: tuple[str, ...] | None = None
    """Where the inference servers are that it uses in place of its own; empty: as the config says, `None`:
    likewise, or as before where an earlier run goes on."""
    inference_of: str | None = None
    """The experiment whose inference server it uses."""
    slurm: Mapping[str, str | bool | tuple[str, ...]] | None = None
    """It is to run as SLURM jobs, which are told this besides what the layout says; `None`: as the layout
    says."""
    devices: str | None = None
    """Those that it shall use, as `CUDA_VISIBLE_DEVICES` lists them; `None`: as before, or all."""
    force: bool = False
    """No rule of ours refuses the config, now or when it is edited."""
    copies: RunConfig = RunConfig(())
    """`config_files` as they were staged. Copies become the experiment's own."""
    origin: RunOrigin = RunOrigin()
    """Kept in the sheet of a run that is new."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    output_dir: Path
    point: ResumePoint
    next_free: Path
    owner: str | None = None
    """Name of the experiment it was, where that is another than the one to be created."""

    def refusal(self) -> ConflictError:
        resumable = (
            f"--resume continues it from checkpoint {self.point.step}"
            if self.point.step is not None
            else "--resume begins it anew (it has no checkpoint; its files are kept aside)"
        )
        whose = f"an earlier run of the experiment {self.owner}" if self.owner else "an earlier run"
        return ConflictError(
            f"{self.output_dir} holds {whose}, which is left alone",
            hint=f"choose: {resumable}; --new starts a run of its own in {self.next_free}",
        )


def trust_what_runs(request: ExperimentRequest) -> None:
    """For whoever starts what `request` describes: the programs that it runs are trusted.

    Raises:
        ConfigError: as `identify`.
    """
    files, workspace = (
        tuple(path.absolute() for path in request.config_files),
        request.workspace or Path.cwd(),
    )
    framework, layout_file = identify(files, request.layout, request.framework, workspace=workspace)
    trust.trust_programs(layout_file, framework, workspace=workspace, config_files=files)


def plan_record(request: ExperimentRequest) -> tuple[ExperimentRecord, EarlierRun | None]:
    """The experiment that `request` describes, and the earlier run in its folder. No side effects.

    Raises:
        ConfigError: as `identify`, or if the config breaks a rule.
        ConflictError: if the name is taken by an experiment in another folder.
    """
    paths_ = tuple(path.absolute() for path in request.config_files)
    workspace = (request.workspace or Path.cwd()).absolute()
    framework, layout_file = identify(paths_, request.layout, request.framework, workspace=workspace)
    layout = runnable_layout(layout_file)
    framework = framework.fitted(layout)
    files = ConfigStore(list(paths_), framework).load()
    output_dir = _own_folder(request, _output_dir(request, workspace, framework, files))
    name = request.name if request.name is not None else free_name(output_dir.name, output_dir)
    if (goes_on := _as_jobs_before(request, output_dir, name, layout_file)) is not None:
        return plan_record(goes_on)
    _refuse_cluster(request, layout, layout_file, framework, files)
    instances = used_instances(layout, framework.instances(files))
    earlier = _earlier_run(request, output_dir, layout, name, framework, files)
    if earlier is not None and request.earlier_run == "new":
        output_dir, earlier = earlier.next_free, None
        name = request.name if request.name is not None else free_name(output_dir.name, output_dir)
    lent = _inference(request, output_dir, name)
    sent = framework.sent_to(lent.urls, is_lent=bool(lent.owner)) if lent.urls else framework
    if lent.owner:
        _refuse_other_weights(lent.owner, sent, files)
    external = sent.external(files)
    layout_files.with_instances(
        layout, instances, layout_file, without=external
    )  # refused now, not at the start
    record = new_record(
        name=name,
        output_dir=output_dir.resolve(),
        workspace=workspace,
        config_files=list(paths_),
        layout_file=layout_file,
        framework=framework.id,
        run_dir=layout.run_dir,
        instances=instances,
        external=external,
        inference=lent.urls,
        inference_of=lent.owner,
        devices=request.devices or "",
        forced=request.force,
        slurm=request.slurm,
    )
    return record, earlier


def job_options(record: ExperimentRecord) -> Mapping[str, str | bool | tuple[str, ...]] | None:
    """What was said of its jobs, for a run that goes on with or repeats it. What they waited for is over, and
    so is the array that they were tasks of.
    """
    over = ("dependency", "array")
    return {key: value for key, value in record.slurm.items() if key not in over} or None


def _as_jobs_before(
    request: ExperimentRequest, output_dir: Path, name: str, layout_file: Path
) -> ExperimentRequest | None:
    """Where it goes on with a run of jobs and does not say itself how that is submitted: with what was said
    then. Else `None`.
    """
    before = ControlFolder(output_dir).read_record() if request.earlier_run == "resume" else None
    if before is None or before.name != name:
        return None
    layout = request.layout
    if layout is None and layout_files.load_for(before).submits:
        layout = before.layout_file
    elif request.slurm is None and str(layout_file) != before.layout_file:
        return None
    asked = {**(job_options(before) or {}), **(request.slurm or {})}
    goes_on = replace(request, layout=layout, slurm=asked or request.slurm)
    return None if goes_on == request else goes_on


class ClusterConfigError(ConfigError):
    """The config is for SLURM, and nobody has said that it shall be submitted."""


def _refuse_cluster(
    request: ExperimentRequest, layout: Layout, layout_file: Path, framework: Framework, files: ConfigFiles
) -> None:
    """Where config, layout and command line do not agree on whether this machine is meant."""
    if request.slurm is None:
        if framework.asks_for_cluster(files) and not layout.submits:
            names = join_words([file.path for file in files.values()])
            raise ClusterConfigError(
                f"{names} asks for a cluster, with the table [slurm]",
                hint="--slurm submits it as a job; to run it on this machine, remove [slurm]",
            )
    elif not layout.submits:
        raise ConfigError(
            f"{layout_file}: nothing in it runs as a SLURM job",
            hint="write `slurm = {}` for the component that is to be one, or leave --layout out",
        )
    try:
        layout.with_slurm(request.slurm or {})
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"--slurm: {said}", hint=str(hints.UP_HELP)) from error


@dataclass(frozen=True, slots=True)
class _Inference:
    """Servers of somebody else that an experiment is sent to."""

    urls: tuple[str, ...] = ()
    owner: str = ""


def _inference(request: ExperimentRequest, output_dir: Path, name: str) -> _Inference:
    """As `request` says; where it says nothing and goes on with an earlier run, as that had it.

    Raises:
        ConfigError: if the experiment that is named has no server.
        ConflictError: if it is this one, or its server does not run.
    """
    owner = request.inference_of
    if owner is None and request.inference is not None:
        return _Inference(tuple(map(server_url, request.inference)))
    if owner is None and request.earlier_run == "resume":
        before = ControlFolder(output_dir).read_record()
        if before is None or before.name != name or not before.inference_of:
            return _Inference(before.inference if before is not None and before.name == name else ())
        owner = before.inference_of
    if owner is None:
        return _Inference()
    other = launch.choose(owner)
    if other.name == name:
        raise ConflictError(f"{name} cannot use its own inference server in place of its own")
    url = inference_url(other)
    if not living(other, ("inference",)):
        raise ConflictError(
            f"the inference server of {owner} does not run",
            hint=f"start it: {hints.START(component='inference', name=owner)}",
        )
    return _Inference((url,), owner)


def _refuse_other_weights(owner: str, framework: Framework, files: ConfigFiles) -> None:
    """Raises ConflictError where its server gets weights in another way than `framework` would send them."""
    other = launch.choose(owner)
    theirs = framework_of(other).weights_by(ExperimentReader(other).store().load())
    if theirs != (ours := framework.weights_by(files)):
        raise ConflictError(
            f"the inference server of {owner} takes weights by {theirs or 'another way'}, and this config"
            f" sends them by {ours or 'another way'}",
            hint="let [weight_broadcast] say the same in both",
        )


def _output_dir(
    request: ExperimentRequest, workspace: Path, framework: Framework, files: ConfigFiles
) -> Path:
    """As a person says it, from the folder they are in; else where the config belongs, or as it says."""
    if request.output_dir is not None:
        return request.output_dir.absolute()
    config_files = tuple(path.absolute() for path in request.config_files)
    if not config_files:
        return workspace / default_output_dir([Path(request.layout or "")])
    inside = config_files[0].parent
    for folder in (inside, inside.parents[1] if inside.name == origins.FOLDER else inside):
        around = ControlFolder(folder).read_record()
        if around is not None and around.config_files == tuple(map(str, config_files)):
            return Path(
                around.output_dir
            )  # an experiment's own copy of the config still names the original's
    return workspace / (
        framework.output_dir(files) or default_output_dir(origins.original_files(config_files))
    )


def _own_folder(request: ExperimentRequest, output_dir: Path) -> Path:
    """The folder that the config names; beside it where that is another experiment's, and the name a new one
    or known there.
    """
    if request.name is None or request.output_dir is not None or _owner(output_dir, request.name) is None:
        return output_dir
    beside, known = output_dir.with_name(request.name), find_experiment(request.name)
    if known is None:
        return output_dir if request.earlier_run == "resume" else beside
    return beside if same_folder(known.output_dir, str(beside)) else output_dir


def _earlier_run(
    request: ExperimentRequest,
    output_dir: Path,
    layout: Layout,
    name: str,
    framework: Framework,
    files: ConfigFiles,
) -> EarlierRun | None:
    folder = RunFolder(output_dir / layout.run_dir, framework.run_files(files))
    owner = _owner(output_dir, name)
    if not folder.artifacts() and (owner is None or not ControlFolder(output_dir).newest_attempts()):
        return None
    jobs = layout.run_jobs(framework.run_roles)
    points = ResumePoints(framework, ControlFolder(output_dir), folder, jobs)
    point = points.of(Request(action="start", resume_step=request.checkpoint), files)
    return EarlierRun(output_dir, point, next_free(output_dir), owner.name if owner else None)


def _owner(output_dir: Path, name: str) -> ExperimentRecord | None:
    """The experiment that lies in the folder, unless that is `name` itself."""
    owner = ControlFolder(output_dir).read_record()
    return owner if owner is not None and owner.name != name else None


@dataclass(frozen=True, slots=True)
class Created:
    """An experiment that is written down and has a supervisor."""

    record: ExperimentRecord
    notes: tuple[str, ...] = ()
    """What is not as the config says, in words: ports that were busy."""
    made: tuple[Path, ...] = ()
    """Folders that were not there before, outer ones first."""
    supervisor: int | None = None
    """Its pid, once it was started."""


def examine(request: ExperimentRequest) -> ExperimentRecord:
    """The experiment that `create` would make. No side effects.

    Raises:
        ConfigError: if the config breaks a rule.
        ConflictError: if the experiment runs already, its folder belongs to one that runs, or holds an
            earlier run and `request` does not say what to do.
    """
    record, earlier = plan_record(request)
    owner = _owner(Path(record.output_dir), record.name)
    if owner is not None and launch.lives(owner):
        raise _folder_taken(owner)
    before = find_experiment(record.name)
    if before is not None or owner is None:  # else what is in the folder is the owner's
        launch.refuse_if_alive(before or record)
    if earlier is not None and request.earlier_run == "ask":
        raise earlier.refusal()
    if request.earlier_run == "resume":
        _refuse_resume(record, earlier)
    if not request.force:
        refuse_errors(record)
    if before is None:
        return record
    return replace(
        record,
        created_at=before.created_at,
        overrides=before.overrides,
        overridden=before.overridden,
        devices=before.devices if request.devices is None else request.devices,
    )


def create(request: ExperimentRequest, begin: Callable[[Created], None] = lambda _: None) -> Created:
    """Write the experiment down and start its supervisor; no component yet, unless `begin` starts some. Until
    that is done nobody else can take its name or its folder; where it fails, nothing is left.

    Of several that create one experiment at the same time, exactly one succeeds.

    Raises:
        ConfigError, ConflictError: as `examine`; nothing was written.
        RltuiError: if the supervisor cannot be started, or as `begin`.
    """
    make_room_for_files()
    with alone():
        record, moved = with_devices(examine(request))
        record, notes = with_ports(record)
        control = ControlFolder(Path(record.output_dir))
        owner = _owner(Path(record.output_dir), record.name)
        made = tuple(folder for folder in (Path(record.output_dir), control.path) if not folder.exists())
        # A supervisor with nothing to do knows the config and layout of before.
        try:
            down.stop_idle_supervisor(owner or find_experiment(record.name) or record)
        except ConflictError:  # somebody has just started it
            examine(request)  # refuses in words that say whose it is
            raise
        make_folder(Path(record.output_dir))
        with _kept_apart(record, request.copies) as (copies, why):
            record, texts = _with_own_copies(record, copies, control)
        notes = (*moved, *notes, *why)
        control.make()
        _keep_origin(
            control, record, request.origin
        )  # before the list tells others of it, who would make one
        control.write_record(record)
        if record.inference_of:
            save_lease(launch.choose(record.inference_of), record)
        if texts:
            _edit(record, texts, is_birth=request.earlier_run != "resume")
        save_shell(control)
        created = Created(record, notes, made)
        if owner is not None:
            forget(owner)
            launch.clear_away(owner)
        try:
            launch.start_supervisor(record)
            created = replace(created, supervisor=_supervisor(record))
            begin(created)
        except (RltuiError, KeyboardInterrupt):
            _undo(created)
            raise
    return created


def _keep_origin(control: ControlFolder, record: ExperimentRecord, origin: RunOrigin) -> None:
    """In the sheet of the run; of one that goes on, by whom."""
    sheet = read_metadata(control.path)
    if sheet is None:
        save_metadata(control.path, new_metadata(record.created_at, origin))
    elif origin.entry not in ("", sheet.entry):
        change_metadata(control.path, lambda now: replace(now, entry=origin.entry, group=origin.group))


def own_copies(request: ExperimentRequest) -> tuple[Path, ...]:
    """The run's own copies of the config files, where `request` resumes one that has them: made of the same
    files, and edited since. Else none.
    """
    if request.earlier_run != "resume":
        return ()
    record, _ = plan_record(request)
    known = ControlFolder(Path(record.output_dir)).read_record()
    files = tuple(map(Path, known.config_files)) if known is not None else ()
    is_copy = any(origins.origin(path) is not None for path in files) and all(map(Path.exists, files))
    same = origins.original_files(files) == origins.original_files(map(Path, record.config_files))
    return files if is_copy and same else ()


@contextmanager
def _kept_apart(record: ExperimentRecord, copies: RunConfig) -> Iterator[tuple[RunConfig, tuple[str, ...]]]:
    """The copies; new ones of files that a living experiment reads, or that rltui ships as examples; and why,
    in words.
    """
    files = () if copies.unedited else tuple(map(Path, record.config_files))
    readers = [
        (other, shared)
        for other, shared in readers_of(files, record)
        if launch.is_alive(other) or launch.lives(other)
    ]
    examples = paths.shipped_dir("examples").resolve()
    shipped = [str(file) for file in files if file.resolve().is_relative_to(examples)]
    if not readers and not shipped:
        yield copies, ()
        return
    framework, workspace = registry.get(record.framework), Path(record.workspace)
    names = join_words([other.name for other, _ in readers])
    what = join_words(list(dict.fromkeys(file for _, shared in readers for file in shared)) or shipped)
    reason = f"{names} reads it too, and lives" if readers else "an example that comes with rltui"
    why = f"{what}: {reason}; {record.name} has a copy of its own"
    why += f", which edits change ({hints.PROMOTE(name=record.name)} writes them back)"
    with RunConfigBuilder(
        ConfigLine(files, is_copied=True), lambda _: framework, workspace=workspace, force=record.forced
    ).build() as made:
        yield made, (why,)


def _with_own_copies(
    record: ExperimentRecord, copies: RunConfig, control: ControlFolder
) -> tuple[ExperimentRecord, Mapping[str, str]]:
    """The record with the copies in its own folder; and by path what they shall say."""
    if not copies.unedited:
        return record, {}
    control.make()
    files, texts = copies.save(control.path / origins.FOLDER)
    return replace(record, config_files=tuple(map(str, files))), texts


def _edit(record: ExperimentRecord, texts: Mapping[str, str], *, is_birth: bool) -> None:
    """Write what the overrides of the command line say: of a run that goes on, as an edit that can be
    undone.
    """
    store = ExperimentReader(record).store()
    editor = ExperimentReader(record).editor(store)
    request = Request(action="write", texts=dict(texts), by=actor())
    preview = editor.preview(request)
    if preview.blocked:  # it was examined, by the framework's own models too
        store.accept(preview.after)
        preview = editor.preview(request)
    editor.apply(request, preview, is_birth=is_birth)


def undo(created: Created) -> None:
    """Take back a creation of which nothing was started: its supervisor ends, and new folders go.

    Nothing is taken back where somebody has started something meanwhile.

    Raises:
        ConflictError: if somebody else took the name or the folder before anything was started.
    """
    with alone():
        owner = _owner(Path(created.record.output_dir), created.record.name)
        if owner is not None:
            raise _folder_taken(owner)
        if _supervisor(created.record) not in (None, created.supervisor):
            raise launch.running(created.record)
        _undo(created)


def _supervisor(record: ExperimentRecord) -> int | None:
    """Its pid; `None` where there is none."""
    wire = launch.connect(record)
    if wire is None:
        return None
    with wire:
        return wire.server_pid()


def _undo(created: Created) -> None:
    try:
        down.stop_idle_supervisor(created.record)
    except ConflictError:
        return
    control = ControlFolder(Path(created.record.output_dir))
    if control.path in created.made:
        forget(created.record)
        launch.clear_away(created.record)
        shutil.rmtree(control.path, ignore_errors=True)
    for folder in reversed(created.made):
        with suppress(OSError):  # something else lies there by now
            folder.rmdir()


@contextmanager
def alone() -> Iterator[None]:
    """One creation at a time for each user, so that two never choose the same name, folder or port."""
    make_folder(paths.state_dir())
    lock = FileLock(paths.state_dir() / "create.lock")
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while not lock.acquire():
        if time.monotonic() > deadline:
            raise ConflictError(
                f"another rltui has been creating an experiment for {_LOCK_TIMEOUT_S:g} s",
                hint="see who it is: fuser " + str(lock.path),
            )
        time.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        lock.release()


def _refuse_resume(record: ExperimentRecord, earlier: EarlierRun | None) -> None:
    """Where there is nothing to continue, or not from where somebody asks for."""
    if earlier is not None and earlier.point.problem is not None:
        raise ConflictError(earlier.point.problem.text, hint="choose one of these; nothing was started")
    if earlier is None and ControlFolder(Path(record.output_dir)).read_record() is None:
        raise ConflictError(
            f"there is no earlier run in {record.output_dir} to resume",
            hint="leave --resume out to start one there, or name its folder with -o",
        )


def _folder_taken(owner: ExperimentRecord) -> ConflictError:
    return ConflictError(
        f"{owner.output_dir} is the folder of the experiment {owner.name}, which is running",
        hint=f"choose another with -o OUTPUT_DIR; or look at it: {hints.OPEN(name=owner.name)}; "
        f"or end it: {hints.DOWN(name=owner.name)}",
    )


def refuse_errors(record: ExperimentRecord, *, starting: bool = True) -> None:
    """The framework's own models have the last word, where they can be asked. `starting`: what stands in the
    way of a start now is an error, too.

    Raises:
        ConfigError: if the config breaks a rule.
    """
    errors: list[Problem] = []
    for ask_models in (False, True):
        found = check(
            tuple(map(Path, record.config_files)),
            record.layout_file,
            record.framework,
            workspace=Path(record.workspace),
            ask_models=ask_models,
            starting=starting,
            inference=record.inference,
            is_lent=bool(record.inference_of),
        )
        if not (errors := [problem for problem in found.problems if problem.severity == "error"]):
            return
    if errors:
        lines = [problem.text for problem in errors]
        raise ConfigError(
            lines[0] if len(lines) == 1 else f"{len(lines)} errors in the config",
            details=lines if len(lines) > 1 else (),
            hint="nothing was started; mend the file and try again, or go on all the same with --force",
        )
