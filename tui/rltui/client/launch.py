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
from rltui.services.supervisor_socket import find_socket

START_TIMEOUT_S = 15.0
POLL_S = 0.05
VANISHED_S = 3.0
"""A supervisor without a window has ended. Another may hold its place, and needs this long to be reachable
again where its socket was removed."""


def is_alive(record: ExperimentRecord) -> bool:
    """A supervisor answers, be it only that it cannot be spoken to."""
    try:
        Wire(find_socket(record)).close()
    except SupervisorGoneError:
        return False
    except RltuiError:  # another version, too many clients, or stopped
        return True
    return True


def has_something_to_adopt(record: ExperimentRecord) -> bool:
    """A component of it runs, or was about to run when its supervisor was killed."""
    from rltui.services import processes  # not needed while a supervisor answers
    from rltui.services.intent import IntentFile

    control = ControlFolder(Path(record.output_dir))
    attempts = map(processes.read_attempt, control.newest_attempts())
    return IntentFile(control.intent_file).read().is_unfinished or any(
        attempt is not None and (attempt.is_supervised or attempt.living_main is not None)
        for attempt in attempts
    )


def lives(record: ExperimentRecord) -> bool:
    """Something of it runs, its supervisor or a component, or is about to."""
    return is_alive(record) or has_something_to_adopt(record)


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
    alive = [record for record in records if lives(record)]
    candidates = alive or records
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise UsageError("there is no experiment yet", hint="start one: rltui up CONFIG.toml, or rltui demo")
    names = ", ".join(record.name for record in candidates)
    word = "alive" if alive else "known"
    raise UsageError(f"{len(candidates)} experiments are {word}: {names}", hint="say which one with -n NAME")


def connect(record: ExperimentRecord) -> Wire | None:
    """A connection to the supervisor of `record`; `None` where nothing of the experiment is alive.

    Where there is none but something to adopt, one is started.
    """
    try:
        return Wire(find_socket(record))
    except SupervisorGoneError:
        return reach(record) if has_something_to_adopt(record) else None


def reach(record: ExperimentRecord) -> Wire:
    """A connection to the supervisor of `record`, which is started where there is none."""
    try:
        return Wire(find_socket(record))
    except SupervisorGoneError:
        start_supervisor(record)
        return Wire(find_socket(record))


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
    seen = begun = time.monotonic()
    while not is_alive(record):
        last_words = _fatal_words(control.supervisor_log, log_start)
        now = time.monotonic()
        if any(window.name == SUPERVISOR_WINDOW and not window.dead for window in tmux.list_windows(session)):
            seen = now
        if last_words or now > begun + START_TIMEOUT_S or now > seen + VANISHED_S:
            raise RltuiError(
                "the supervisor did not start", details=last_words, hint=f"see {control.supervisor_log}"
            )
        time.sleep(POLL_S)


def not_running(name: str) -> RltuiError:
    """What a read-only client says where there is no supervisor."""
    return RltuiError(
        f"no supervisor of {name} runs, and a read-only client starts none",
        hint=f"read what is on disk: rltui status {name}; or start it: rltui -n {name}",
    )


def attach_command(record: ExperimentRecord, component: str, *, readonly: bool = False) -> list[str]:
    """The tmux command that shows a component's raw pane; `readonly`: without passing keys on to it.

    Raises:
        RltuiError: if there is no such window, with the reason and what to do instead.
    """
    from rltui.services.tmux_host import TmuxHost, session_name

    tmux, session = TmuxHost(paths.tmux_socket()), session_name(record.name)
    if all(window.name != component for window in tmux.list_windows(session)):
        raise _no_terminal(record, component)
    return tmux.attach_argv(session, component, readonly=readonly)


def _no_terminal(record: ExperimentRecord, component: str) -> RltuiError:
    from rltui.services import processes

    control = ControlFolder(Path(record.output_dir))
    attempts = control.attempts(component)
    if component == "supervisor":
        return RltuiError("the supervisor has no terminal", hint=f"read its log: {control.supervisor_log}")
    if not attempts:
        started = ", ".join(folder.parent.name for folder in control.newest_attempts()) or "nothing yet"
        return RltuiError(f"{component!r} has not been started in {record.name}", hint=f"started: {started}")
    attempt = processes.read_attempt(control.attempt_dir(component, attempts[-1]))
    logs = f"rltui logs {component} --name {record.name}"
    if attempt is not None and (attempt.is_supervised or attempt.living_main is not None):
        return RltuiError(
            f"the terminal of {component}'s attempt {attempts[-1]} is gone, {component} itself goes on",
            details=["the tmux server that held it was ended"],
            hint=f"follow its output: {logs} -f; its next start has a terminal again",
        )
    return RltuiError(
        f"{component} does not run, and the terminal of its attempt {attempts[-1]} is gone",
        hint=f"read what it printed: {logs}; or start it: rltui start {component}",
    )


def clear_away(record: ExperimentRecord) -> None:
    """Remove what an experiment of which nothing lives has left outside its folder: terminals and socket."""
    from rltui.services.tmux_host import TmuxHost, session_name

    TmuxHost(paths.tmux_socket()).kill_session(session_name(record.name))
    find_socket(record).unlink(missing_ok=True)


def _fatal_words(log: Path, start: int) -> list[str]:
    """The end of the log if the supervisor has died since `start`. Errors, as of a full disk, it survives."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    return lines[-12:] if any(" CRITICAL " in line for line in lines) else []


def refuse_if_alive(record: ExperimentRecord) -> None:
    """For commands that make an experiment anew.

    Raises:
        ConflictError: if it runs.
    """
    if lives(record):
        raise ConflictError(
            f"the experiment {record.name} is running in {record.output_dir}",
            hint=f"look at it: rltui -n {record.name}; end it: rltui down {record.name}; "
            "or choose another name and folder with -n and -o",
        )
