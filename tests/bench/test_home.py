"""The runs screen where there is much to list: thousands of runs that have ended, and some that live."""

from __future__ import annotations

import os

import pytest
from tests.bench import experiments
from tests.bench.experiments import RLTUI
from tests.bench.table import Row
from tests.bench.terminal import BARE_APP, BARE_TEXT, opened
from tests.bench.usage import cpu_percents, cpu_s, memory, middle
from tests.conftest import Box
from tests.fakes.past_run import write_finished_run
from tests.waiting import retry_until

from rltui.services.runs import catalog
from rltui.services.runs.index import RunIndex

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

PAST = int(os.environ.get("BENCH_RUNS", "5000"))
LIVING = int(os.environ.get("BENCH_LIVING", "30"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "60"))
SETTLE_S = 10.0
RUNS = 5
BUDGET_S = 0.5
CPU_BUDGET = 1.0
SHOWN = "in total"


@pytest.fixture
def full(box: Box, monkeypatch: pytest.MonkeyPatch) -> Box:
    """The index knows all past runs, as after a first look at them."""
    for name, value in box.env.items():
        if name.startswith("XDG_"):
            monkeypatch.setenv(name, value)
    for number in range(PAST):
        write_finished_run(box.work / "past" / f"run-{number}", steps=20)
    catalog.catch_up(RunIndex())
    for number in range(LIVING):
        experiments.start(box, "sleeper.py", name=f"living-{number}")
    index = RunIndex()
    retry_until(
        lambda: sum(each.is_alive for each in index.fingerprinted_runs()) == LIVING,
        timeout_s=120,
        interval_s=0.5,
    )
    return box


def test_home_opens_at_once_and_rests(full: Box, table: list[Row]) -> None:
    """Beside a bare app of Textual, in turns with it."""
    home: list[float] = []
    bare: list[float] = []
    spent: list[float] = []
    cwd, env = full.work, full.env
    for _ in range(RUNS):
        with opened(RLTUI, SHOWN, cwd=cwd, env=env) as (terminal, seconds):
            home.append(seconds)
            spent.append(cpu_s(terminal.process.pid))
        with opened(BARE_APP, BARE_TEXT, cwd=cwd, env=env) as (_, seconds):
            bare.append(seconds)
    what = f"{PAST:,} runs, {LIVING} living"
    table.append(Row(f"home, {what}", middle(home), "s", "bare Textual app", middle(bare), BUDGET_S))
    table.append(Row("the same, CPU", middle(spent), "s"))
    with (
        opened(RLTUI, SHOWN, cwd=cwd, env=env) as (terminal, _),
        opened(BARE_APP, BARE_TEXT, cwd=cwd, env=env) as (other, _),
    ):
        cpu_percents([terminal.process.pid], SETTLE_S)
        idle, peer = cpu_percents([terminal.process.pid, other.process.pid], SECONDS)
        table.append(Row("home, idle CPU", idle, "%", "bare Textual app", peer, CPU_BUDGET))
        table.append(Row("home, memory", memory(terminal.process.pid).rss_mb, "MB"))
    assert middle(home) < 6 * middle(bare)
    assert idle < peer + 8
