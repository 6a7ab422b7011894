"""Shifts the clocks of every Python in a box by two numbers in the file `$FAULT_CLOCK`: wall, monotonic.

Both are doubles, in seconds, and may change at any time. Found through `PYTHONPATH`; a shim, which runs
isolated (`-I -S`), keeps the real clocks.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path


def _shifted(real: Callable[[], float], shifts: mmap.mmap, which: int) -> Callable[[], float]:
    return lambda: real() + struct.unpack_from("dd", shifts)[which]


if "FAULT_CLOCK" in os.environ:
    with Path(os.environ["FAULT_CLOCK"]).open("rb") as file:
        shifts = mmap.mmap(file.fileno(), 16, access=mmap.ACCESS_READ)
    time.time = _shifted(time.time, shifts, 0)
    time.monotonic = _shifted(time.monotonic, shifts, 1)
