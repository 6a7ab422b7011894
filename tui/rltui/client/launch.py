"""Find experiments, and see to it that the one asked for has a supervisor."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rltui import paths
from rltui.base.interpreter import module_command
from rltui.client.last_status import saved_status
from rltui.client.transports.unix import CONNECT_TIMEOUT_S, SupervisorGoneError, Wire
from rltui.core import hints
from rltui.errors import ConfigError, ConflictError, RltuiError
from rltui.services.experiment.files import ControlFolder, ExperimentRecord
from rltui.services.experiment.registry import (
    find_experiment,
    find_socket,
    known_experiments,
    names_with_socket,
)
from rltui.services.own_files import entry_names

_START_TIMEOUT_S = 15.0
_POLL_S = 0.05
_REOPEN_S = 0.5
"""After this time without a window another is opened, once."""
_VANISHED_S = 3.0
"""A supervisor without a window has ended. Another may hold its place, and needs this long to be reachable
again where its socket was removed."""


def has_supervisor(record: ExperimentRecord) -> bool:
    """A supervisor listens, whether it answers or not: it may be stopped, or of another version."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.settimeout(CONNECT_TIMEOUT_S)
    with listener:
        try:
            listener.connect(str(find_socket(record)))
        except TimeoutError:  # stopped, and more clients wait for it than the system lets
            return True
        except OSError:
            return False
    return True


def _has_something_to_adopt(record: ExperimentRecord) -> bool:
    """A component of it runs, or was about to run when its supervisor was killed."""
    return saved_status(record) is None and _has_traces(record)


def _has_traces(record: ExperimentRecord) -> bool:
    from rltui.services import processes  # not needed while a supervisor answers
    from rltui.services.experiment.intent import IntentFile

    control = record.control
    attempts = processes.ProcessOwners().records(control.newest_attempts(), record.tag)
    if not control.record_file.exists() and record.output_dir in processes.living_output_dirs():
        return True  # its folder was deleted, and what runs has not brought its own back yet
    return IntentFile(control.intent_file).read().is_unfinished or any(
        attempt.is_alive for attempt in attempts
    )


def is_running(record: ExperimentRecord) -> bool:
    """A component of it is not stopped; a supervisor alone is nothing. An observed run: it is looked at."""
    try:
        wire = Wire(find_socket(record), timeout_s=1.0)
    except SupervisorGoneError:
        return _has_something_to_adopt(record)
    except RltuiError:  # another version, too many clients, or stopped: better not taken for dead
        return True
    with wire:
        if record.observed:
            return True
        try:
            status = wire.call("status", timeout_s=CONNECT_TIMEOUT_S)
        except SupervisorGoneError:
            return _has_something_to_adopt(record)
        except RltuiError:
            return True
        return status["alive"] or status["transaction"] is not None


def running_experiments(records: Iterable[ExperimentRecord], *, idle: bool = False) -> list[ExperimentRecord]:
    """Running experiments, by one scan of this machine's processes; of stopped ones hardly anything is read.

    `idle`: also those whose supervisor has nothing to do.
    """
    return [
        record
        for record in with_processes(records)
        if is_running(record) or (idle and has_supervisor(record))
    ]


def with_processes(records: Iterable[ExperimentRecord]) -> list[ExperimentRecord]:
    """Return the experiments that have a process or a socket; their supervisors are not asked."""
    from rltui.services.processes import living_output_dirs  # not needed where one is named

    folders = living_output_dirs()
    sockets = {name for folder in paths.socket_dirs() for name in entry_names(folder)}
    return [
        record
        for record in records
        if record.output_dir in folders or paths.socket_name(record.name, record.output_dir) in sockets
    ]


def choose(name: str) -> ExperimentRecord:
    """The experiment called `name`.

    Raises:
        UsageError: if there is none.
    """
    record = find_experiment(name)
    if record is None:
        from rltui.base.text import unknown_name

        raise unknown_name("experiment", name, [experiment.name for experiment in known_experiments()])
    return record


