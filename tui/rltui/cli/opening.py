"""`rltui CONFIG…`, `rltui`, `rltui demo`: the TUI."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from typing import TYPE_CHECKING

from rltui import settings
from rltui.cli.parser import is_file_name
from rltui.cli.status import list_lines, row_of
from rltui.cli.terminal import chosen
from rltui.client import launch
from rltui.errors import ConfigError, UsageError
from rltui.services import outside
from rltui.services.runs.experiment_files import ExperimentRecord

if TYPE_CHECKING:
    from rltui.ui.app import RltuiApp

_STARTED_S = 2.0
"""The app has long been shown by then."""


def open_experiment(arguments: argparse.Namespace) -> int:
    """Attach to an experiment, or create it and let the TUI ask before anything starts."""
    gc.disable()  # what is made until the app is shown, stays; looking through it took a tenth of the time
    if arguments.readonly:
        return _show_readonly(launch.choose(_name_to_watch(arguments)))
    if not arguments.config and not arguments.layout:
        return show(_chosen(arguments.name))
    if len(arguments.config) == 1 and not is_file_name(arguments.config[0]):
        return show(launch.choose(arguments.config[0]))
    from rltui.cli.running import open_config  # knows the frameworks, which attaching needs not

    return open_config(arguments)


def _chosen(name: str | None) -> ExperimentRecord:
    """The experiment to attach to; where several may be meant, a person chooses from the list."""
    try:
        return launch.choose(name)
    except launch.UnclearChoiceError as error:
        lines = list_lines([row_of(record) for record in error.candidates])
        if not sys.stdin.isatty() or not sys.stdout.isatty():
            raise UsageError(error.title, details=lines, hint="open one: rltui NAME") from None
        names = [record.name for record in error.candidates]
        choice = chosen(lines[0], dict(zip(names, lines[1:], strict=True)))
        if choice is None:
            raise UsageError("nothing was opened", hint="open one: rltui NAME") from None
        return error.candidates[names.index(choice)]


def show(record: ExperimentRecord) -> int:
    """Run the TUI on an experiment until the user detaches. Its supervisor is started where there is none."""
    need_terminal()
    launch.reach(record).close()
    return _run_app(record, readonly=False)


def _show_readonly(record: ExperimentRecord) -> int:
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
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "the TUI needs a terminal that can be drawn on, and TERM is dumb",
            hint="use another terminal, or `rltui up`, `rltui status`, `rltui logs`; "
            "if yours can: TERM=xterm-256color rltui",
        )


def _run_app(record: ExperimentRecord, *, readonly: bool) -> int:
    from rich.console import Console

    from rltui.client.connection import SupervisedExperiment
    from rltui.ui.app import RltuiApp

    experiment = SupervisedExperiment(record, readonly=readonly)
    alerts = _alert_settings()
    app = RltuiApp(
        experiment,
        component_ids=experiment.component_ids,
        log_ids=experiment.log_ids,
        run_in_terminal=outside.in_terminal,
        bell=alerts.bell,
        osc9=alerts.osc9,
    )
    # Should the app crash, its words go the way of all output, where colours of its own would be cleaned too.
    app.error_console = Console(stderr=True, color_system=None, markup=False, highlight=False)
    asyncio.run(_shown(app))
    return app.return_code or 0


async def _shown(app: RltuiApp) -> None:
    asyncio.get_running_loop().call_later(_STARTED_S, _collect_garbage)
    await app.run_async()


def _collect_garbage() -> None:
    gc.freeze()
    gc.enable()


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
    creating = [
        arguments.layout,
        arguments.framework,
        arguments.output_dir,
        arguments.workspace,
        arguments.resume,
        arguments.new,
        arguments.force,
    ]
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
