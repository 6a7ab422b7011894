"""What panel and GPU screen look like with GPUs in every state."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment, gpu_histories, knob_table, running_status
from tests.params import slow_but
from tests.ui.conftest import make_app, press, settle, until
from tests.ui.gpu_scenarios import SCENARIOS
from tests.ui.test_look import HUGE, SMALL, SnapCompare
from textual.pilot import Pilot

from rltui.ui.widgets.gpu_chart import GpuChart


def experiment_with(name: str) -> FakeExperiment:
    report = SCENARIOS[name]
    experiment = FakeExperiment(running_status(), report, knob_table())
    experiment.histories = gpu_histories(report)
    return experiment


ALWAYS = {"shared-small", "eight-small", "mig-small", "orphans-small", "bad-verdict-huge", "stale-huge"}
"""Pictures of the default run; all the others, and those of the screen, are made with `-m slow`."""
PICTURED = [name for name in SCENARIOS if name not in ("mismatch", "four")]
"""They look like "no-driver", "two" and "eight"."""
PANELS = {
    f"{name}-{word}": (name, size)
    for name in PICTURED
    for word, size in {"small": SMALL, "huge": HUGE}.items()
}


@pytest.mark.parametrize("panel", slow_but(PANELS, *ALWAYS))
def test_look_of_panel(panel: tuple[str, tuple[int, int]], snap_compare: SnapCompare) -> None:
    name, size = panel

    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        if size == SMALL:
            await press(pilot, "shift+tab", "shift+tab")
        await settle(pilot)

    app = make_app(experiment_with(name))
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=size, run_before=prepare)


@pytest.mark.slow
@pytest.mark.parametrize("size", [SMALL, HUGE], ids=["small", "huge"])
@pytest.mark.parametrize("name", PICTURED)
def test_look_of_screen(name: str, size: tuple[int, int], snap_compare: SnapCompare) -> None:
    async def prepare(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await press(pilot, "3")
        if SCENARIOS[name].devices:
            await until(pilot, lambda: pilot.app.screen.query_one(GpuChart).history is not None)
        await settle(pilot)

    app = make_app(experiment_with(name))
    app.animation_level = "none"
    assert snap_compare(app, terminal_size=size, run_before=prepare)
