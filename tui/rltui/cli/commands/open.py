"""Chooses the experiment that `rltui [NAME]` or `rltui CONFIG…` opens."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from rltui.cli.app import need_terminal, show, show_readonly, show_run, show_runs
from rltui.cli.arguments import CREATION, KEYMAP, SLURM
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.commands.status import list_lines
from rltui.cli.config_line import read_config_line
from rltui.cli.new_run import requested_run, start_or_submit
from rltui.cli.parser import is_file_name
from rltui.cli.status_text import rows_of
from rltui.cli.terminal import confirm
from rltui.client import launch
from rltui.core import hints
from rltui.errors import UsageError
from rltui.services.runs.experiment_files import same_folder
from rltui.services.runs.experiments import experiment_at, find_experiment


@command(
    "open",
    argument(
        "config",
        "CONFIG",
        "TOML files of the run, or their folder; or the name of an experiment",
        nargs="*",
        completes="configs",
    ),
    flag("--readonly", "only look; in place of CONFIG, the experiment's name may follow"),
    *CREATION,
    SLURM,
    KEYMAP,
    grammar=read_config_line,
)
def open_experiment(arguments: Arguments) -> int:
    """Attach to an experiment, or create it, if a person says so; the TUI asks before anything starts."""
    gc.disable()  # what is made until the app is shown, stays; looking through it took a tenth of the time
    if arguments.readonly:
        name = _name_to_watch(arguments)
        return _open_home(readonly=True) if name is None else show_readonly(launch.choose(name))
    if not arguments.config and not arguments.layout and arguments.config_line.is_plain:
        return _open_home(readonly=False) if arguments.name is None else _open_named(arguments.name)
    if len(arguments.config) == 1 and arguments.config_line.is_plain:
        (config_argument,) = arguments.config
        if not is_file_name(config_argument):
            return _open_named(config_argument)
        if (record := experiment_at(Path(config_argument))) is not None:
            return show(record)
    return start_or_submit(_open_config, arguments)


def _open_home(*, readonly: bool) -> int:
    """The experiment that lives, where it is one; else all runs.

    Raises:
        UsageError: where there is no terminal: says which there are.
    """
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        try:
            record = launch.choose(None)
        except launch.AmbiguousNameError as error:
            lines = list_lines(rows_of(error.candidates))
            raise UsageError(error.title, details=lines, hint="open one: rltui NAME") from None
    elif (experiment := launch.only_running()) is not None:
        record = experiment
    else:
        return show_runs(readonly=readonly)
    return show_readonly(record) if readonly else show(record)


def _open_named(name: str) -> int:
    """The experiment of that name; else the run of that name or id, whatever became of it."""
    record = find_experiment(name)
    if record is not None:
        return show(record)
    from rltui.client.local_runs import LocalRuns

    return show_run(LocalRuns().find(name))


def _name_to_watch(arguments: Arguments) -> str | None:
    """The experiment to look at, `None` for the one there is.

    Raises:
        UsageError: for arguments that would create one.
    """
    names = [*arguments.config, *([arguments.name] if arguments.name else [])]
    creation_options = [
        arguments.layout,
        arguments.framework,
        arguments.output_dir,
        arguments.workspace,
        arguments.resume,
        arguments.new,
        arguments.force,
        not arguments.config_line.is_plain,
    ]
    if any(creation_options) or len(names) > 1:
        raise UsageError(
            "--readonly only looks at an experiment that runs, it creates none",
            hint=f"{hints.OPEN_READONLY}, without further options",
        )
    if names and names[0].endswith(".toml"):
        raise UsageError(
            f"--readonly takes the name of an experiment, {names[0]!r} is a config file",
            hint=f"`{hints.STATUS_ALL}` lists the names",
        )
    return names[0] if names else None


def _open_config(arguments: Arguments) -> int:
    """Attach to the experiment of this config, or ask, and create it: the TUI asks before anything starts."""
    from rltui.client import creation, draft

    with requested_run(arguments) as request:
        planned_record, _ = draft.plan_record(request)
        experiment = find_experiment(planned_record.name)
        if (
            experiment is not None
            and same_folder(experiment.output_dir, planned_record.output_dir)
            and not (
                arguments.new
                or arguments.resume
                or arguments.config_line.overrides
                or arguments.config_line.edits
            )
        ):
            # Opening changes nothing, so an earlier run can be looked at; the TUI asks before it starts any.
            return show(experiment)
        creation.examine(request)
        need_terminal()
        if not confirm(f"{planned_record.name} is new: make it in {planned_record.output_dir}, and open it?"):
            raise UsageError("nothing was made")
        creation_result = creation.create(request)
    for note in creation_result.notes:
        print(note, file=sys.stderr)
    return show(creation_result.record)
