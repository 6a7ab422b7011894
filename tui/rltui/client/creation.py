"""From config files on the command line to an experiment on disk, without ever touching an earlier run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rltui.client import launch
from rltui.core.api import Check, DerivedValue
from rltui.errors import ConfigError, ConflictError
from rltui.frameworks import registry
from rltui.frameworks.base import Framework
from rltui.services import layout_files
from rltui.services.config_files import detect
from rltui.services.config_store import ConfigStore
from rltui.services.experiment_files import (
    ControlFolder,
    ExperimentRecord,
    find_experiment,
    make_folder,
    new_record,
)
from rltui.services.run_folder import RunFolder, next_free


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for. `None`: take it from the config."""

    config_files: tuple[Path, ...]
    layout: str | None = None
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

    def refusal(self) -> ConflictError:
        """The choice, in words."""
        resumable = (
            f"--resume continues it from checkpoint {self.checkpoint}"
            if self.checkpoint is not None
            else "--resume begins it anew (it has no checkpoint; its files are kept aside)"
        )
        return ConflictError(
            f"{self.output_dir} holds an earlier run, which is left alone",
            hint=f"choose: {resumable}; --new starts a run of its own in {self.next_free}",
        )


def identify(config_files: tuple[Path, ...], layout: str | None) -> tuple[Framework, Path]:
    """The framework and the layout file that suit these config files.

    Raises:
        ConfigError: if a file is missing or malformed, or the framework or layout is unknown.
    """
    folder = config_files[0].parent
    layout_file = layout_files.find(layout, folder) if layout is not None else None
    if layout_file is not None:
        framework = registry.get(layout_files.load(layout_file).framework)
    else:
        framework = detect(config_files)
        layout_file = layout_files.find(framework.layout, folder)
    return framework, layout_file


def check(config_files: tuple[Path, ...], layout: str | None) -> Check:
    """Validate; no side effects."""
    framework, layout_file = identify(config_files, layout)
    layout_files.load(layout_file)
    store = ConfigStore(list(config_files), framework)
    store.load()
    problems = store.problems()
    return Check(
        valid=not any(problem.severity == "error" for problem in problems),
        framework=framework.id,
        layout=str(layout_file),
        problems=problems,
        derived=tuple(
            DerivedValue(name=item.name, value=item.value, unit=item.unit, text=item.text)
            for item in framework.derive(store.files)
        ),
    )


def plan_record(wish: Wish) -> tuple[ExperimentRecord, EarlierRun | None]:
    """The experiment that `wish` describes, and the earlier run in its folder. No side effects.

    Raises:
        ConfigError: as `identify`, or if the config breaks a rule.
        ConflictError: if the name is taken by an experiment in another folder.
    """
    paths_ = tuple(path.absolute() for path in wish.config_files)
    framework, layout_file = identify(paths_, wish.layout)
    store = ConfigStore(list(paths_), framework)
    store.load()
    workspace = (wish.workspace or Path.cwd()).absolute()
    configured = framework.output_dir(store.files) or f"outputs/{paths_[0].stem}"
    output_dir = workspace / (wish.output_dir or configured)
    folder = RunFolder(output_dir, framework.files)
    earlier = None
    if folder.artifacts():
        earlier = EarlierRun(output_dir, folder.latest_checkpoint(), next_free(output_dir))
        if wish.earlier_run == "new":
            output_dir, earlier = earlier.next_free, None
    record = new_record(
        name=wish.name or output_dir.name,
        output_dir=output_dir,
        workspace=workspace,
        config_files=list(paths_),
        layout_file=layout_file,
        framework=framework.id,
    )
    return record, earlier


def create(wish: Wish) -> ExperimentRecord:
    """Write the experiment down, ready to be started.

    Raises:
        ConfigError: if the config breaks a rule: nothing was written.
        ConflictError: if the folder holds an earlier run and `wish` does not say what to do,
            or the experiment runs already.
    """
    record, earlier = plan_record(wish)
    other = find_experiment(record.name)
    if other is not None and other.output_dir == record.output_dir:
        launch.refuse_if_alive(other)
        record = replace(record, created_at=other.created_at)
    if earlier is not None and wish.earlier_run == "ask":
        raise earlier.refusal()
    _refuse_errors(record)
    make_folder(Path(record.output_dir))
    ControlFolder(Path(record.output_dir)).write_record(record)
    return record


def _refuse_errors(record: ExperimentRecord) -> None:
    found = check(tuple(map(Path, record.config_files)), record.layout_file)
    errors = [problem for problem in found.problems if problem.severity == "error"]
    if errors:
        lines = [problem.text for problem in errors]
        raise ConfigError(
            lines[0] if len(lines) == 1 else f"{len(lines)} errors in the config",
            details=lines if len(lines) > 1 else (),
            hint="nothing was started; mend the file and try again",
        )
