"""`rltui CONFIG…`, `rltui`, `rltui demo`: the TUI."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rltui import paths, settings
from rltui.cli.running import create, open_wire, start_headless, wish_of
from rltui.client import creation, launch
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.services.experiment_files import ExperimentRecord, find_experiment, make_folder, same_folder
from rltui.services.run_folder import next_free

DEMO_FOLDER = Path("outputs/demo")
DEMO_FILES = ("rl.toml", "sft.toml")


def open_experiment(arguments: argparse.Namespace) -> int:
    """Attach to an experiment, or create it and let the TUI ask before anything starts."""
    if arguments.readonly:
        return show_readonly(launch.choose(_name_to_watch(arguments)))
    if not arguments.config:
        return show(launch.choose(arguments.name))
    wish = wish_of(arguments)
    planned, _ = creation.plan_record(wish)
    known = find_experiment(planned.name)
    if (
        known is not None
        and same_folder(known.output_dir, planned.output_dir)
        and not (arguments.new or arguments.resume)
    ):
        # Opening changes nothing, so an earlier run can be looked at; the TUI asks before it starts anything.
        return show(known)
    creation.examine(wish)
    need_terminal()
    return show(create(wish))


def demo(arguments: argparse.Namespace) -> int:
    """Run the shipped example in a folder of its own, so that editing it leaves the original alone."""
    if importlib.util.find_spec("torch") is None:
        raise RltuiError(
            "the demo needs torch, which is not installed",
            hint="pip install 'rltui[local]', then `rltui demo`",
        )
    if not arguments.no_tui:
        need_terminal()
    folder = Path(arguments.output_dir or DEMO_FOLDER).absolute()
    known = find_experiment(folder.name)
    if known is not None and launch.lives(known):
        print(f"the demo runs already in {known.output_dir}", file=sys.stderr)
        return show(known)
    if folder.exists():
        # A demo is for watching: each one is a run of its own, the earlier ones stay.
        folder = next_free(folder)
    wish = creation.Wish(config_files=(_copy_example(folder),), name=folder.name, output_dir=folder)
    record = create(wish)
    if arguments.no_tui:
        return start_headless(record, (), wait=True, timeout_s=None, as_json=False)
    start_headless(record, (), wait=False, timeout_s=None, as_json=False)
    return show(record)


def _copy_example(folder: Path) -> Path:
    """Copy the example's config files; return the main one."""
    make_folder(folder)
    for name in DEMO_FILES:
        shutil.copyfile(paths.shipped_dir("examples") / "reverse_text" / name, folder / name)
    return folder / DEMO_FILES[0]


def show(record: ExperimentRecord) -> int:
    """Run the TUI on an experiment until the user detaches. Its supervisor is started where there is none."""
    need_terminal()
    open_wire(record).close()
    return _run_app(record, readonly=False)


def show_readonly(record: ExperimentRecord) -> int:
    """Run the TUI to look only. Starts nothing.

    Raises:
        RltuiError: if no supervisor runs.
    """
    need_terminal()
    if not launch.is_alive(record):
        raise launch.not_running(record.name)
    return _run_app(record, readonly=True)


def need_terminal() -> None:
    """To be called before anything is made for the TUI.

    Raises:
        UsageError: if there is none.
    """
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise UsageError(
            "the TUI needs a terminal", hint="without one use `rltui up`, `rltui status`, `rltui logs`"
        )


def _run_app(record: ExperimentRecord, *, readonly: bool) -> int:
    from rltui.client.connection import SupervisedExperiment
    from rltui.ui.app import RltuiApp

    experiment = SupervisedExperiment(record, readonly=readonly)
    alerts = _alert_settings()
    app = RltuiApp(
        experiment,
        component_ids=experiment.component_ids,
        run_in_terminal=_run_in_terminal,
        bell=alerts.bell,
        osc9=alerts.osc9,
    )
    asyncio.run(app.run_async())
    return app.return_code or 0


def _alert_settings() -> settings.AlertSettings:
    """The user's, or the defaults where the file cannot be understood, which must keep nobody out."""
    try:
        return settings.load(settings.settings_file()).alerts
    except ConfigError as error:
        print(error, file=sys.stderr)
        return settings.AlertSettings()


def _name_to_watch(arguments: argparse.Namespace) -> str | None:
    """The experiment to look at, `None` for the one there is.

    Raises:
        UsageError: for arguments that would create one.
    """
    names = [*arguments.config, *([arguments.name] if arguments.name else [])]
    creating = [arguments.layout, arguments.output_dir, arguments.workspace, arguments.resume, arguments.new]
    if any(creating) or len(names) > 1:
        raise UsageError(
            "--readonly only looks at an experiment that runs, it creates none",
            hint="rltui --readonly NAME, without further options",
        )
    if names and names[0].endswith(".toml"):
        raise UsageError(
            f"--readonly takes the name of an experiment, {names[0]!r} is a config file",
            hint="`rltui ls` lists the names",
        )
    return names[0] if names else None


def _run_in_terminal(command: Sequence[str]) -> None:
    """Hand the terminal over until the program ends. The TUI is suspended meanwhile."""
    subprocess.run(command, check=False)
