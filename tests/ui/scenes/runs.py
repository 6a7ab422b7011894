"""The screens of many runs: the list, the queue, the comparison."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.experiment import FakeExperiment
from tests.fakes.runs import FakeRuns
from tests.ui.compare_cases import compared_runs, open_comparison
from tests.ui.conftest import make_app, press, settle
from tests.ui.queue_cases import with_queue
from tests.ui.run_cases import LONG_SWEEP, QUEUE, RUNS
from tests.ui.scenes.scene import Scene, scene
from textual.pilot import Pilot

from rltui.core.runs.row import RunRow
from rltui.ui.app import RltuiApp
from rltui.ui.widgets.row_list import RowList

TITLE = "rltui Runs · 3 running · 2 queued · 29 in total · 1 archived"
LONE = "orchestrator.train.environments.0.arguments.dataset_name"


def with_runs(folder: Path) -> RltuiApp:
    return on_runs(RUNS)


def without_runs(folder: Path) -> RltuiApp:
    return on_runs(())


def on_runs(rows: tuple[RunRow, ...]) -> RltuiApp:
    runs = FakeRuns(*rows)
    if rows:
        runs.queued = QUEUE
    return make_app(None, runs=runs)


def with_long_sweep(folder: Path) -> RltuiApp:
    return make_app(None, runs=FakeRuns(*LONG_SWEEP))


def with_paused_queue(folder: Path) -> RltuiApp:
    return make_app(FakeExperiment(), runs=with_queue(paused="the machine was restarted"))


def with_compared(folder: Path) -> RltuiApp:
    return make_app(None, runs=compared_runs())


async def to_rate(pilot: Pilot[None]) -> None:
    screen = await open_comparison(pilot, compared_runs())
    screen.query_one(RowList).go_to("config:trainer.optim.lr")
    await settle(pilot)


async def to_curves(pilot: Pilot[None]) -> None:
    await open_comparison(pilot, compared_runs())
    await press(pilot, "enter")


SCENES: dict[str, Scene] = {
    "runs-queued": scene(
        with_runs, ("j", "m", "j"), TITLE, "1 marked", "◆● lr-lr1e-06", "▸ ◌ lr-lr3e-05",
        "why       GPU 0 has 12 of 80 GiB free, it needs 40", "stops if  reward < 0.2 at 50", small=(),
    ),
    "runs-grouped": scene(
        with_runs, ("b", "home", "f"), TITLE,
        "3 runs · 2 running · 1 done · highest reward 0.92 ± 0.02: lr-lr1e-05", "├ ● lr-lr3e-06",
        "✓ ★ baseline", "└ ○ half", "? torn", medium=(),
    ),
    "runs-forked": scene(
        with_runs, ("j", "j"), TITLE, "from      forked from baseline at step 100",
        "changed   trainer.optim.lr 1e-5 → 3e-6 · seed 0 → 1", "2 attempts · 1.3 GPU hours · 13.0 GiB",
        "0.81±0.02", "✗ collapsed", huge=(),
    ),
    "runs-swept": scene(
        with_long_sweep, (), *(f"● {row.name} " for row in LONG_SWEEP), " running ",
        small=("lr=1e-05 batch_size=128", "lr=3e-05 batch_size=256"),
        middle=("lr=1e-05 batch_size=128", "lr=3e-05 batch_size=256", "10m"),
        huge=("lr=3e-05 batch_size=256", "NVIDIA H200", "trend"),
    ),
    "runs-filter": scene(
        with_runs, ("slash", *"reward > and"), TITLE,
        "the filter is not understood: reward cannot be",
    ),
    "runs-columns": scene(
        with_runs, ("vertical_line", "j"), "─ Columns ─", "✓ name", "▸✓ state",
        "completed steps and their total", "space: toggle · shift+↑↓: move", medium=(),
    ),
    "runs-trash": scene(
        with_runs, (*"jjjjjj", "delete"), "Move baseline to the trash?", "baseline  /runs/baseline",
        "emptying it frees 40.0 GiB (rltui runs", "restore RUN undoes this.",
        "enter: Cancel · y: Move to trash · esc: Cancel",
        small=(),
    ),
    "runs-none": scene(
        without_runs, (), "rltui Runs · 0 in total",
        "No runs yet. enter starts the demo, 5 minutes on this CPU.", "Your own: rltui up CONFIG.toml",
        small=(),
    ),
    "queue": scene(
        with_paused_queue, ("7", "Q", "j", "j", "j"), "rltui Queue · ‖ paused · 3 queued · 1 starting",
        "▸ ◌  big", "4 of 8 GPUs needed, 3 free: GPU 0 is used by sweep-lr1e-6", "4 GPUs · 3 tries",
        "✓  base", "Paused: the machine was restarted. P resumes.", "P resume ",
        small=("unknown knob [red]learning_rte…",),
        medium=("trainer: exited 1; retrying in 1m30s", "unknown knob [red]learning_rte[/red]"),
        huge=("stopped by the rule 'kl > 10': kl 14.2 at step 31",),
    ),
    "compare": scene(
        with_compared, to_rate, "rltui Compare · 4 runs · 4 keys differ", "base",
        "Config · 4 of 46 keys differ, the rest are equal", "0.834", "0.906", "600/600",
        small=("cold", "▸ lr"), medium=("▸ lr", "120/600", "lr10-warm  1e-5"),
        huge=("▸ trainer.optim.lr", LONE, "± is the std over steps"),
    ),
    "compare-curves": scene(
        with_compared, to_curves,
        "━ base  ━ lr3  ━ lr10-warm  ━ cold · Metrics · 17 charts of 20 series · by step",
        "Reward base 0.834 lr3 0.906", "Step time base 4.13 lr3 4.17", medium=(),
    ),
}  # fmt: skip
