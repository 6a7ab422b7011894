"""The bench screen: a ledger, and the way to its runs."""

from __future__ import annotations

from tests.core.runs.test_bench import bench, run_out, steady
from tests.fakes.experiment import FakeExperiment
from tests.fakes.runs import FakeRuns, run_row
from tests.ui.conftest import Opener, opened, press, screen_text, until

from rltui.ui.screens.bench import BenchScreen


async def test_the_ledger_of_each_bench_and_its_runs(open_app: Opener) -> None:
    runs = FakeRuns(run_row("b-2"))
    newest = run_out(bench(2), steady(t2=0.2))
    newest = newest.with_run(newest.trials[2].runs[0].replace(run="id-b-2"))
    runs.made_benches = (newest, bench(1, fields={"name": "older"}))
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await opened(pilot, BenchScreen, "at")
        await until(pilot, lambda: "beats the best by more than the noise" in screen_text(pilot))
        await press(pilot, "left_square_bracket")
        await until(pilot, lambda: "older: planned" in screen_text(pilot))
        await press(pilot, "right_square_bracket", "G", "enter")
        await until(pilot, lambda: runs.opened == ["id-b-2"])


async def test_without_a_bench_it_says_how_to_start_one(open_app: Opener) -> None:
    async with open_app(FakeExperiment(), runs=FakeRuns()) as pilot:
        await opened(pilot, BenchScreen, "at")
        await until(pilot, lambda: "rltui bench CONFIG.toml" in screen_text(pilot))
