"""What a process costs: time, CPU over a span of time, memory."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.conftest import Box

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    rss_mb: float
    pss_mb: float
    """Pages shared with other processes count in part."""


def cpu_s(pid: int) -> float:
    """User and system time so far, of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def memory(pid: int) -> Memory:
    """Resident memory, in 10^6 bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    bytes_of = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":") for line in lines)}
    return Memory(bytes_of["Rss"] / 1e6, bytes_of["Pss"] / 1e6)


def cpu_percents(pids: list[int], seconds: float) -> list[float]:
    """Percent of a core that each took in the next `seconds`."""
    before = [cpu_s(pid) for pid in pids]
    started = time.monotonic()
    time.sleep(seconds)
    spent = time.monotonic() - started
    return [100 * (cpu_s(pid) - earlier) / spent for pid, earlier in zip(pids, before, strict=True)]


def middle(values: list[float]) -> float:
    return float(median(values))


def timed(box: Box, argv: list[str]) -> float:
    """Seconds that a command takes which must succeed."""
    started = time.monotonic()
    subprocess.run(argv, cwd=box.work, env=box.env, check=True, capture_output=True)
    return time.monotonic() - started
