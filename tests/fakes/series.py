"""Series that tests write themselves."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

from rltui.core.logs.source import LogChange
from rltui.core.metrics.series import NO_STEP, Rewind, Series, SeriesKey

STARTED = 1_800_000_000.0 - 2470
STEP_S = 4.1


def series_from_points(points: Iterable[tuple[int, float, float]]) -> Series:
    """A series of points (step, time, value)."""
    series = Series()
    for step, time, value in points:
        series.add(step, time, value)
    return series


class FakeSeries:
    """Implements `rltui.core.metrics.series.SeriesSource`."""

    def __init__(self, series: dict[SeriesKey, Series] | None = None, *rewinds: Rewind) -> None:
        self.series = series or {}
        self.rewound = rewinds
        self.change = LogChange.NONE
        """The change that the next poll returns."""

    def poll(self) -> LogChange:
        change, self.change = self.change, LogChange.NONE
        return change

    def keys(self) -> tuple[SeriesKey, ...]:
        return tuple(sorted(self.series))

    def rewinds(self) -> tuple[Rewind, ...]:
        return self.rewound

    def prepare(self, keys: Iterable[SeriesKey]) -> None:
        """Does nothing: the series are in memory."""

    def read(self, key: SeriesKey, start: int = 0) -> Series:
        return self.series.get(key, Series()).tail(start)


def by_step(values: Sequence[float], *, first: int = 1, started: float = STARTED) -> Series:
    """A series with one point per step."""
    series = Series()
    for step, value in enumerate(values, first):
        series.add(step, started + (step - first) * STEP_S, value)
    return series


def by_time(values: Sequence[float], interval_s: float, *, started: float = STARTED) -> Series:
    """A series whose points have no step."""
    series = Series()
    for index, value in enumerate(values):
        series.add(NO_STEP, started + index * interval_s, value)
    return series


def example_run(steps: int = 600, seed: int = 0) -> FakeSeries:
    """A run that learns, with the series of a trainer, an orchestrator, an engine and our own samplers."""
    noise = random.Random(seed)

    def curve(base: float, end: float, wobble: float, scale: float = 0.25) -> Series:
        return by_step(
            [
                end + (base - end) * math.exp(-step / (steps * scale)) + noise.gauss(0, wobble)
                for step in range(steps)
            ]
        )

    loss = curve(0.9, 0.05, 0.02)
    for step in (steps // 3, steps // 3 + 1, steps // 2 + 50):
        loss.values[step] = math.nan
    grad = curve(2.0, 0.4, 0.05)
    grad.values[steps // 2] = 90.0
    orch, train, own_source = "orch", "trainer", "rltui"
    trained = "train/agg/effective/"
    seconds = round(steps * STEP_S)
    return FakeSeries(
        {
            SeriesKey(orch, f"{trained}reward/mean"): curve(0.1, 0.93, 0.03),
            SeriesKey(orch, f"{trained}reward/std"): curve(0.3, 0.1, 0.01),
            SeriesKey(orch, "train/math/effective/reward/mean"): curve(0.05, 0.9, 0.03),
            SeriesKey(orch, "train/code/effective/reward/mean"): curve(0.2, 0.8, 0.03),
            SeriesKey(orch, f"{trained}is_truncated/mean"): curve(0.4, 0.02, 0.005),
            SeriesKey(orch, f"{trained}num_total_tokens/mean"): curve(180, 420, 8),
            SeriesKey(orch, "off_policy/mean"): curve(0.5, 1.5, 0.2),
            SeriesKey(orch, "time/wait_for_policy"): curve(0.5, 0.2, 0.1),
            SeriesKey(train, "loss/mean"): loss,
            SeriesKey(train, "entropy/all/mean"): curve(1.4, 0.3, 0.02),
            SeriesKey(train, "mismatch_kl/all/mean"): curve(1e-5, 4e-3, 1e-5),
            SeriesKey(train, "optim/grad_norm"): grad,
            SeriesKey(train, "optim/lr"): by_step([1e-5 * min(1, step / 50) for step in range(steps)]),
            SeriesKey(train, "time/step"): curve(6.0, 4.1, 0.4),
            SeriesKey(train, "time/wait_for_batch"): curve(3.0, 1.2, 0.3),
            SeriesKey(train, "perf/throughput"): curve(6000, 8200, 300),
            SeriesKey("inference", "vllm:kv_cache_usage_perc"): by_time(
                [0.4 + 0.2 * math.sin(index / 40) for index in range(seconds // 5)], 5
            ),
            SeriesKey("inference", "vllm:num_requests_running"): by_time(
                [128 - index % 40 for index in range(seconds // 5)], 5
            ),
            SeriesKey(own_source, "gpu_memory/inference"): by_time([60.1 * 2**30] * (seconds // 10), 10),
            SeriesKey(own_source, "gpu_memory/trainer"): by_time(
                [(6 + 4 * min(1, index / 60)) * 2**30 for index in range(seconds // 10)], 10
            ),
        }
    )
