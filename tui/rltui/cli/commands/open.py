"""Chooses the experiment that `rltui [RUN]` or `rltui CONFIG…` opens."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from rltui.cli.app import need_terminal, show, show_readonly, show_run, show_runs
from rltui.cli.arguments import CREATION, JOB, KEYMAP
from rltui.cli.choosing import choose_named
from rltui.cli.command import Arguments, argument, command, flag
from rltui.cli.config_line import read_config_line
from rltui.cli.jobs import start_or_submit
from rltui.cli.parser import is_file_name
from rltui.cli.terminal import confirm
from rltui.client import launch
from rltui.core import hints
from rltui.errors import UsageError
from rltui.services.experiment.files import same_folder
from rltui.services.experiment.registry import experiment_above, experiment_at, find_experiment


@command(
    "open",
    argument(
        "config",
        "CONFIG|RUN",
        "a run, or TOML files of a new one, or their folder",
        nargs="*",
        completes="openable",
    ),
    flag("--readonly", "look at a running run without changing anything"),
    *CREATION,
    JOB,
    KEYMAP,
    grammar=read_config_line,
)
def open_experiment(arguments: Arguments) -> int:
    """Attach to an experiment, or create it, if a person says so; the TUI asks before anything starts."""
    gc.disable()  # what is made until the app is shown, stays; looking through it took a tenth of the time
    if arguments.readonly:
        return _look(arguments)
    words, is_plain = arguments.config, arguments.config_line.is_plain
    if not words and not arguments.layout and is_plain:
        if arguments.name is not None:
            name = arguments.name
            raise UsageError("-n names a new run and needs its config", hint=hints.OPEN(opened=name))
        return _open_home()
    if len(words) == 1 and is_plain:
        if not is_file_name(words[0]):
            return _open_run(words[0])
        path = Path(words[0])
        if (record := experiment_at(path)) is not None:
            return show(record)
        if experiment_above(path.absolute()) is not None and path.is_dir() and not [*path.glob("*.toml")]:
            return _open_run(words[0])
    return start_or_submit(_open_config, arguments)


def _open_home() -> int:
    """Open the run of this folder, else the only one alive; else the list of all runs."""
    need_terminal()
    if experiment_above(Path.cwd()) is not None:
        return _open_run(".")
    record = launch.only_running()
    return show_runs(readonly=False) if record is None else show(record)


def _open_run(reference: str) -> int:
    """Open a run; from its files where it is on no list any more, or its name is another's by now."""
    record = choose_named(reference).record
    listed = find_experiment(record.name)
    if listed is not None and same_folder(listed.output_dir, record.output_dir):
        return show(listed)
    from rltui.client.local_runs import LocalRuns

    return show_run(LocalRuns().find(record.output_dir))


def _look(arguments: Arguments) -> int:
    """Open a run that is alive to look at it only.

    Raises:
        UsageError: for arguments that would create one.
    """
    words = arguments.config
    creation_options = [
        arguments.layout,
        arguments.framework,
        arguments.name,
        arguments.output_dir,
        arguments.workspace,
        arguments.resume,
        arguments.new,
        arguments.force,
        not arguments.config_line.is_plain,
    ]
    if any(creation_options) or len(words) > 1 or any(word.endswith(".toml") for word in words):
        raise UsageError(
            "--readonly takes one running run",
            hint=f"{hints.OPEN_READONLY}; runs: {hints.STATUS_ALL}",
        )
    if words:
        return show_readonly(choose_named(words[0]).record)
    need_terminal()
    record = experiment_above(Path.cwd()) or launch.only_running()
    return show_runs(readonly=True) if record is None else show_readonly(record)


def _open_config(arguments: Arguments) -> int:
    """Attach to the experiment of this config, or ask, and create it: the TUI asks before anything starts."""
    from rltui.cli.new_run import requested_run  # 12 ms, which a run that is there need not pay
    from rltui.client import creation, draft

    with requested_run(arguments) as run:
        planned_record, _ = draft.plan_record(run)
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
        creation.examine(run)
        need_terminal()
        if not confirm(
            f"{planned_record.name} is a new run: create it in {planned_record.output_dir} and open it?"
        ):
            raise UsageError("nothing was created")
        creation_result = creation.create(run)
    for note in creation_result.notes:
        print(note, file=sys.stderr)
    return show(creation_result.record)
