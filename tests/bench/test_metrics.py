"""The series of a long run: 200 of them, 20,000 steps each."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.table import Row

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parent / "programs/metrics_memory.py"
STEPS = 20_000
BUDGET_MB = 30.0
TRAINER = [f"entropy/m{number}/mean" for number in range(99)] + ["loss/mean"]
ORCHESTRATOR = [f"train/agg/m{number}/mean" for number in range(99)] + [
    "train/agg/effective/agent/reward/mean"
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    rows = random.Random(1)
    with (folder / "metrics.jsonl").open("w") as file:
        for step in range(1, STEPS + 1):
            for names in (TRAINER, ORCHESTRATOR):
                row = {"step": step, "time": 1.7e9 + step, **{name: rows.random() for name in names}}
                file.write(json.dumps(row) + "\n")
    return folder


def cost(what: str, folder: Path) -> tuple[float, float]:
    """MB that were taken on top, and seconds."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), what, str(folder)], check=True, capture_output=True, text=True
    )
    before, most, seconds = map(float, done.stdout.split())
    return (most - before) * 1024 / 1e6, seconds


def test_memory_and_time_of_a_long_run(folder: Path, table: list[Row]) -> None:
    _, parse_s = cost("parse", folder)
    supervise_mb, _ = cost("supervise", folder)
    store = sum(path.stat().st_size for path in (folder / ".rltui/metrics").iterdir()) / 1e6
    read_mb, read_s = cost("read", folder)
    _, one_s = cost("one", folder)
    size = (folder / "metrics.jsonl").stat().st_size / 1e6
    rows = [
        Row("memory to take in 200 series × 20,000 steps", supervise_mb, "MB", budget=BUDGET_MB),
        Row("memory to read them all, one after the other", read_mb, "MB", budget=BUDGET_MB),
        Row("their store", store, "MB", "the metrics file", size, budget=size / 4),
        Row("read all series of the store", read_s, "s", "parse the file once", parse_s),
        Row("read one series of the store", one_s, "s", "parse the file once", parse_s, budget=parse_s / 10),
    ]
    table += rows
    assert all(row.budget is None or row.figure <= row.budget for row in rows), rows
