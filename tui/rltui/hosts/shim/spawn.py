# ruff: noqa: PTH103, PTH108, PTH118, PTH120, PTH123
"""The attempt that `spec.json` describes, as the supervisor wrote it, and how its component is started."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import stat
import termios

TYPE_CHECKING = False  # the one of `typing`, which costs a megabyte
if TYPE_CHECKING:
    from typing import Any


_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
"""Mode bits that let anybody but the owner write."""


class ForeignFileError(Exception):
    """The file cannot be the user's own; the text says why."""


def read_own(path: str) -> dict[str, Any]:
    """The JSON object in a file of rltui's own, which decides what is run.

    The little of `services/own_files.py` that a shim needs, without its imports.

    Raises:
        OSError, ValueError: if it cannot be read or is no JSON.
        ForeignFileError: if it is a link, another user's, or one that others may write to.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise ForeignFileError("not a regular file")
        if info.st_uid not in (os.getuid(), 0) or info.st_mode & _WRITABLE_BY_OTHERS:
            new_file = _new_file_stat(os.path.dirname(path))
            if info.st_uid not in (os.getuid(), 0, new_file.st_uid):
                raise ForeignFileError(f"it belongs to another user, uid {info.st_uid}")
            if info.st_mode & _WRITABLE_BY_OTHERS & ~new_file.st_mode:
                raise ForeignFileError("other users may write to it")
        values: dict[str, Any] = json.load(file)
        return values


def _new_file_stat(folder: str) -> os.stat_result:
    """Owner and mode of a private file made in `folder`: some file systems give all files the same ones."""
    path = os.path.join(folder, f"own.{os.getpid()}")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)
        os.unlink(path)


class Spec:
    def __init__(self, values: dict[str, Any]) -> None:
        """Raises TypeError, ValueError or LookupError where the values are no spec."""
        self.experiment: str = values["experiment"]
        self.component: str = values["component"]
        self.attempt: int = values["attempt"]
        self.argv: list[str] = list(values["argv"])
        if not self.argv:
            raise ValueError("argv is empty")
        names = ("experiment", "component", "attempt")
        self.tags: dict[str, str] = {f"RLTUI_{name.upper()}": str(values[name]) for name in names}
        """Variables by which its processes are known."""
        self.cwd = str(values["cwd"])
        self.log = str(values["log"])
        self.env: dict[str, str | None] = dict(values["env"])
        """Variables added to the shim's own environment; None removes one."""
        self.shell: dict[str, Any] = dict(values.get("shell") or {})
        """Limits, umask and environment of the user's shell, for `apply_shell`; empty where a supervisor from
        before an upgrade wrote it.
        """
        self.tty: bool = values.get("tty", False)
        """True if it gets a terminal of its own, in which a person may type."""
        stop = values["stop"]
        self.stop_signal = signal.Signals[stop["signal"]]
        self.stop_grace_s = float(stop["grace_s"])
        repeat_s = stop.get("again_s")
        self.stop_repeat_s: float | None = None if repeat_s is None else float(repeat_s)
        """Seconds after which the signal is sent once more; `None`: it is not."""
        leftovers = stop.get("leftovers", "end")
        if leftovers not in ("end", "keep"):
            raise ValueError(f"stop.leftovers is {leftovers!r}, not 'end' or 'keep'")
        self.keeps_leftovers: bool = leftovers == "keep"
        """True if processes that outlive a main process which ended by itself stay until a stop is asked for.
        """


def apply_shell(shell: dict[str, Any]) -> list[str]:
    """Take over limits, CPUs, umask and nice value of the user's shell, in the child that will be the
    component.

    Returns a sentence for each that the system refused.
    """
    try:
        return _apply_shell(shell)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:  # somebody wrote in the spec
        return [f"invalid limits ({error})"]


