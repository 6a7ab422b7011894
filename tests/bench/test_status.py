"""Commands that only ask are run in loops: they cost little more than Python."""

from __future__ import annotations

import resource
import sys
from statistics import quantiles

import pytest
from tests.bench import experiments
from tests.bench.experiments import RLTUI
from tests.bench.table import Row
from tests.bench.usage import timed
from tests.conftest import Box

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

RUNS = 15
MOST = 8.0
"""Times a bare start of Python, in CPU time."""
RUNNING = (
    ("status", "--json"),
    ("status", "bench", "--json"),
    ("status", "--all"),
    ("knobs", "--json"),
    ("knobs",),
    ("diff",),
    ("events", "--json"),
    ("logs", "-c", "trainer", "--limit", "100"),
    ("gpus", "bench", "--json"),
)
STOPPED = (
    ("status", "--json"),
    ("status", "bench", "--json"),
    ("events", "--json"),
    ("logs", "-c", "trainer"),
)


def test_asking_beside_the_start_of_python(box: Box, table: list[Row]) -> None:
    experiments.start(box, "sleeper.py")
    rows = measured(box, RUNNING, "running")
    box.run("down", "bench")
    rows += measured(box, STOPPED, "stopped")
    table.extend(rows)
    assert not [row for row in rows if row.ratio is not None and row.ratio > MOST]


def measured(box: Box, commands: tuple[tuple[str, ...], ...], state: str) -> list[Row]:
    """In turns with the peer, so that both have the same neighbours."""
    python: list[float] = []
    spent: dict[tuple[str, ...], list[float]] = {command: [] for command in commands}
    for _ in range(RUNS):
        python.append(cpu_spent(box, [sys.executable, "-I", "-c", "pass"]))
        for command in commands:
            spent[command].append(cpu_spent(box, [*RLTUI, *command]))
    peer = low(python)
    return [
        Row(f"{' '.join(command)} ({state})", low(values), "s", "python -I -c pass", peer, MOST * peer)
        for command, values in spent.items()
    ]


def cpu_spent(box: Box, argv: list[str]) -> float:
    """User and system time of a command that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed(box, argv)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def low(values: list[float]) -> float:
    """The lower quartile: neighbours only ever add."""
    return quantiles(values, n=4)[0]
