"""Opens the metrics screen on 60 series of 10,000 steps and prints, as JSON, what that took.

With the argument `plots`, the same of as many plots of textual-plot, whose series are thinned already.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
import time
from array import array
from collections.abc import Callable

from textual.app import App, ComposeResult
from textual.containers import Grid
from textual.pilot import Pilot

from rltui.core.logs.source import LogChange
from rltui.core.metrics.names import CONCEPTS
from rltui.core.metrics.series import Series, SeriesKey

STEPS = 10_000
SERIES = 60
SIZE = (200, 50)
IDLE_S = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
NAMES = ("reward/mean", "loss/mean", "entropy/all/mean", "mismatch_kl/all/mean", "optim/grad_norm",
         "optim/lr", "time/step", "time/wait_for_batch", "time/wait_for_policy", "perf/throughput",
         "off_policy/mean",
         "vllm:kv_cache_usage_perc", "vllm:num_requests_running", "vllm:num_requests_waiting", "val/loss",
         "importance_ratio/all/mean")  # fmt: skip


def series(seed: int) -> Series:
    """A noisy curve."""
    noise = random.Random(seed)
    return Series(
        array("q", range(1, STEPS + 1)),
        array("d", (1.8e9 + 4.0 * step for step in range(STEPS))),
        array("d", (math.exp(-step / 3000) + noise.gauss(0, 0.1) for step in range(STEPS))),
    )


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    while not condition():
        await pilot.pause(0.005)


async def metrics_screen() -> dict[str, float]:
    from tests.fakes.experiment import FakeExperiment
    from tests.ui.conftest import make_app

    experiment = FakeExperiment()
    names = [*NAMES, *(f"other/{number}" for number in range(SERIES - len(NAMES)))]
    experiment.series.series = {SeriesKey("", name): series(seed) for seed, name in enumerate(names)}
    assert len(CONCEPTS) > len(NAMES)
    app = make_app(experiment)
    found: dict[str, float] = {}
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(0.5)
        assert "numpy" not in sys.modules
        began, cpu = time.perf_counter(), time.process_time()
        app.simulate_key("4")
        await pilot.pause(0)

        def is_drawn() -> bool:
            plots = app.screen.query("Plot") if app.screen.id != "_default" else ()
            return bool(plots) and all(plot.border_title for plot in plots)

        await until(pilot, is_drawn)
        found["open_s"] = time.perf_counter() - began
        found["open_cpu_s"] = time.process_time() - cpu
        await pilot.pause(1.0)
        screen = app.screen
        found["charts"] = len(screen.query("Plot"))
        times = []
        for key in ("s", "x", "o", "s", "x", "o"):
            began = time.perf_counter()
            app.simulate_key(key)
            await pilot.pause(0)
            await pilot.pause(0)
            times.append(time.perf_counter() - began)
        found["draw_s"] = sorted(times)[len(times) // 2]
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(IDLE_S)
        found["idle_percent"] = 100 * (time.process_time() - cpu) / (time.perf_counter() - began)
        began, cpu = time.perf_counter(), time.process_time()
        step = STEPS
        while time.perf_counter() - began < IDLE_S:
            step += 1
            for each in experiment.series.series.values():
                each.add(step, 1.8e9 + 4.0 * step, 0.1)
            experiment.series.change = LogChange.GREW
            await asyncio.sleep(1.0)
        found["growing_percent"] = 100 * (time.process_time() - cpu) / (time.perf_counter() - began)
    return found


class Plots(App[None]):
    """Textual-plot as it is."""

    CSS = "Grid { grid-size: 5 5; }"

    def compose(self) -> ComposeResult:
        yield Grid(id="all")


async def plots() -> dict[str, float]:
    app = Plots()
    found: dict[str, float] = {}
    data = [series(seed).values[::100] for seed in range(len(NAMES))]
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(0.5)
        began = time.perf_counter()
        from textual_plot import HiResMode, PlotWidget

        made = [PlotWidget() for _ in NAMES]
        await app.query_one("#all").mount(*made)
        for plot, values in zip(made, data, strict=True):
            plot.plot(range(len(values)), values, hires_mode=HiResMode.BRAILLE)
        await pilot.pause(0)
        found["open_s"] = time.perf_counter() - began
        times = []
        for _ in range(5):
            began = time.perf_counter()
            for plot, values in zip(made, data, strict=True):
                plot.clear()
                plot.plot(range(len(values)), values, hires_mode=HiResMode.BRAILLE)
            await pilot.pause(0)
            times.append(time.perf_counter() - began)
        found["draw_s"] = sorted(times)[len(times) // 2]
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(plots() if sys.argv[1:2] == ["plots"] else metrics_screen())))
