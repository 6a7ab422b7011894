"""A killed supervisor is replaced by the next client, which sees all components again."""

from __future__ import annotations

import os
import signal
import time

import pytest
from tests.bench import experiments
from tests.bench.experiments import Running
from tests.bench.table import Row
from tests.bench.usage import middle
from tests.conftest import Box

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

RUNS = 7
BUDGET_S = 1.0


def test_adoption_after_a_killed_supervisor(box: Box, table: list[Row]) -> None:
    running = experiments.start(box, "sleeper.py")
    adoption: list[float] = []
    plain: list[float] = []
    for _ in range(RUNS):
        killed = running.supervisor
        os.kill(killed, signal.SIGKILL)
        adoption.append(until_ready(running))
        assert running.supervisor != killed
        plain.append(until_ready(running))
    row = Row("adoption, kill to all ready", middle(adoption), "s", "status --json", middle(plain), BUDGET_S)
    table.append(row)
    assert row.ratio is not None
    assert row.ratio < 25


def until_ready(running: Running) -> float:
    """Seconds until a status says that all is well."""
    started = time.monotonic()
    while True:
        components = running.box.status()["components"]
        if {item["state"] for item in components} == {"ready"}:
            return time.monotonic() - started
