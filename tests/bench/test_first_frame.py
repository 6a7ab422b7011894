"""A running experiment with three huge logs is on the screen at once."""

from __future__ import annotations

import os
import shutil

import pytest
from tests.bench import experiments
from tests.bench.experiments import RLTUI, Running
from tests.bench.table import Row
from tests.bench.terminal import BARE_APP, BARE_TEXT, opened
from tests.bench.usage import cpu_s, memory, middle, timed
from tests.conftest import Box
from tests.waiting import retry_until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

LOG_BYTES = int(os.environ.get("BENCH_LOG_BYTES", 10**9))
SIZE = f"{LOG_BYTES / 1e9:g} GB"
RUNS = 7
BUDGET_S = 0.35
MOST = 3.0
"""Times a bare app, in CPU time."""
TUI_MEMORY_MB = 75.0


@pytest.fixture
def huge(box: Box) -> Running:
    if shutil.disk_usage(box.root).free < 4 * LOG_BYTES:
        pytest.skip("too little disk; set BENCH_LOG_BYTES")
    running = experiments.start(box, "filler.py", LOG_BYTES)
    retry_until(
        lambda: all(log.stat().st_size > LOG_BYTES for log in running.logs), timeout_s=600, interval_s=0.2
    )
    os.sync()  # writing back would slow whatever comes next
    return running


def test_huge_logs(huge: Running, table: list[Row]) -> None:
    measure_first_frame(huge, table)
    measure_search(huge, table)


def measure_first_frame(huge: Running, table: list[Row]) -> None:
    tui: list[float] = []
    bare: list[float] = []
    spent: list[float] = []
    spent_by_bare: list[float] = []
    resident = 0.0
    cwd, env = huge.box.work, huge.box.env
    for _ in range(RUNS):
        with opened(huge.tui, "inference", "logline", cwd=cwd, env=env) as (terminal, seconds):
            tui.append(seconds)
            spent.append(cpu_s(terminal.process.pid))
            resident = memory(terminal.process.pid).rss_mb
        with opened(BARE_APP, BARE_TEXT, cwd=cwd, env=env) as (terminal, seconds):
            bare.append(seconds)
            spent_by_bare.append(cpu_s(terminal.process.pid))
    row = Row(f"first frame, 3 × {SIZE}", middle(tui), "s", "bare Textual app", middle(bare), BUDGET_S)
    table.append(row)
    table.append(Row(f"TUI memory, 3 × {SIZE}", resident, "MB", budget=TUI_MEMORY_MB))
    cpu = Row(
        "the same, CPU",
        middle(spent),
        "s",
        "bare Textual app",
        middle(spent_by_bare),
        MOST * middle(spent_by_bare),
    )
    table.append(cpu)
    assert cpu.ratio is not None
    assert cpu.ratio < MOST


def measure_search(huge: Running, table: list[Row]) -> None:
    ours: list[float] = []
    grep: list[float] = []
    for _ in range(3):
        ours.append(timed(huge.box, [*RLTUI, "logs", "-c", "trainer", "--grep", "needle"]))
        grep.append(timed(huge.box, ["grep", "-c", "needle", str(huge.logs[-1])]))
    table.append(
        Row(f"search in {SIZE}", middle(ours), "s", "grep -c", middle(grep), budget=2 * middle(grep))
    )
