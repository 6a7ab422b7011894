"""From config files on the command line to an experiment on disk, without ever touching an earlier run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rltui import paths
from rltui.client import launch
from rltui.client.ports import with_ports
from rltui.core.config_report import Check, Problem
from rltui.core.gpu.report import MemoryVerdict
from rltui.core.instances import needed
from rltui.core.layout import Layout
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks import registry
from rltui.frameworks.base import ConfigFiles, Framework, RunFiles
from rltui.services import layout_files
from rltui.services.config_files import detect, load
from rltui.services.config_store import ConfigStore
from rltui.services.experiment_files import (
    ControlFolder,
    ExperimentRecord,
    default_output_dir,
    find_experiment,
    forget,
    free_name,
    make_folder,
    new_record,
)
from rltui.services.file_lock import FileLock
from rltui.services.run_folder import RunFolder, next_free

LOCK_TIMEOUT_S = 30.0
"""How long to wait for others who create experiments; each takes a second or two."""
LOCK_POLL_S = 0.05


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


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """What lies in the output folder already."""

    output_dir: Path
    checkpoint: int | None
    next_free: Path
    owner: str | None = None
    """Name of the experiment it was, where that is another than the one to be created."""

    def refusal(self) -> ConflictError:
        """The choice, in words."""
        resumable = (
            f"--resume continues it from checkpoint {self.checkpoint}"
            if self.checkpoint is not None
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
    folder, workspace = config_files[0].parent, workspace or Path.cwd()
    if layout is None:
        chosen = (
            registry.get(framework) if framework is not None else detect(config_files, workspace=workspace)
        )
        roles = load(config_files, chosen).sources
        return chosen, layout_files.find(registry.layout_for(chosen, roles), folder)
    layout_file = layout_files.find(layout, folder)
    wanted = layout_files.load(layout_file).framework
    if wanted and framework is not None and wanted != framework:
        raise ConfigError(
            f"{layout_file} is for {wanted}, not for {framework}", hint="leave --framework out, or --layout"
        )
    if wanted or framework is not None:
        return registry.get(wanted or str(framework)), layout_file
    try:
        return detect(config_files, workspace=workspace), layout_file
    except registry.UnknownConfigError:
        return registry.get("generic"), layout_file


def check(
    config_files: tuple[Path, ...],
    layout: str | None,
    framework: str | None = None,
    *,
    with_memory: bool = False,
    with_own: bool = False,
) -> Check:
    """Validate; no side effects. `with_memory` also reads the GPUs, and says what will fit; `with_own` asks
    the framework's own validators, where its checkout is found, which takes seconds.
    """
    chosen, layout_file = identify(config_files, layout, framework)
    store = ConfigStore(list(config_files), chosen)
    files = store.load()
    loaded = layout_files.with_instances(_layout(layout_file), chosen.instances(files), layout_file)
    problems = store.problems()
    if with_own:
        from rltui.services.own_problems import OwnValidators  # starts processes, which only a check does

        problems += OwnValidators(chosen, Path.cwd()).problems(store.load_sources(), problems)
    memory: tuple[MemoryVerdict, ...] = ()
    if with_memory:
        memory, here = _memory(config_files, layout_file, loaded, chosen, files)
        problems += here
    return Check(
        valid=not any(problem.severity == "error" for problem in problems),
        framework=chosen.id,
        layout=str(layout_file),
        problems=problems,
        derived=chosen.derive(files),
        memory=memory,
    )


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
    files = ConfigStore(list(paths_), framework).load()
    layout = _layout(layout_file)
    instances = needed(layout, framework.instances(files))
    layout_files.with_instances(layout, instances, layout_file)  # refused now rather than at the start
    configured = framework.output_dir(files) or default_output_dir(paths_)
    output_dir = workspace / (wish.output_dir or configured)
    name = wish.name or free_name(output_dir.name, output_dir)
    earlier = _earlier_run(output_dir, layout.run_dir, name, framework.files_of(files))
    if earlier is not None and wish.earlier_run == "new":
        output_dir, earlier = earlier.next_free, None
        name = wish.name or free_name(output_dir.name, output_dir)
    record = new_record(
        name=name,
        output_dir=output_dir.resolve(),
        workspace=workspace,
        config_files=list(paths_),
        layout_file=layout_file,
        framework=framework.id,
        run_dir=layout.run_dir,
        instances=instances,
    )
    return record, earlier


def _earlier_run(output_dir: Path, run_dir: str, name: str, run_files: RunFiles) -> EarlierRun | None:
    folder = RunFolder(output_dir / run_dir, run_files)
    owner = _owner(output_dir, name)
    if not folder.artifacts() and owner is None:
        return None
    return EarlierRun(
        output_dir, folder.latest_checkpoint(), next_free(output_dir), owner.name if owner else None
    )


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
    launch.refuse_if_alive(before or record)
    if earlier is not None and wish.earlier_run == "ask":
        raise earlier.refusal()
    _refuse_errors(record)
    if before is None:
        return record
    return replace(
        record, created_at=before.created_at, overrides=before.overrides, overridden=before.overridden
    )


def create(wish: Wish) -> Created:
    """Write the experiment down and start its supervisor; no component yet.

    Of several that create one experiment at the same time, exactly one succeeds.

    Raises:
        ConfigError, ConflictError: as `examine`; nothing was written.
        RltuiError: if the supervisor cannot be started.
    """
    with alone():
        record, notes = with_ports(examine(wish))
        control = ControlFolder(Path(record.output_dir))
        owner = _owner(Path(record.output_dir), record.name)
        make_folder(Path(record.output_dir))
        control.write_record(record)
        if owner is not None:
            forget(owner)
            launch.clear_away(owner)
        launch.start_supervisor(record)
    return Created(record, notes)


@contextmanager
def alone() -> Iterator[None]:
    """One creation at a time for each user, so that two never choose the same name, folder or port."""
    make_folder(paths.state_dir())
    lock = FileLock(paths.state_dir() / "create.lock")
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while not lock.take():
        if time.monotonic() > deadline:
            raise ConflictError(
                f"another rltui has been creating an experiment for {LOCK_TIMEOUT_S:g} s",
                hint="see who it is: fuser " + str(lock.path),
            )
        time.sleep(LOCK_POLL_S)
    try:
        yield
    finally:
        lock.release()


def _folder_taken(owner: ExperimentRecord) -> ConflictError:
    return ConflictError(
        f"{owner.output_dir} is the folder of the experiment {owner.name}, which is running",
        hint=f"choose another with -o OUTPUT_DIR; or look at it: rltui -n {owner.name}; "
        f"or end it: rltui down {owner.name}",
    )


def _refuse_errors(record: ExperimentRecord) -> None:
    found = check(tuple(map(Path, record.config_files)), record.layout_file, record.framework)
    errors = [problem for problem in found.problems if problem.severity == "error"]
    if errors:
        lines = [problem.text for problem in errors]
        raise ConfigError(
            lines[0] if len(lines) == 1 else f"{len(lines)} errors in the config",
            details=lines if len(lines) > 1 else (),
            hint="nothing was started; mend the file and try again",
        )
