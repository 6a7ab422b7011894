"""Thousands of runs that have ended: the first look at their folders, and lists of them after that."""

from __future__ import annotations

import os
import resource
import subprocess
import time

import pytest
from tests.bench.experiments import RLTUI
from tests.bench.table import Row
from tests.bench.usage import middle
from tests.conftest import Box
from tests.fakes.past_run import write_finished_run

from rltui.services.experiment.files import ExperimentRecord
from rltui.services.runs import catalog
from rltui.services.runs.index import RunIndex

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

PAST = int(os.environ.get("BENCH_RUNS", "5000"))
TRIES = 5
FIRST_LOOK_S, LIST_S = 0.002, 0.5
LISTS = (["runs"], ["runs", "--limit", "20"], ["runs", "reward > 0.5", "--limit", "20"], ["status"])


def _with_own_config(record: ExperimentRecord, number: int) -> None:
    """Another learning rate in each run: no two have one config."""
    for path in (*record.config_paths, *record.control.path.rglob("rl.toml")):
        path.write_text(path.read_text().replace("lr = 2.5e-4", f"lr = {number + 1}e-7"))


def _child_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_a_first_look_and_lists(box: Box, monkeypatch: pytest.MonkeyPatch, table: list[Row]) -> None:
    for name, value in box.env.items():
        if name.startswith("XDG_"):
            monkeypatch.setenv(name, value)
    for number in range(PAST):
        _with_own_config(write_finished_run(box.work / "past" / f"run-{number}", steps=20), number)
    begun = time.process_time()
    assert catalog.catch_up(RunIndex()).read == PAST
    spent = time.process_time() - begun
    table.append(Row(f"first look at {PAST:,} runs, CPU a run", spent / PAST, "s", budget=FIRST_LOOK_S))
    for words in LISTS:
        seconds = []
        for _ in range(TRIES):
            begun = _child_cpu_s()
            subprocess.run([*RLTUI, *words], cwd=box.work, env=box.env, check=True, capture_output=True)
            seconds.append(_child_cpu_s() - begun)
        table.append(Row(f"rltui {' '.join(words)}, {PAST:,} runs, CPU", middle(seconds), "s", budget=LIST_S))
