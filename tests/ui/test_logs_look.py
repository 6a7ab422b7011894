from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.experiment import FakeExperiment, running_status
from tests.ui.conftest import make_app, press, until
from textual.pilot import Pilot
from textual.widgets import Input

SIZES = {"small": (80, 24), "usual": (130, 40), "huge": (200, 50)}


@pytest.mark.parametrize("size", SIZES.values(), ids=list(SIZES))
def test_look_of_all_logs(snap_compare: Any, size: tuple[int, int]) -> None:
    experiment = FakeExperiment()

    async def steps(pilot: Pilot[None]) -> None:
        experiment.push(running_status())
        await press(pilot, "2")
        await until(pilot, lambda: "trainer" in str(pilot.app.screen.query_one("#logs-title").render()))
        await until(pilot, lambda: "Peak" in pilot.app.export_screenshot())

    assert snap_compare(make_app(experiment), terminal_size=size, run_before=steps)


def test_look_of_what_was_found(snap_compare: Any) -> None:
    experiment = FakeExperiment()

    async def steps(pilot: Pilot[None]) -> None:
        experiment.push(running_status())
        await press(pilot, "ctrl+f")
        await until(pilot, lambda: pilot.app.screen.query(Input))
        pilot.app.screen.query_one(Input).value = "step 1[0-2]|loss"
        await press(pilot, "enter")
        await until(pilot, lambda: "enter opens" in str(pilot.app.screen.query_one("#logs-title").render()))
        await until(pilot, lambda: "orchestrator#1" in pilot.app.export_screenshot())
        await press(pilot, "up", "up")

    assert snap_compare(make_app(experiment), terminal_size=(100, 30), run_before=steps)
