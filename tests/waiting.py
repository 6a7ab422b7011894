"""Waiting for something that another process does, with a bound."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

T = TypeVar("T")


def retry_until(
    probe: Callable[[], T | Literal[False] | None], *, timeout_s: float = 10.0, interval_s: float = 0.02
) -> T:
    """The first true value of `probe`. One that costs much, such as a command, is asked more seldom.

    Raises:
        TimeoutError: It stayed false for `timeout_s`; names the last value.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        started_at = time.monotonic()
        value = probe()
        if value:
            return value
        if (now := time.monotonic()) > deadline:
            raise TimeoutError(f"still {value!r} after {timeout_s} s")
        time.sleep(max(interval_s, 2 * (now - started_at)))


@contextmanager
def ready_process(command: Sequence[str], ready: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has printed the line `ready`; it is waited for at the end."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{ready}\n"
        yield process


def remove_at_once(folder: Path) -> None:
    """Delete a folder into which living processes write: one that is emptied in place may fill up again."""
    aside = folder.with_name(f"{folder.name}.gone")
    folder.rename(aside)
    shutil.rmtree(aside)
