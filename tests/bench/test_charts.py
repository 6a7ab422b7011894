"""The metrics screen on 60 series of 10,000 steps, beside as many plots of textual-plot of far fewer."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.bench.table import Row
from tests.conftest import Box
from tests.house.walks import REPOSITORY

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

IDLE_S = os.environ.get("BENCH_SECONDS", "20")


def measured(box: Box, what: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.programs.charts", what, IDLE_S]
    done = subprocess.run(command, cwd=REPOSITORY, env=box.env, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_the_metrics_screen(box: Box, table: list[Row]) -> None:
    ours, peer = measured(box, "screen"), measured(box, "plots")
    beside = "textual-plot"
    rows = [
        Row("metrics screen, first opened", ours["open_s"], "s", beside, peer["open_s"], 0.5),
        Row("… all charts drawn", 1000 * ours["draw_s"], "ms", beside, 1000 * peer["draw_s"], 100.0),
    ]
    table += rows
    table.append(Row("… its CPU time, whatever else runs", ours["open_cpu_s"], "s", budget=0.5))
    table.append(Row("… idle CPU", ours["idle_percent"], "%", budget=3.0))
    table.append(Row("… CPU with a step a second", ours["growing_percent"], "%", budget=3.0))
    assert ours["charts"] == 16
    for row in rows:
        assert row.ratio is not None
        assert row.ratio < 3, row.what
    assert ours["idle_percent"] < 3