def _apply_shell(shell: dict[str, Any]) -> list[str]:
    problems = []
    for name, (soft, hard) in shell.get("limits", {}).items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None and not _set_limit(number, soft, hard):
            current_limit = resource.getrlimit(number)[0]
            problems.append(
                f"the limit {name} is {current_limit} instead of {soft}: the tmux server allows no more"
            )
    if cpus := shell.get("affinity"):
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:  # not one of them is there any more
            problems.append(f"it runs on the CPUs {sorted(os.sched_getaffinity(0))} instead of {cpus}")
    if (umask := shell.get("umask")) is not None:
        os.umask(umask)
    nice = shell.get("nice")
    if nice is not None and nice != os.getpriority(os.PRIO_PROCESS, 0):
        try:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        except OSError:
            problems.append(f"its nice value is {os.getpriority(os.PRIO_PROCESS, 0)} instead of {nice}")
    return problems


def _set_limit(number: int, soft: int, hard: int) -> bool:
    """Set a limit as far as the hard limit allows, which only root raises. False where `soft` was cut."""
    if resource.getrlimit(number) == (soft, hard):
        return True
    try:
        resource.setrlimit(number, (soft, hard))
    except (OSError, ValueError):
        allowed = resource.getrlimit(number)[1]
        fits = allowed == resource.RLIM_INFINITY or 0 <= soft <= allowed
        resource.setrlimit(number, (soft if fits else allowed, allowed))
        return fits
    return True


CANNOT_RUN = 127
"""Exit code of a component that could not be started, as in shells."""
_FORK_PROBLEMS = {
    errno.EAGAIN: "the process limit is reached (ulimit -u, or the container's)",
    errno.ENOMEM: "not enough memory for another process",
}
"""Errors of `fork(2)` whose own texts say too little."""


class CannotRunError(Exception):
    """The component could not be started; the text says why."""


def open_log(path: str) -> int:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise CannotRunError(f"cannot open log {path!r}: {error.strerror}") from None


def spawn(spec: Spec, log: int, *, terminal: int | None = None) -> int:
    """Start the component in its own session, on `log` or in `terminal`, and return its pid once it runs.

    Raises:
        CannotRunError: Its program or folder cannot be used, or the system has no room for a process.
            A child that was made is left to be reaped.
    """
    try:
        error_reader, error_writer = os.pipe()  # closed by a successful exec
        pid = os.fork()
    except OSError as error:
        reason = _FORK_PROBLEMS.get(error.errno or 0, error.strerror)
        raise CannotRunError(f"cannot start {spec.argv[0]!r}: {reason}") from None
    if pid == 0:
        _exec_component(spec, log, terminal, error_writer)
    os.close(error_writer)
    with os.fdopen(error_reader, "rb") as pipe:
        problem = pipe.read().decode()
    if problem:
        raise CannotRunError(problem)
    return pid


def _exec_component(spec: Spec, log: int, terminal: int | None, error_writer: int) -> None:
    """Turn the forked child into the component. Does not return."""
    action = f"enter {spec.cwd!r}"
    try:
        os.setsid()
        os.chdir(spec.cwd)
        action = f"run {spec.argv[0]!r}"
        if terminal is not None:
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY) if terminal is None else terminal, 0)
        os.dup2(log if terminal is None else terminal, 1)
        os.dup2(1, 2)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for problem in apply_shell(spec.shell):
            os.write(2, f"rltui: {problem}\n".encode())
        environment = {**os.environ, **spec.shell.get("environment", {})}
        for name, value in spec.env.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        if spec.tty:  # a person who types `tmux` there does not mean rltui's own server
            environment.pop("TMUX", None)
            environment.pop("TMUX_PANE", None)
        environment |= spec.tags
        os.execvpe(spec.argv[0], spec.argv, environment)  # noqa: S606 - no shell
    except OSError as error:
        os.write(error_writer, f"cannot {action}: {error.strerror}".encode())
    except ValueError as error:  # a NUL in an argument
        os.write(error_writer, f"cannot {action}: {error}".encode())
    finally:
        os._exit(CANNOT_RUN)
