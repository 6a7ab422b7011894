"""What one reading of this machine's GPUs takes: it is made once a second beside a training run."""

from __future__ import annotations

import time
from statistics import mean, quantiles

import pytest

from rltui.services.gpu.nvml import NvmlReader
from rltui.services.gpu.nvml.device import MAX_AGE_S

pytestmark = pytest.mark.gpu

READS = 200
MOST_S = 0.1
"""A tenth of the time between two readings."""


@pytest.mark.parametrize(
    "step_s", [pytest.param(0.0, id="no-lists"), pytest.param(MAX_AGE_S, id="with-lists")]
)
def test_a_reading_takes_little_time(step_s: float) -> None:
    """With lists: the clock that the reader sees goes on so far that it reads them each time."""
    now = [0.0]
    reader = NvmlReader(monotonic=lambda: now[0])
    devices = len(reader.read().devices)
    took_s = []
    for _ in range(READS):
        now[0] += step_s
        began = time.perf_counter()
        reader.read()
        took_s.append(time.perf_counter() - began)
    reader.close()
    p95_s = quantiles(took_s, n=20)[-1]
    lists = "with process lists" if step_s else "without process lists"
    print(
        f"\n{devices} device(s), {lists}: mean {1000 * mean(took_s):.2f} ms, p95 {1000 * p95_s:.2f} ms,"
        f" {READS} readings"
    )
    assert p95_s < MOST_S