def only_running() -> ExperimentRecord | None:
    """The experiment of which something lives, where it is just one.

    Only those are asked that have a socket, or that the index says run: a list of thousands costs no more
    than a short one.
    """
    from rltui.services.runs.index import BRIEF_TIMEOUT_S, RunIndex

    names = {*names_with_socket()}
    with contextlib.suppress(RltuiError):  # without an index, the sockets tell
        names.update(RunIndex(timeout_s=BRIEF_TIMEOUT_S).living_names())
    living_records: list[ExperimentRecord] = []
    for name in sorted(names):
        with contextlib.suppress(RltuiError):  # a damaged one: the runs screen lists it
            record = find_experiment(name)
            if record is not None and is_running(record):
                living_records.append(record)
        if len(living_records) > 1:
            return None
    return living_records[0] if living_records else None


def connect(record: ExperimentRecord, *, timeout_s: float = CONNECT_TIMEOUT_S) -> Wire | None:
    """A connection to the supervisor of `record`; `None` where nothing of the experiment is alive.

    Where there is none but something to adopt, one is started, and one that is outdated is replaced.
    `timeout_s`: for one that does not answer.
    """
    connection = wire_or_status(record, timeout_s=timeout_s)
    return connection if isinstance(connection, Wire) else None


@contextlib.contextmanager
def connected(record: ExperimentRecord) -> Iterator[Wire | None]:
    """Yield the connection of `connect` and close it afterwards."""
    with connect(record) or contextlib.nullcontext() as wire:
        yield wire


def wire_or_status(
    record: ExperimentRecord, *, timeout_s: float = CONNECT_TIMEOUT_S
) -> Wire | dict[str, Any] | None:
    """Connect like `connect`; if nothing runs, the saved status, if it is still valid."""
    try:
        return _up_to_date(record, Wire(find_socket(record), timeout_s=timeout_s))
    except SupervisorGoneError:
        if (status := saved_status(record)) is not None:
            if paths.queue_file().exists():
                from rltui.services.runs.queue_states import (
                    status_beside_queue,  # knows runs: only with a queue
                )

                status = status_beside_queue(record, status)
            return status
        return connect_or_start(record) if _has_traces(record) else None


def connect_or_start(record: ExperimentRecord) -> Wire:
    try:
        return _up_to_date(record, Wire(find_socket(record)))
    except SupervisorGoneError:
        return _start(record)


def _up_to_date(record: ExperimentRecord, wire: Wire) -> Wire:
    """Return the connection, or one to a new supervisor that takes over from an outdated one."""
    if not wire.is_outdated or not wire.end_supervisor():
        return wire
    wire.close()
    return _start(record)


def _start(record: ExperimentRecord) -> Wire:
    start_supervisor(record)
    return Wire(find_socket(record))


def start_supervisor(record: ExperimentRecord) -> None:
    """Start a supervisor in window 0 of the experiment's tmux session and wait until it answers.

    Raises:
        RltuiError: if tmux is missing or too old, or the supervisor dies; its last words are in the details.
    """
    # Here, since libtmux takes 0.1 s to import.
    from rltui.services.experiment.shell import make_room_for_files
    from rltui.services.tmux import SUPERVISOR_WINDOW, TmuxHost

    tmux = TmuxHost(paths.tmux_socket())
    tmux.check()
    make_room_for_files()
    paths.socket_path(record.name, record.output_dir)  # says what is wrong, where a supervisor could only die
    control = record.control
    _bring_back(control, record)
    log_start = control.supervisor_log.stat().st_size if control.supervisor_log.exists() else 0
    session = paths.tmux_session(record.name)
    argv = module_command("rltui.supervisor", record.output_dir)

    def open_window() -> None:
        # Of several clients that come at once, all but the first are refused here, and wait like it.
        with contextlib.suppress(ConflictError):
            if tmux.has_session(session):
                tmux.start_window(session, SUPERVISOR_WINDOW, argv, cwd=record.workspace)
            else:
                tmux.start_supervisor(session, argv, cwd=record.workspace, env={})

    open_window()
    last_change = started_at = time.monotonic()
    is_second_window = False
    while not has_supervisor(record):
        fatal_error = _fatal_error(control.supervisor_log, log_start)
        now = time.monotonic()
        if any(window.name == SUPERVISOR_WINDOW and not window.dead for window in tmux.list_windows(session)):
            last_change = now
        elif not is_second_window and now > last_change + _REOPEN_S:  # the one that we met was about to leave
            is_second_window = True
            open_window()
        if fatal_error or now > started_at + _START_TIMEOUT_S or now > last_change + _VANISHED_S:
            raise RltuiError(
                "the supervisor did not start", details=fatal_error, hint=f"see {control.supervisor_log}"
            )
        time.sleep(_POLL_S)


