# ruff: noqa: PTH103, PTH120
"""From the spec to a running component."""

from __future__ import annotations

import errno
import os
import signal

from rltui.daemon.shim.limits import take_over
from rltui.daemon.shim.spec import Spec

CANNOT_RUN = 127
"""Exit code of a component that could not be started, as shells have it."""


FORK_PROBLEMS = {
    errno.EAGAIN: "the limit of processes is reached (ulimit -u, or the container's)",
    errno.ENOMEM: "not enough memory for another process",
}
"""The ends of `fork(2)` that say too little in their own words."""


class CannotRunError(Exception):
    """The component could not be started; the text says why."""


def component_environment(spec: Spec) -> dict[str, str]:
    """The shim's own, with what tmux did not pass on, and the additions and removals of the spec."""
    environment = {**os.environ, **spec.shell.get("environment", {})}
    for name, value in spec.env.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    environment["RLTUI_EXPERIMENT"] = spec.experiment
    environment["RLTUI_COMPONENT"] = spec.component
    environment["RLTUI_ATTEMPT"] = str(spec.attempt)
    return environment


def open_log(path: str) -> int:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise CannotRunError(f"cannot open log {path!r}: {error.strerror}") from None


def spawn(spec: Spec, log: int) -> int:
    """Start the component in its own session and return its pid once it runs.

    Raises:
        CannotRunError: Its program or folder cannot be used, or the system has no room for a process.
            A child that was made is left to be reaped.
    """
    try:
        failed, failure = os.pipe()  # closed by a successful exec
        pid = os.fork()
    except OSError as error:
        reason = FORK_PROBLEMS.get(error.errno or 0, error.strerror)
        raise CannotRunError(f"cannot start {spec.argv[0]!r}: {reason}") from None
    if pid == 0:
        _become(spec, log, failure)
    os.close(failure)
    with os.fdopen(failed, "rb") as pipe:
        problem = pipe.read().decode()
    if problem:
        raise CannotRunError(problem)
    return pid


def _become(spec: Spec, log: int, failure: int) -> None:
    """Turn the forked child into the component. Does not return."""
    doing = f"enter {spec.cwd!r}"
    try:
        os.setsid()
        os.chdir(spec.cwd)
        doing = f"run {spec.argv[0]!r}"
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for problem in take_over(spec.shell):
            os.write(log, f"rltui: {problem}\n".encode())
        os.execvpe(spec.argv[0], spec.argv, component_environment(spec))  # noqa: S606 - no shell
    except OSError as error:
        os.write(failure, f"cannot {doing}: {error.strerror}".encode())
    except ValueError as error:  # a NUL in an argument
        os.write(failure, f"cannot {doing}: {error}".encode())
    finally:
        os._exit(CANNOT_RUN)
