"""Processes that hold device memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import retry_until

PROGRAMS = Path(__file__).with_name("programs")
Hold = Callable[[int], int]
"""Takes bytes, returns the pid of the process that has them."""


@contextmanager
def holders(folder: Path) -> Iterator[Hold]:
    """Those that were started are gone in the end."""
    started: list[subprocess.Popen[bytes]] = []

    def hold(size_bytes: int) -> int:
        file = folder / f"holder-{len(started)}"
        process = subprocess.Popen([sys.executable, PROGRAMS / "holder.py", str(size_bytes), file])
        started.append(process)

        def has_it() -> bool:
            assert process.poll() is None, "the holder did not get its memory"
            return file.exists()

        retry_until(has_it, timeout_s=60, interval_s=0.1)
        return process.pid

    try:
        yield hold
    finally:
        for process in started:
            process.kill()
            process.wait()