def _bring_back(control: ControlFolder, record: ExperimentRecord) -> None:
    """Write what a supervisor needs to start: its folder may have been deleted, or its record damaged."""
    try:
        has_record = control.read_record() is not None
    except ConfigError:
        has_record = False
    if not has_record:
        control.write_record(record)


def not_running(name: str) -> RltuiError:
    return RltuiError(
        f"{name} has no supervisor, and a read-only client does not start one",
        hint=f"read its files: {hints.STATUS(name=name)}; or start it: {hints.OPEN(opened=name)}",
        code="read_only",
    )


def attach_command(record: ExperimentRecord, component: str, *, readonly: bool = False) -> list[str]:
    """The tmux command that shows a component's raw pane; `readonly`: without passing keys on to it.

    Raises:
        RltuiError: if there is no such window, with the reason and what to do instead.
    """
    from rltui.services.tmux import TmuxHost

    tmux, session = TmuxHost(paths.tmux_socket()), paths.tmux_session(record.name)
    if all(window.name != component for window in tmux.list_windows(session)):
        raise _no_terminal(record, component)
    return tmux.attach_argv(session, component, readonly=readonly)


def _no_terminal(record: ExperimentRecord, component: str) -> RltuiError:
    from rltui.services import processes

    control = record.control
    attempts = control.attempts(component)
    if component == "supervisor":
        return RltuiError("the supervisor has no terminal", hint=f"read its log: {control.supervisor_log}")
    if not attempts:
        from rltui.base.text import unknown_name
        from rltui.services.experiment import layout_files

        component_ids = [spec.id for spec in layout_files.load_for(record).component]
        if component not in component_ids:
            return unknown_name("component", component, [*component_ids, "supervisor"])
        started_components = (
            ", ".join(folder.parent.name for folder in control.newest_attempts()) or "nothing yet"
        )
        return RltuiError(
            f"{component!r} has not been started in {record.name}", hint=f"started: {started_components}"
        )
    attempt = processes.read_attempt(control.attempt_dir(component, attempts[-1]))
    logs = hints.LOGS(component=component, name=record.name)
    if attempt is not None and attempt.is_alive:
        return RltuiError(
            f"the terminal of {component}'s attempt {attempts[-1]} is gone; {component} itself keeps running",
            details=["its tmux server was ended"],
            hint=f"follow its output: {logs} -f; its next start gets a new terminal",
        )
    start = hints.START(component=component, name=record.name)
    return RltuiError(
        f"{component} is not running, and the terminal of its attempt {attempts[-1]} is gone",
        hint=f"read what it printed: {logs}; or start it: {start}",
    )


def clear_away(record: ExperimentRecord) -> None:
    """Remove what an experiment of which nothing lives has left outside its folder: terminals and socket."""
    from rltui.services.tmux import TmuxHost

    TmuxHost(paths.tmux_socket()).kill_session(paths.tmux_session(record.name))
    find_socket(record).unlink(missing_ok=True)


def _fatal_error(log: Path, start: int) -> list[str]:
    """The end of the log if the supervisor has died since `start`. Errors, as of a full disk, it survives."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
    return lines[-12:] if any(" CRITICAL " in line for line in lines) else []


def already_running(record: ExperimentRecord) -> ConflictError:
    """The error of a command that would create a running experiment again."""
    return ConflictError(
        f"the experiment {record.name} is running in {record.output_dir}",
        hint=(
            f"open it: {hints.OPEN(opened=record.name)}; end it: {hints.DOWN(name=record.name)}; or"
            " choose another name and folder with -n and -o"
        ),
    )
