"""The TUI in this terminal, on an experiment that is there or on all runs."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rltui import paths
from rltui.cli.arguments import KEYMAP_VARIABLE
from rltui.cli.terminal import CleanStream
from rltui.client import launch
from rltui.core import hints
from rltui.errors import ConfigError, RltuiError, UsageError
from rltui.services.experiment.files import ExperimentRecord

if TYPE_CHECKING:
    from rltui.client.experiment import Experiment
    from rltui.client.local_runs import LocalRuns
    from rltui.client.runs import Runs
    from rltui.client.transports.remote_machine import RemoteMachine
    from rltui.client.transports.unix import Wire
    from rltui.core.experiment.description import Panels
    from rltui.settings import HostSettings
    from rltui.ui.app import RltuiApp
    from rltui.ui.terminal.abilities import Abilities

_STARTED_S = 2.0
"""The app has long been shown by then."""


def show(record: ExperimentRecord, *, greeting: str = "") -> int:
    """Run the TUI on an experiment until the user detaches. Its supervisor is started where there is none.

    `greeting`: as for `RltuiApp`.
    """
    need_terminal()
    with launch.connect_or_start(record) as wire:
        panels = _panels(wire)
    return _run_supervised(record, readonly=False, panels=panels, greeting=greeting)


def _panels(wire: Wire) -> Panels | None:
    """Ask the supervisor for its panels; `None` from one of an earlier version."""
    from rltui.core.experiment.questions import SupervisorApi

    try:
        return wire.request(SupervisorApi.panels)
    except RltuiError:
        return None


def show_readonly(record: ExperimentRecord) -> int:
    """Run the TUI to look only. Starts nothing.

    Raises:
        RltuiError: if no supervisor runs.
    """
    need_terminal()
    if not launch.has_supervisor(record):
        raise launch.not_running(record.name)
    return _run_supervised(record, readonly=True)


def show_run(id_: str) -> int:
    """Run the TUI on a run of the index: it is read from its files where nothing of it lives.

    Raises:
        RltuiError: if it is gone or damaged.
    """
    from rltui.client.local_runs import LocalRuns

    need_terminal()
    runs = LocalRuns()
    return _run_app(runs.open(id_), runs)


def show_runs(*, readonly: bool) -> int:
    from rltui.client.local_runs import LocalRuns

    need_terminal()
    return _run_app(None, LocalRuns(readonly=readonly))


def show_remote(host: RemoteMachine, name: str, *, readonly: bool) -> int:
    """Run the TUI here on what is there: the experiment or run called `name`; if empty, the one that
    lives, where it is just one, else all runs there.

    Raises:
        RltuiError: if it cannot be reached, or there is none of that name.
    """
    from rltui.client.transports.ssh import HostLink

    threading.Thread(target=_load_app).start()  # while the line is waited for
    link = HostLink(host)
    try:
        answer = link.open(
            lambda text: print(text, end="", file=sys.stderr, flush=True), name, readonly=readonly
        )
        from rltui.client.laptop.runs import RemoteRuns

        runs = RemoteRuns(link, readonly=readonly)
        return _show_app(runs.opened(answer.result()), runs, _settings())
    finally:
        link.close()


def _load_app() -> None:
    for name in ("rltui.client.laptop.runs", "rltui.ui.app"):
        import_module(name)


def need_terminal() -> None:
    """Refuse where no TUI can be shown; called before anything is made for it.

    Raises:
        UsageError: if there is no terminal, or it is one that rltui itself shows.
    """
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise UsageError(
            "the TUI needs a terminal",
            hint=f"without one use `{hints.UP}`, `{hints.STATUS}`, `{hints.LOGS_OF}`",
        )
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "the TUI cannot run in this terminal: TERM is dumb",
            hint=f"use another terminal, or `{hints.UP}`, `{hints.STATUS}`, `{hints.LOGS_OF}`; "
            "to try anyway: TERM=xterm-256color rltui",
        )
    if shell_of := os.environ.get("RLTUI_EXPERIMENT", "").partition("@")[0]:
        raise UsageError(
            f"this terminal belongs to {shell_of} and is already shown by rltui",
            hint="ctrl+b d leaves this terminal; in the TUI, 7 lists all runs; "
            f"commands such as `{hints.STATUS}` work here",
        )
    if Path(os.environ.get("TMUX", "").partition(",")[0]).name == paths.tmux_socket():
        raise UsageError(
            "the TUI cannot run inside rltui's own tmux server",
            hint="detach with ctrl+b d, then run rltui",
        )


def _run_supervised(
    record: ExperimentRecord, *, readonly: bool, panels: Panels | None = None, greeting: str = ""
) -> int:
    from rltui.client.local_experiment import LocalExperiment
    from rltui.client.local_runs import LocalRuns

    experiment = LocalExperiment(record, readonly=readonly, panels=panels)
    return _run_app(experiment, LocalRuns(readonly=readonly), greeting)


def _run_app(experiment: Experiment | None, runs: LocalRuns, greeting: str = "") -> int:
    """Run the TUI, with the runs of the machines that the settings name: those are reached once they are
    listed.
    """
    user_settings = _settings()
    if not user_settings.hosts:
        return _show_app(experiment, runs, user_settings, greeting)
    from rltui.client.laptop.runs import AllRuns, RemoteRuns
    from rltui.client.transports.remote_machine import configured
    from rltui.client.transports.ssh import HostLink

    links = [HostLink(configured(name, host)) for name, host in user_settings.hosts.items()]
    try:
        return _show_app(
            experiment,
            AllRuns(runs, [RemoteRuns(link, readonly=runs.readonly) for link in links]),
            user_settings,
            greeting,
        )
    finally:
        for link in links:
            link.close()


def _show_app(
    experiment: Experiment | None, runs: Runs, user_settings: TuiSettings, greeting: str = ""
) -> int:
    import asyncio

    from rich.console import Console

    from rltui.services.actor import introduce
    from rltui.services.installation import LoadedCode
    from rltui.ui.app import RltuiApp

    introduce("tui")
    keys, trouble = load_keys()
    app = RltuiApp(
        experiment,
        runs=runs,
        run_in_terminal=_in_terminal,
        tour=user_settings.tour,
        bell=user_settings.bell,
        osc9=user_settings.osc9,
        keys=keys,
        trouble=trouble,
        greeting=greeting,
        abilities=_abilities(),
        theme=user_settings.theme,
        code=LoadedCode(),
    )
    # Should the app crash, its words go the way of all output, where colours of its own would be cleaned too.
    app.error_console = Console(stderr=True, color_system=None, markup=False, highlight=False)
    asyncio.run(_run(app))
    return app.return_code or 0


def _in_terminal(argv: Sequence[str]) -> object:
    from rltui.services.processes import subprocesses  # 10 ms, which the first frame need not wait for

    return subprocesses.in_terminal(argv)


def _abilities() -> Abilities:
    from rltui.ui.terminal.abilities import abilities

    is_grey = isinstance(sys.stdout, CleanStream) and not sys.stdout.has_colours
    return abilities(os.environ, encoding=sys.stdout.encoding, is_grey=is_grey)


async def _run(app: RltuiApp) -> None:
    import asyncio

    asyncio.get_running_loop().call_later(_STARTED_S, _collect_garbage)
    await app.run_async()


def _collect_garbage() -> None:
    gc.freeze()
    gc.enable()


class TuiSettings(NamedTuple):
    """The settings of the TUI. The defaults are those of `Settings`, which need pydantic."""

    tour: bool = True
    bell: bool = True
    osc9: bool = False
    theme: str = "terminal"
    hosts: Mapping[str, HostSettings] = MappingProxyType({})


def load_keys() -> tuple[dict[str, str], str]:
    """Return the keymap of the settings and no text; or the default keys and what is wrong with the
    settings, without their folder: a line of 80 cells has to say the fault.
    """
    from rltui.ui import keymap

    path = paths.settings_file()
    try:
        return keymap.load(path, os.environ.get(KEYMAP_VARIABLE, "")), ""
    except ConfigError as error:
        return {}, str(error).replace(str(path), path.name, 1)


def _settings() -> TuiSettings:
    """Read the user's settings. Where there are none, or the file cannot be understood, the defaults hold:
    that must keep nobody out.
    """
    if not paths.settings_file().exists():
        return TuiSettings()
    from rltui import settings  # pydantic: 100 ms

    try:
        user = settings.load(paths.settings_file())
    except ConfigError as error:
        print(error, file=sys.stderr)
        return TuiSettings()
    return TuiSettings(user.tour, user.alerts.bell, user.alerts.osc9, user.theme, user.hosts)
