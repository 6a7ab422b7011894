"""`rltui status` is run in loops: it costs little more than Python."""

from __future__ import annotations

import sys

import pytest
from tests.bench import experiments
from tests.bench.experiments import RLTUI
from tests.bench.table import Row
from tests.bench.usage import middle, timed
from tests.conftest import Box

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

RUNS = 21
BUDGET_S = 0.12


def test_status_beside_the_start_of_python(box: Box, table: list[Row]) -> None:
    experiments.start(box, "sleeper.py")
    status: list[float] = []
    python: list[float] = []
    for _ in range(RUNS):
        status.append(timed(box, [*RLTUI, "status", "--json"]))
        python.append(timed(box, [sys.executable, "-c", "pass"]))
    row = Row("status --json", middle(status), "s", "python -c pass", middle(python), BUDGET_S)
    table.append(row)
    assert row.ratio is not None
    assert row.ratio < 12
