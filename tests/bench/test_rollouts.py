"""A list of 100,000 samples, and a folder of gigabytes, are on the screen before a person waits."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.bench.table import Row
from tests.fakes import rollouts as fakes

from rltui.services.rollouts import open_rollouts

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

SAMPLES = 100_000
STEP = 128
TRACE_BYTES = int(os.environ.get("BENCH_TRACE_BYTES", 5 * 10**9))
BUDGET_S, FOLDER_BUDGET_S = 0.5, 1.0
READ = """
import sys, time, resource
from pathlib import Path
from rltui.services.rollouts import open_rollouts
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.perf_counter()
source = open_rollouts(Path(sys.argv[1]))
is_behind = source.poll()
newest = source.batches()[0].key
while not len(source.table(newest)):
    is_behind = source.poll(newest)
first = time.perf_counter() - begin
while is_behind and len(sys.argv) == 2:
    is_behind = source.poll(newest)
count = sum(each.samples or 0 for each in source.batches() if not each.key.part)
memory_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(first, time.perf_counter() - begin, count, memory_mb)
"""
PEER = """
import sys, orjson
for name in sys.argv[1:]:
    for line in open(name, "rb"):
        orjson.loads(line)
"""


def measured(*arguments: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", READ, *arguments], capture_output=True, text=True, check=True
    )
    return [float(word) for word in done.stdout.split()]


def test_a_hundred_thousand_samples(tmp_path: Path, table: list[Row]) -> None:
    writer = fakes.StreamWriter(tmp_path)
    record = fakes.episode(1, 0.5)
    index, notes = writer.folder / "stream.index.jsonl", writer.folder / "annotations/orch.index.jsonl"
    with index.open("w") as rows, notes.open("w") as annotations:
        for number in range(SAMPLES):
            step = 1 + number // STEP
            at = fakes.T0 + step * 10 + number % STEP / 100
            row = fakes.index_row(number, record, 0, number * 1000, at)
            row |= {"trace_ids": [f"{number:032x}"], "group": f"{number // 16:032x}"}
            rows.write(json.dumps(row) + "\n")
            annotations.write(
                json.dumps(fakes.annotation(f"{number:032x}", step, fakes.T0 + step * 10 + 5)) + "\n"
            )
    first, whole, count, memory_mb = measured(str(tmp_path))
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", PEER, str(index), str(notes)], check=True)
    peer = time.perf_counter() - begin
    assert count == SAMPLES
    table.append(Row("rollouts: the newest of 100,000", first, "s", budget=BUDGET_S))
    whole_row = Row("rollouts: all 100,000 known", whole, "s", "orjson over the same files", peer)
    table.append(whole_row)
    table.append(Row("rollouts: memory of 100,000", memory_mb, "MB"))
    assert first < whole / 3
    assert whole_row.ratio is not None
    assert whole_row.ratio < 12


def test_gigabytes_of_traces(tmp_path: Path, table: list[Row]) -> None:
    """In a file per step, as of August 2026: nothing but the newest is read."""
    steps = 100
    line = json.dumps(fakes.episode(1, 0.5) | {"padding": "x" * 40_000}).encode() + b"\n"
    for step in range(1, steps + 1):
        path = tmp_path / f"rollouts/step_{step}/train/effective/traces.jsonl"
        path.parent.mkdir(parents=True)
        with path.open("wb") as file:
            file.write(line * 64)
            file.truncate(TRACE_BYTES // steps)  # sparse behind the lines: its size counts, not its blocks
    first, *_ = measured(str(tmp_path), "first")
    table.append(Row(f"rollouts: {TRACE_BYTES / 1e9:g} GB of traces", first, "s", budget=FOLDER_BUDGET_S))


def test_a_search_through_200_000(tmp_path: Path, table: list[Row]) -> None:
    """Finding X10. What is searched for is in one of them, or in all."""
    path = fakes.write_lines(
        tmp_path / "results.jsonl",
        (
            fakes.flat_row(at // 8, at, 0.5, completion=f"{'word ' * 150}{'Zebra' if at == 7 else ''}")
            for at in range(200_000)
        ),
    )
    source = open_rollouts(path)
    source.poll()
    key = source.batches()[0].key
    while source.poll(key):
        pass
    for name, pattern, count in (("of one", "Zebra", 1), ("of all", "word", 200_000)):
        begin = time.process_time()
        assert sum(source.search(key, (row for row in source.table(key)), re.compile(pattern))) == count
        table.append(Row(f"rollouts: 200,000 searched, {name}", time.process_time() - begin, "s of CPU"))
