"""Find experiments, and see to it that the one asked for has a supervisor."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

from rltui import paths
from rltui.client.wire import SupervisorGoneError, Wire
from rltui.errors import ConflictError, RltuiError, UsageError
from rltui.services.experiment_files import (
    ControlFolder,
    ExperimentRecord,
    find_experiment,
    known_experiments,
)

START_TIMEOUT_S = 15.0
POLL_S = 0.02


def is_alive(record: ExperimentRecord) -> bool:
    """A supervisor answers."""
    try:
        Wire(paths.socket_path(record.name)).close()
    except SupervisorGoneError:
        return False
    return True


def has_living_components(record: ExperimentRecord) -> bool:
    """A component of it runs, with or without a supervisor."""
    from rltui.services import processes  # not needed while a supervisor answers

    control = ControlFolder(Path(record.output_dir))
    folder = control.path / "components"
    for entry in folder.iterdir() if folder.is_dir() else ():
        attempts = control.attempts(entry.name)
        attempt = processes.read_attempt(control.attempt_dir(entry.name, attempts[-1])) if attempts else None
        if attempt is not None and (attempt.is_supervised or attempt.living_main is not None):
            return True
    return False


def choose(name: str | None) -> ExperimentRecord:
    """The experiment called `name`, or the only one alive, or the only one there is.

    Raises:
        UsageError: if there is none, or the choice is not clear.
    """
    if name is not None:
        record = find_experiment(name)
        if record is None:
            known = ", ".join(other.name for other in known_experiments()) or "none"
            raise UsageError(f"no experiment called {name!r}", hint=f"known: {known}; see `rltui ls`")
        return record
    records = known_experiments()
    alive = [record for record in records if is_alive(record) or has_living_components(record)]
    candidates = alive or records
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise UsageError("there is no experiment yet", hint="start one: rltui up CONFIG.toml, or rltui demo")
    names = ", ".join(record.name for record in candidates)
    word = "alive" if alive else "known"
    raise UsageError(f"{len(candidates)} experiments are {word}: {names}", hint="say which one with -n NAME")


def connect(record: ExperimentRecord, *, start: bool = False) -> Wire | None:
    """A connection to the supervisor of `record`.

    Where there is none but components live, or `start` is set, one is started and adopts them.
    `None` where nothing of the experiment is alive.
    """
    try:
        return Wire(paths.socket_path(record.name))
    except SupervisorGoneError:
        if not start and not has_living_components(record):
            return None
    start_supervisor(record)
    return Wire(paths.socket_path(record.name))


def start_supervisor(record: ExperimentRecord) -> None:
    """Start a supervisor in window 0 of the experiment's tmux session and wait until it answers.

    Raises:
        RltuiError: if tmux is missing or too old, or the supervisor dies; its last words are in the details.
    """
    # Here, since libtmux takes 0.1 s to import.
    from rltui.services.tmux_host import SUPERVISOR_WINDOW, TmuxHost, session_name

    tmux = TmuxHost(paths.tmux_socket())
    tmux.check()
    control = ControlFolder(Path(record.output_dir))
    log_start = control.supervisor_log.stat().st_size if control.supervisor_log.exists() else 0
    session = session_name(record.name)
    argv = [sys.executable, "-m", "rltui.daemon", record.output_dir]
    # Of several clients that come at once, all but the first are refused here, and wait like it.
    with contextlib.suppress(ConflictError):
        if tmux.has_session(session):
            tmux.start_window(session, SUPERVISOR_WINDOW, argv, cwd=record.workspace)
        else:
            tmux.start_supervisor(session, argv, cwd=record.workspace, env={})
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_alive(record):
        last_words = _log_errors(control.supervisor_log, log_start)
        if last_words or time.monotonic() > deadline:
            raise RltuiError(
                "the supervisor did not start", details=last_words, hint=f"see {control.supervisor_log}"
            )
        time.sleep(POLL_S)


def attach_command(record: ExperimentRecord, component: str) -> list[str]:
    """The tmux command that shows a component's raw pane.

    Raises:
        RltuiError: if there is no such window.
    """
    from rltui.services.tmux_host import TmuxHost, session_name

    return TmuxHost(paths.tmux_socket()).attach_argv(session_name(record.name), component)


def _log_errors(log: Path, start: int) -> list[str]:
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    return lines[-12:] if any(" ERROR " in line for line in lines) else []


def refuse_if_alive(record: ExperimentRecord) -> None:
    """For commands that make an experiment anew.

    Raises:
        ConflictError: if it runs.
    """
    if is_alive(record) or has_living_components(record):
        raise ConflictError(
            f"the experiment {record.name} is running in {record.output_dir}",
            hint=f"look at it: rltui -n {record.name}; end it: rltui down {record.name}; "
            "or choose another name and folder with -n and -o",
        )
