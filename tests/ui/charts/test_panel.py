"""Charts as a panel of the overview."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment
from tests.fakes.runs import FakeRuns
from tests.ui.conftest import Opener, choose, press, settle, until
from tests.ui.metric_cases import experiment_with_run
from textual.content import Content
from textual.pilot import Pilot

from rltui.ui.charts.panel import ChartPanel
from rltui.ui.charts.plot import Plot
from rltui.ui.screens.overview import Overview


def titles(pilot: Pilot[None]) -> list[str]:
    plots = pilot.app.screen.query(Plot)
    return [
        Content.from_markup(str(plot.border_title)).plain.split()[0]
        for plot in plots
        if plot.display and plot.border_title
    ]


async def test_charts_are_shown_where_a_person_wants_them(open_app: Opener) -> None:
    runs = FakeRuns()
    async with open_app(experiment_with_run(), runs=runs, size=(160, 50)) as pilot:
        assert not pilot.app.screen.query(ChartPanel)
        await press(pilot, "ctrl+k")
        await choose(pilot, "panels.hide")
        await choose(pilot, "panels.arrange")
        await press(pilot, "c", "escape")
        assert isinstance(pilot.app.screen, Overview)
        await until(pilot, lambda: len(titles(pilot)) >= 3)
        assert titles(pilot)[:3] == ["Reward", "Loss", "Entropy"]
        panel = pilot.app.screen.query_one(ChartPanel)
        assert panel.region.height > 25, "the room of the knobs"
        panel.focus()
        await press(pilot, "z")
        await until(pilot, lambda: panel.region.width == 160)
        await until(pilot, lambda: len(titles(pilot)) == 4)
        await until(pilot, lambda: "layout-fake" in runs.saved_values)
    assert runs.saved_values["layout-fake"]["arrangement"]["hidden"] == ["knobs"], "it is kept"


async def test_an_idle_panel_draws_nothing(open_app: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_app(experiment_with_run(), size=(160, 50)) as pilot:
        overview = pilot.app.screen
        assert isinstance(overview, Overview)
        await overview.panels.toggle_charts()
        await until(pilot, lambda: len(titles(pilot)) >= 2)
        panel = overview.query_one(ChartPanel)
        drawn: list[object] = []
        monkeypatch.setattr(Plot, "show", lambda self, frame: drawn.append(frame))
        assert panel._model is not None
        await panel._catch_up(panel._model)
        assert drawn == []
        await overview.panels.toggle_charts()
        await settle(pilot)
        polls: list[object] = []
        monkeypatch.setattr(panel._model, "poll", lambda: polls.append("a poll"))
        await panel._catch_up(panel._model)
        assert polls == [], "nothing is read for a panel that is hidden"


async def test_a_run_without_values_says_so(open_app: Opener) -> None:
    async with open_app(FakeExperiment(), size=(160, 50)) as pilot:
        overview = pilot.app.screen
        assert isinstance(overview, Overview)
        await overview.panels.toggle_charts()
        panel = overview.query_one(ChartPanel)
        await until(pilot, lambda: "no metrics" in str(panel.border_subtitle))
