"""Waiting for something that another process does, with a bound."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
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


def remove_at_once(folder: Path) -> None:
    """Delete a folder into which living processes write: one that is emptied in place may fill up again."""
    aside = folder.with_name(f"{folder.name}.gone")
    folder.rename(aside)
    shutil.rmtree(aside)
