"""What a person wants to know of a process before ending it."""

from __future__ import annotations

import os
import time

from rltui.services.processes.identity import ProcessId, read_stat

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def age_s(process: ProcessId) -> float:
    """Seconds since it started, at least 0; right also after a suspend or a change of the clock."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - process.start / TICKS_PER_S)


def is_stopped(process: ProcessId) -> bool:
    """It was stopped, by SIGSTOP or ctrl+z, and does nothing until SIGCONT. False where it has ended."""
    stat = read_stat(process.pid)
    return stat is not None and stat.id == process and stat.state == "T"
