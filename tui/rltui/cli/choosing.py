"""Chooses what a command line leaves open: the experiment, the framework of a config, devices."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.cli.command import Arguments
from rltui.client import launch
from rltui.services.runs.experiment_files import ExperimentRecord

if TYPE_CHECKING:
    from rltui.frameworks.base import Framework
    from rltui.services.runs.index import RunIndex


def choose_experiment(name: str | None, *, acts: bool = False) -> ExperimentRecord:
    """The experiment called `name`; without a name the only one alive, or there is, else the one of this
    folder, else the newest: a line on stderr says so. What `acts` on one of several living takes no guess.

    Raises:
        UsageError: if there is none, or the choice is not clear.
    """
    try:
        return launch.choose(name)
    except launch.AmbiguousNameError as error:
        in_folder = [record for record in error.candidates if _is_of(record, Path.cwd())]
        among = in_folder or error.candidates
        if acts and error.are_alive and len(in_folder) != 1:
            raise
    record = max(among, key=lambda candidate: candidate.created_at)
    location = "this folder" if in_folder else "all"
    choice = f"the one of {location}" if len(among) == 1 else f"the newest of {len(among)} of {location}"
    print(f"{record.name}: {choice} (another: -n NAME)", file=sys.stderr)
    return record


def ready_index() -> RunIndex:
    """The index of runs, up to date with their folders; what is new of those is told on stderr."""
    from rltui.services.runs.catalog import catch_up  # only what is about many runs needs it
    from rltui.services.runs.index import RunIndex

    index = RunIndex()
    for sentence in catch_up(index).messages:
        print(sentence, file=sys.stderr)
    return index


def _is_of(record: ExperimentRecord, folder: Path) -> bool:
    """True if the experiment runs in `folder`, or has its config or its output there."""
    configs = (Path(file).parent for file in record.config_files)
    return folder in (Path(record.workspace), *configs) or folder.is_relative_to(record.output_dir)


def choose_framework(
    config_files: tuple[Path, ...],
    layout: str | None,
    framework: str | None,
    *,
    workspace: Path | None = None,
) -> str | None:
    """The framework that was named; `None` where the config tells by itself. Where several suit it: that of
    an experiment with the same files, else the newest, which is said in a line.

    Raises:
        ConfigError: as `checking.identify`.
    """
    from rltui.client import checking
    from rltui.frameworks import registry
    from rltui.frameworks.registry import AmbiguousConfigError

    try:
        checking.identify(config_files, layout, framework, workspace=workspace)
    except AmbiguousConfigError as error:
        if (framework_before := _before(config_files, error.candidates)) is not None:
            return framework_before
        newest, *older = error.candidates
        names = " and ".join(path.name for path in config_files)
        print(
            f"{names}: taken for {registry.get(newest).title}, the newest that it suits; for another: "
            f"--framework {' or '.join(older)}",
            file=sys.stderr,
        )
        return newest
    return framework


class FrameworkChooser:
    """The framework of config files; which of several was chosen is told once."""

    def __init__(self, arguments: Arguments, workspace: Path | None = None) -> None:
        self._layout, self._framework = arguments.layout, arguments.framework
        self._workspace = workspace

    def id_of(self, files: tuple[Path, ...]) -> str | None:
        framework = choose_framework(files, self._layout, self._framework, workspace=self._workspace)
        self._framework = framework
        return framework

    def __call__(self, files: tuple[Path, ...]) -> Framework:
        from rltui.client import checking

        return checking.identify(files, self._layout, self.id_of(files), workspace=self._workspace)[0]


def choose_devices(arguments: Arguments) -> str | None:
    """Devices that `--devices` or `--single-gpu` name; `None` where neither is given.

    Raises:
        UsageError: if there are no such devices.
    """
    if arguments.devices is None and not arguments.single_gpu:
        return None
    from rltui.client.memory import named_devices, roomiest_device  # reads the GPUs

    if arguments.devices is not None:
        return named_devices(arguments.devices)
    device, message = roomiest_device()
    print(message, file=sys.stderr)
    return device


def _before(config_files: tuple[Path, ...], candidates: Sequence[str]) -> str | None:
    """The framework of an experiment with the same files."""
    from rltui.services.config.origins import original_files
    from rltui.services.runs.experiments import known_experiments

    originals = set(original_files(config_files))
    for record in known_experiments():
        if originals == set(original_files(record.config_paths)) and record.framework in candidates:
            return record.framework
    return None
