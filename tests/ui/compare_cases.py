"""Runs that are compared in tests: a baseline, two forks of it, and one that failed."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.rollouts import write_flat_run
from tests.fakes.runs import FakeRuns, run_row, running_row
from tests.fakes.series import example_run
from tests.ui.conftest import settle, until
from textual.pilot import Pilot

from rltui.core.experiment.states import Reason
from rltui.core.runs.row import RunRow
from rltui.services.rollouts import open_rollouts
from rltui.ui.base_screen import BaseScreen
from rltui.ui.screens.compare import CompareScreen
from rltui.ui.widgets.row_list import RowList

CONFIG = {
    "model.name": "Qwen/Qwen3-4B-Instruct-2507",
    "trainer.optim.lr": 1e-6,
    "orchestrator.train.group_size": 16,
    "orchestrator.sampling.temperature": 1.0,
    "orchestrator.train.environments.0.arguments.dataset_name": "PrimeIntellect/synthetic-2-base-cleaned",
    "seed": 0,
    **{f"trainer.model.setting_{number}": number for number in range(40)},
}


def compared_runs(folder: Path | None = None) -> FakeRuns:
    """With rollouts where they may be written."""
    base = run_row("base", step=600, max_steps=600, gpu_seconds=28_800.0, tags=("baseline",))
    rows: list[RunRow] = [
        base,
        run_row("lr3", step=600, max_steps=600, parent=base.id, gpu_seconds=30_000.0, seconds=4000.0),
        running_row(
            "lr10-warm",
            step=300,
            max_steps=600,
            parent=base.id,
            parent_step=50,
            gpu_seconds=9000.0,
            seconds=1200.0,
        ),
        run_row(
            "cold",
            state="failed",
            step=120,
            max_steps=600,
            seconds=200.0,
            reason=Reason("component_failed", "trainer: CUDA out of memory", ("trainer",)),
        ),
    ]
    runs = FakeRuns(*rows)
    changes: list[dict[str, object]] = [
        {},
        {"trainer.optim.lr": 3e-6},
        {"trainer.optim.lr": 1e-5, "orchestrator.sampling.temperature": 0.7},
        {
            "seed": 1,
            "orchestrator.train.environments.0.arguments.dataset_name": "PrimeIntellect/Reverse-Text-RL",
        },
    ]
    for number, (row, change) in enumerate(zip(rows, changes, strict=True)):
        runs.flat_configs[row.id] = {**CONFIG, **change}
        runs.series[row.id] = example_run(row.step or 0, seed=number)
        if folder is not None:
            write_flat_run(folder / row.name, (1, 2, 3) if number else (1, 2))
            runs.rollouts[row.id] = open_rollouts(folder / row.name)
    return runs


async def open_comparison(pilot: Pilot[None], runs: FakeRuns, count: int = 4) -> CompareScreen:
    screen = pilot.app.screen
    assert isinstance(screen, BaseScreen)
    compare = CompareScreen(screen.app_state, [row.id for row in runs.known[:count]])
    screen.show_instead(compare)
    await settle(pilot)
    await until(pilot, lambda: compare.query_one(RowList).keys)
    return compare
