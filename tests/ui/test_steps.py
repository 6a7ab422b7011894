"""Step N: from the palette (`:120`) and by its key, on every screen that knows steps."""

from __future__ import annotations

import pytest
from tests.fakes.series import STARTED, STEP_S
from tests.ui.checkpoint_cases import REPORT
from tests.ui.conftest import Opener, press, said, until
from tests.ui.metric_cases import experiment_with_run
from textual.widgets import Static

from rltui.ui.base_screen import BaseScreen
from rltui.ui.screens.events import EventScreen
from rltui.ui.screens.logs import LogScreen
from rltui.ui.screens.metrics import MetricsScreen
from rltui.ui.widgets.row_list import RowList


@pytest.mark.parametrize(
    "keys", [("4", "colon", *"500", "enter"), ("colon", *"500", "enter"), ("J", *"500", "enter")]
)
async def test_the_charts_are_read_at_a_step(keys: tuple[str, ...], open_app: Opener) -> None:
    async with open_app(experiment_with_run(), size=(130, 40)) as pilot:
        await press(pilot, *keys)
        screen = pilot.app.screen
        assert isinstance(screen, MetricsScreen)
        line = screen.query_one("#metrics-line", Static)
        await until(pilot, lambda: str(line.content).startswith("step 500 "))
        await press(pilot, "colon", *"99999", "enter")
        await until(pilot, lambda: "no step 99999 in the metrics of this run" in said(pilot))


@pytest.mark.parametrize(("key", "kind"), [("8", EventScreen), ("2", LogScreen)])
async def test_logs_and_events_go_to_the_moment_of_a_step(
    key: str, kind: type[BaseScreen], open_app: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = []
    monkeypatch.setattr(kind, "go_to", lambda self, moment, component: moments.append((moment, component)))
    async with open_app(experiment_with_run(), size=(100, 30)) as pilot:
        await press(pilot, key, "colon", *"204", "enter")
        await until(pilot, lambda: moments)
        ((moment, component),) = moments
        assert abs(moment - (STARTED + 204 * STEP_S)) < 1.5 * STEP_S
        assert component is None
        assert isinstance(pilot.app.screen, kind)
        await press(pilot, "J", *"99999", "enter")
        await until(pilot, lambda: "no step 99999 in the metrics of this run" in said(pilot))


async def test_checkpoints_go_to_the_newest_up_to_a_step(open_app: Opener) -> None:
    experiment = experiment_with_run()
    experiment.checkpoint_report = REPORT
    async with open_app(experiment, size=(100, 30)) as pilot:
        await press(pilot, "9", "colon", *"430", "enter")
        await until(pilot, lambda: pilot.app.screen.query_one(RowList).key == "420")
        await press(pilot, "J", *"x", "enter", "J", *"3", "enter")
        assert said(pilot)[-2:] == ["not a step: x", "no checkpoint up to step 3"]
