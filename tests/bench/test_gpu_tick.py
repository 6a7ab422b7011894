"""What one reading of the GPUs costs: eight devices of the NVML double with four processes each.

The double answers in about a microsecond. A driver takes 12 µs for memory and 4.5 ms for a process list.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.bench.table import Row
from tests.fakes.nvml import double

from rltui.services.gpu.nvml import NvmlReader

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

ROUNDS = 300
TICK = f"""\
import json, statistics, time
import pynvml
from rltui.services.gpu.nvml import NvmlReader

now = [0.0]
reader = NvmlReader(monotonic=lambda: now[0])
first = reader.read()
handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]

def memory():
    for handle in handles:
        pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)

def seconds(call, step_s):
    spent = []
    for _ in range({ROUNDS}):
        now[0] += step_s
        began = time.perf_counter()
        call()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)

lists = sum(len(device.processes) for device in first.devices)
figures = seconds(memory, 0), seconds(reader.read, 0), seconds(reader.read, 3), seconds(reader.read, 5)
print(json.dumps([len(first.devices), lists, *figures]))
"""


def measure(environment: dict[str, str]) -> tuple[str, list[float]]:
    """What was read, and seconds: memory by pynvml alone, a tick, one with lists, one with all figures."""
    done = subprocess.run(
        [sys.executable, "-c", TICK],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode:
        pytest.skip(done.stderr.strip())
    devices, processes, *seconds = json.loads(done.stdout)
    return f"{devices} GPUs, {processes} processes", seconds


def add(table: list[Row], environment: dict[str, str], where: str) -> list[float]:
    what, (memory_s, *ticks_s) = measure(environment)
    for tick_s, kind in zip(ticks_s, ("no lists", "with lists", "all figures"), strict=True):
        label = f"GPU tick, {what}, {kind}{where}"
        table.append(Row(label, tick_s * 1000, "ms", "memory by pynvml", memory_s * 1000))
    return [tick_s / memory_s for tick_s in ticks_s]


def test_tick_beside_a_bare_loop_over_memory(table: list[Row]) -> None:
    ratios = add(table, double.environment("eight"), "")
    assert ratios[0] < 30
    assert ratios[-1] < 120


@pytest.mark.gpu
def test_tick_on_the_driver_of_this_machine(table: list[Row]) -> None:
    reader = NvmlReader()
    report = reader.read()
    reader.close()
    if not report.available:
        pytest.skip(report.reason or "")
    add(table, dict(os.environ), ", driver")
