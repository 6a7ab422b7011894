"""The TUI in this terminal, on an experiment that is there."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from typing import TYPE_CHECKING

from rltui import settings
from rltui.client import launch
from rltui.errors import ConfigError, UsageError
from rltui.services import outside
from rltui.services.runs.experiment_files import ExperimentRecord

if TYPE_CHECKING:
    from rltui.ui.app import RltuiApp

_STARTED_S = 2.0
"""The app has long been shown by then."""


def show(record: ExperimentRecord) -> int:
    """Run the TUI on an experiment until the user detaches. Its supervisor is started where there is none."""
    need_terminal()
    launch.reach(record).close()
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
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "the TUI needs a terminal that can be drawn on, and TERM is dumb",
            hint="use another terminal, or `rltui up`, `rltui status`, `rltui logs`; "
            "if yours can: TERM=xterm-256color rltui",
        )


def _run_app(record: ExperimentRecord, *, readonly: bool) -> int:
    from rich.console import Console

    from rltui.client.connection import SupervisedExperiment
    from rltui.client.runs import KnownRuns
    from rltui.ui.app import RltuiApp

    experiment = SupervisedExperiment(record, readonly=readonly)
    alerts = _alert_settings()
    app = RltuiApp(
        experiment,
        runs=KnownRuns(readonly=readonly),
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
