"""The system calls of a write, of which one is the last that is made, or fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

import pytest

CALLS = (
    "access",
    "stat",
    "fchmod",
    "fsync",
    "open",
    "close",
    "rename",
    "replace",
    "unlink",
    "pread",
)
"""By their names in `os`."""


def instead_of_call(
    monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[..., None], names: Iterable[str] = CALLS
) -> list[str]:
    """Do `act(name, call, *arguments)` before the n-th of these calls. Returns the names of those that were
    made, which grows.
    """
    made: list[str] = []

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            made.append(name)
            if len(made) == number:
                act(name, call, *args)
            return call(*args, **kwargs)

        return wrapper

    for name in names:
        monkeypatch.setattr(os, name, counted(name, getattr(os, name)))
    return made


def die(name: str, call: Callable[..., Any], *args: Any) -> None:
    """A write is cut short."""
    if name == "pwrite":
        call(args[0], args[1][:20], args[2])
    os.kill(os.getpid(), signal.SIGKILL)


def is_killed(work: Callable[[], object]) -> bool:
    """Do it in a process of its own; False if that comes to its end."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)
