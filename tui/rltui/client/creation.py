"""From config files on the command line to an experiment on disk, without ever touching an earlier run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rltui import paths
from rltui.client import down, launch
from rltui.client.ports import with_ports
from rltui.client.start_check import start_problems
from rltui.core.api import Request
from rltui.core.config_report import Check, KnobTable, Problem
from rltui.core.gpu.report import MemoryVerdict
from rltui.core.layout import Layout, needed
from rltui.errors import ConfigError, ConflictError, RltuiError, UsageError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFiles, Framework
from rltui.frameworks.generic import GENERIC
from rltui.services import layout_files, trust
from rltui.services.config.editor import shared_configs
from rltui.services.config.files import detect, load_files, read_file
from rltui.services.config.models import FrameworkModels
from rltui.services.config.store import ConfigStore
from rltui.services.own_files import FileLock, make_folder
from rltui.services.runs.experiment_files import ControlFolder, ExperimentRecord
from rltui.services.runs.experiments import default_output_dir, find_experiment, forget, free_name, new_record
from rltui.services.runs.run_folder import ResumePoint, ResumePoints, RunFolder, next_free
from rltui.services.shell import keep_shell, make_room_for_files

_LOCK_TIMEOUT_S = 60.0
"""How long to wait for others who create experiments; each takes a second or two, more on a busy box."""
_LOCK_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for. `None`: take it from the config."""

    config_files: tuple[Path, ...]
    layout: str | None = None
    framework: str | None = None
    """Id of a framework, where the files themselves do not tell."""
    name: str | None = None
    output_dir: Path | None = None
    workspace: Path | None = None
    earlier_run: Literal["ask", "resume", "new"] = "ask"
    """What to do where the output folder holds an earlier run."""
    checkpoint: int | None = None
    """The checkpoint to resume from; `None`: the one that the config asks for, else the newest."""
    force: bool = False
    """No rule of ours refuses the config, now or when it is edited."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """What lies in the output folder already."""

    output_dir: Path
    point: ResumePoint
    """Where it would be resumed."""
    next_free: Path
    owner: str | None = None
    """Name of the experiment it was, where that is another than the one to be created."""

    def refusal(self) -> ConflictError:
        """The choice, in words."""
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


def identify(
    config_files: tuple[Path, ...],
    layout: str | None,
    framework: str | None = None,
    *,
    workspace: Path | None = None,
) -> tuple[Framework, Path]:
    """The framework and the layout file that suit these config files.

    `workspace`: where the components will run, by default here; what is installed there helps to tell.

    Raises:
        AmbiguousConfigError: if the files suit several frameworks, and `framework` does not say which.
        ConfigError: if a file is missing or malformed, or the framework or layout is unknown.
    """
    if not config_files and layout is None:
        raise UsageError("no config and no layout is named", hint="name a config file, or a layout with -l")
    _refuse_layouts(config_files)
    workspace = workspace or Path.cwd()
    folder = config_files[0].parent if config_files else Path.cwd()
    if layout is None:
        chosen = (
            registry.get(framework) if framework is not None else detect(config_files, workspace=workspace)
        )
        roles = load_files(config_files, chosen).sources
        return chosen, layout_files.find(registry.layout_for(chosen, roles), folder)
    layout_file = layout_files.find(layout, folder)
    wanted = layout_files.load(layout_file).framework
    if wanted and framework is not None and wanted != framework:
        raise ConfigError(
            f"{layout_file} is for {wanted}, not for {framework}", hint="leave --framework out, or --layout"
        )
    if wanted or framework is not None:
        return registry.get(wanted or str(framework)), layout_file
    if not config_files:
        return GENERIC, layout_file
    try:
        return detect(config_files, workspace=workspace), layout_file
    except registry.UnknownConfigError:
        return registry.get("generic"), layout_file


def _refuse_layouts(config_files: Iterable[Path]) -> None:
    for path in config_files:
        tables = read_file(path).data.get("component")
        if isinstance(tables, list) and all(isinstance(each, dict) and "command" in each for each in tables):
            raise ConfigError(
                f"{path} is a layout, which says what to run, and no config",
                hint=f"use it with -l {path}, and name a config beside it where its commands need one",
            )


def check(
    config_files: tuple[Path, ...],
    layout: str | None,
    framework: str | None = None,
    *,
    workspace: Path | None = None,
    with_memory: bool = False,
    ask_models: bool = False,
    starting: bool = False,
) -> Check:
    """Validate; no side effects. `workspace` as for `identify`.

    `with_memory` also reads the GPUs, and says what will fit. `ask_models` asks the framework's own models,
    where its checkout is found, which takes seconds; what they take, no rule of ours refuses.
    `starting`: what would stand in the way of a start is an error too.
    """
    chosen, layout_file = identify(config_files, layout, framework, workspace=workspace)
    chosen = chosen.fitted(_layout(layout_file))
    with closing(FrameworkModels(chosen, workspace or Path.cwd())) as models:
        chosen = models.informed(config_files, ask=ask_models)
        store = ConfigStore(list(config_files), chosen)
        sources = store.load_sources()
        if ask_models and models.accepts(sources):
            store.accept(sources)
        problems = store.problems()
        problems += models.problems(sources, problems) if ask_models else ()
    files = sources.files
    loaded = layout_files.with_instances(_layout(layout_file), chosen.instances(files), layout_file)
    problems += shared_configs(store.base())
    lacking = start_problems(layout_file, loaded, chosen, files, workspace or Path.cwd())
    problems += (
        tuple(each.model_copy(update={"severity": "error"}) for each in lacking) if starting else lacking
    )
    memory: tuple[MemoryVerdict, ...] = ()
    if with_memory and not lacking:
        memory, here = _memory(config_files, layout_file, loaded, chosen, files)
        problems += here
    return Check(
        valid=not any(problem.severity == "error" for problem in problems),
        startable=not lacking,
        framework=chosen.id,
        layout=str(layout_file),
        problems=problems,
        derived=chosen.derive(files),
        memory=memory,
    )


def trust_what_runs(wish: Wish) -> None:
    """For whoever starts what `wish` describes: the folders that it runs programs of are trusted.

    Raises:
        ConfigError: as `identify`.
    """
    files, workspace = tuple(path.absolute() for path in wish.config_files), wish.workspace or Path.cwd()
    framework, layout_file = identify(files, wish.layout, wish.framework, workspace=workspace)
    trust.trust(trust.programs_of(layout_file, framework, workspace=workspace, config_files=files))


def knobs(config_files: tuple[Path, ...], layout: str | None, framework: str | None = None) -> KnobTable:
    """Every knob of a config that need never have run, by its files and the checkout that will read them; no
    side effects.
    """
    chosen, layout_file = identify(config_files, layout, framework)
    chosen = chosen.fitted(_layout(layout_file))
    with closing(FrameworkModels(chosen, Path.cwd())) as models:
        chosen = models.informed(config_files)
    instances = chosen.instances(ConfigStore(list(config_files), chosen).load())
    loaded = layout_files.with_instances(_layout(layout_file), instances, layout_file)
    components = [spec.id for spec in loaded.component]
    store = ConfigStore(list(config_files), chosen, components=components, launched=loaded.launched)
    return store.knob_table({})


def _layout(layout_file: Path) -> Layout:
    """The layout to run a config with.

    Raises:
        ConfigError: if it is malformed, or runs nothing.
    """
    layout = layout_files.load(layout_file)
    if not layout.component:
        raise ConfigError(
            f"{layout_file} follows the logs of a run that somebody else started, and starts none itself",
            hint=f"rltui watch RUN_DIR --layout {layout_file}",
        )
    return layout


def _memory(
    config_files: tuple[Path, ...],
    layout_file: Path,
    layout: Layout,
    framework: Framework,
    files: ConfigFiles,
) -> tuple[tuple[MemoryVerdict, ...], tuple[Problem, ...]]:
    """What will fit on the devices of this box; or why it cannot be said, such as too few of them."""
    from rltui.client.memory import verdicts  # reads the GPUs, which only `rltui check` does

    try:
        return verdicts(config_files, layout_file, layout, framework, files), ()
    except ConfigError as error:
        text = f"on this box: {error.title}" + (f"; {error.hint}" if error.hint else "")
        return (), (Problem(severity="warning", message=text),)


def plan_record(wish: Wish) -> tuple[ExperimentRecord, EarlierRun | None]:
    """The experiment that `wish` describes, and the earlier run in its folder. No side effects.

    Raises:
        ConfigError: as `identify`, or if the config breaks a rule.
        ConflictError: if the name is taken by an experiment in another folder.
    """
    paths_ = tuple(path.absolute() for path in wish.config_files)
    workspace = (wish.workspace or Path.cwd()).absolute()
    framework, layout_file = identify(paths_, wish.layout, wish.framework, workspace=workspace)
    layout = _layout(layout_file)
    framework = framework.fitted(layout)
    files = ConfigStore(list(paths_), framework).load()
    instances = needed(layout, framework.instances(files))
    layout_files.with_instances(layout, instances, layout_file)  # refused now rather than at the start
    output_dir = _output_dir(wish, workspace, framework, files)
    name = wish.name if wish.name is not None else free_name(output_dir.name, output_dir)
    earlier = _earlier_run(wish, output_dir, layout, name, framework, files)
    if earlier is not None and wish.earlier_run == "new":
        output_dir, earlier = earlier.next_free, None
        name = wish.name if wish.name is not None else free_name(output_dir.name, output_dir)
    record = new_record(
        name=name,
        output_dir=output_dir.resolve(),
        workspace=workspace,
        config_files=list(paths_),
        layout_file=layout_file,
        framework=framework.id,
        run_dir=layout.run_dir,
        instances=instances,
        forced=wish.force,
    )
    return record, earlier


def _output_dir(wish: Wish, workspace: Path, framework: Framework, files: ConfigFiles) -> Path:
    """As a person says it, from the folder they are in; else where the config belongs, or as it says."""
    if wish.output_dir is not None:
        return wish.output_dir.absolute()
    config_files = tuple(path.absolute() for path in wish.config_files)
    if not config_files:
        return workspace / default_output_dir([Path(wish.layout or "")])
    around = ControlFolder(config_files[0].parent).read_record()
    if around is not None and around.config_files == tuple(map(str, config_files)):
        return Path(around.output_dir)  # an experiment's own copy of the config still names the original's
    return workspace / (framework.output_dir(files) or default_output_dir(config_files))


def _earlier_run(
    wish: Wish, output_dir: Path, layout: Layout, name: str, framework: Framework, files: ConfigFiles
) -> EarlierRun | None:
    folder = RunFolder(output_dir / layout.run_dir, framework.run_files(files))
    owner = _owner(output_dir, name)
    if not folder.artifacts() and (owner is None or not ControlFolder(output_dir).newest_attempts()):
        return None
    jobs = layout.run_jobs(framework.run_roles)
    points = ResumePoints(framework, ControlFolder(output_dir), folder, jobs)
    point = points.of(Request(action="start", resume_step=wish.checkpoint), files)
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


def examine(wish: Wish) -> ExperimentRecord:
    """The experiment that `create` would make. No side effects.

    Raises:
        ConfigError: if the config breaks a rule.
        ConflictError: if the experiment runs already, its folder belongs to one that runs, or holds an
            earlier run and `wish` does not say what to do.
    """
    record, earlier = plan_record(wish)
    owner = _owner(Path(record.output_dir), record.name)
    if owner is not None and launch.lives(owner):
        raise _folder_taken(owner)
    before = find_experiment(record.name)
    if before is not None or owner is None:  # else what is in the folder is the owner's
        launch.refuse_if_alive(before or record)
    if earlier is not None and wish.earlier_run == "ask":
        raise earlier.refusal()
    if wish.earlier_run == "resume":
        _refuse_resume(record, earlier)
    if not wish.force:
        _refuse_errors(record)
    if before is None:
        return record
    return replace(
        record, created_at=before.created_at, overrides=before.overrides, overridden=before.overridden
    )


def create(wish: Wish, begin: Callable[[Created], None] = lambda _: None) -> Created:
    """Write the experiment down and start its supervisor; no component yet, unless `begin` starts some. Until
    that is done nobody else can take its name or its folder; where it fails, nothing is left.

    Of several that create one experiment at the same time, exactly one succeeds.

    Raises:
        ConfigError, ConflictError: as `examine`; nothing was written.
        RltuiError: if the supervisor cannot be started, or as `begin`.
    """
    make_room_for_files()
    with alone():
        record, notes = with_ports(examine(wish))
        control = ControlFolder(Path(record.output_dir))
        owner = _owner(Path(record.output_dir), record.name)
        made = tuple(folder for folder in (Path(record.output_dir), control.path) if not folder.exists())
        # A supervisor with nothing to do knows the config and layout of before.
        try:
            down.send_away(owner or find_experiment(record.name) or record)
        except ConflictError:  # somebody has just started it
            examine(wish)  # refuses in words that say whose it is
            raise
        make_folder(Path(record.output_dir))
        control.write_record(record)
        keep_shell(control)
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
        down.send_away(created.record)
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
    while not lock.take():
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
        hint=f"choose another with -o OUTPUT_DIR; or look at it: rltui -n {owner.name}; "
        f"or end it: rltui down {owner.name}",
    )


def _refuse_errors(record: ExperimentRecord) -> None:
    """The framework's own models have the last word, where they can be asked."""
    errors: list[Problem] = []
    for ask_models in (False, True):
        found = check(
            tuple(map(Path, record.config_files)),
            record.layout_file,
            record.framework,
            workspace=Path(record.workspace),
            ask_models=ask_models,
            starting=True,
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
