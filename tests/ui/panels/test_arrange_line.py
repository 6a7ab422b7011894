"""Panels moved, resized, hidden by keys and mouse, and found again so."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment
from tests.fakes.runs import FakeRuns
from tests.ui.conftest import Opener, choose, press, settle, until
from textual import events
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Static

from rltui.ui.panels.arrange_line import ArrangeLine, arrange_words
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.gpu_panel import GpuPanel
from rltui.ui.widgets.knob_table import KnobPanel


def overview(pilot: Pilot[None]) -> Overview:
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, Overview))


def pane(pilot: Pilot[None], name: str) -> Widget:
    body = overview(pilot).panels.body
    return next(each for each in body.panes if body.name_of(each) == name)


def at(pilot: Pilot[None], name: str) -> Region:
    return pane(pilot, name).region


def names(pilot: Pilot[None]) -> list[str | None]:
    body = overview(pilot).panels.body
    return [body.name_of(each) for each in body.panes]


@pytest.mark.slow
async def test_keys_move_and_resize_the_panel_that_has_them(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment, size=(150, 42)) as pilot:
        await press(pilot, "t")
        await choose(pilot, "panels.arrange")
        assert isinstance(pilot.app.screen, ArrangeLine)
        assert "Arrange trainer" in str(pilot.app.screen.query_one(Static).content)
        await press(pilot, "k")
        assert names(pilot) == ["inference", "trainer", "orchestrator", "gpus", "knobs"]
        await until(pilot, lambda: at(pilot, "trainer").y < at(pilot, "orchestrator").y)
        height, width = at(pilot, "trainer").height, at(pilot, "trainer").width
        await press(pilot, "plus")
        await until(pilot, lambda: at(pilot, "trainer").height == height + 2)
        await press(pilot, "minus")
        await until(pilot, lambda: at(pilot, "trainer").height == height)
        await press(pilot, "minus")
        await until(pilot, lambda: at(pilot, "trainer").height == height - 2)
        await press(pilot, "less_than_sign")
        await until(pilot, lambda: at(pilot, "trainer").width == width - 4)
        await press(pilot, "l")
        assert names(pilot) == ["inference", "orchestrator", "gpus", "knobs", "trainer"]
        await until(pilot, lambda: at(pilot, "trainer").x == at(pilot, "gpus").x)
        assert overview(pilot).panels.current_pane is pane(pilot, "trainer"), "it keeps the keys"
        await press(pilot, "0")
        assert names(pilot) == ["inference", "orchestrator", "trainer", "gpus", "knobs"]
        await press(pilot, "escape")
        assert len(pilot.app.screen_stack) == 1


@pytest.mark.slow
async def test_hidden_panels_leave_their_room_and_come_back(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    async with open_app(experiment, size=(150, 42)) as pilot:
        await press(pilot, "ctrl+k")
        await choose(pilot, "panels.hide")
        assert "knobs" not in names(pilot)
        assert overview(pilot).panels.current_pane is not None
        await choose(pilot, "panels.arrange")
        await press(pilot, "tab", "tab", "tab")
        assert overview(pilot).panels.current_pane is pane(pilot, "gpus")
        await press(pilot, "x")
        await until(pilot, lambda: at(pilot, "trainer").width == 150)
        await press(pilot, "a", "escape")
        assert names(pilot) == ["inference", "orchestrator", "trainer", "gpus", "knobs"]
        await until(pilot, lambda: at(pilot, "knobs"))
        for _ in range(5):
            await choose(pilot, "panels.hide")
        assert names(pilot) == []
        assert ":all panels" in str(overview(pilot).panels.body.render())
        await press(pilot, "j", "tab", "z")
        await choose(pilot, "panels.arrange")
        await press(pilot, "0")
        assert len(names(pilot)) == 5


async def test_the_arrangement_is_kept_with_the_layout(experiment: FakeExperiment, open_app: Opener) -> None:
    runs = FakeRuns()
    async with open_app(experiment, runs=runs, size=(150, 42)) as pilot:
        await press(pilot, "t")
        await choose(pilot, "panels.arrange")
        await press(pilot, "k")
        await until(pilot, lambda: at(pilot, "trainer").y < at(pilot, "orchestrator").y)
        height = at(pilot, "trainer").height
        await press(pilot, "plus", "escape", "ctrl+k")
        await choose(pilot, "panels.hide")
        await press(pilot, "t")
        await until(pilot, lambda: at(pilot, "trainer").height == height + 2)
    assert runs.saved_values["layout-fake"]["arrangement"]["hidden"] == ["charts", "knobs"]
    async with open_app(FakeExperiment(), runs=runs, size=(150, 42)) as pilot:
        assert names(pilot) == ["inference", "trainer", "orchestrator", "gpus"]
        await press(pilot, "t")
        await until(pilot, lambda: at(pilot, "trainer").height == height + 2)
        await choose(pilot, "panels.arrange")
        await press(pilot, "a")
        await until(pilot, lambda: pane(pilot, "knobs").query_one("KnobRows").region)
        assert overview(pilot).query_one(KnobPanel).rows.table.knobs, "it is filled"


async def move(pilot: Pilot[None], start: tuple[int, int], end: tuple[int, int], *, button: int) -> None:
    """With the button down, in two steps."""
    await pilot.mouse_down(offset=start, button=button)
    middle = ((start[0] + end[0]) // 2, (start[1] + end[1]) // 2)
    for at in (middle, end):
        await pilot._post_mouse_events([events.MouseMove], offset=at, button=button)
    await pilot.mouse_up(offset=end)
    await settle(pilot)


async def test_borders_are_dragged(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment, size=(150, 42)) as pilot:
        below, right = at(pilot, "orchestrator"), at(pilot, "gpus")
        await move(pilot, (50, below.y), (50, below.y + 5), button=3)
        assert at(pilot, "orchestrator") == below, "only the left button drags"
        await move(pilot, (50, below.y), (50, below.y + 5), button=1)
        await until(pilot, lambda: at(pilot, "orchestrator").y == below.y + 5)
        await move(pilot, (right.x, 30), (right.x - 20, 35), button=1)
        await until(pilot, lambda: at(pilot, "gpus").x == right.x - 20)
        assert pilot.app.mouse_captured is None
        assert overview(pilot).panels.body.arrangement.widths != (2.0, 1.0)


@pytest.mark.slow
async def test_a_double_click_zooms_and_back(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment, size=(150, 42)) as pilot:
        body = overview(pilot).panels.body
        await pilot.click(GpuPanel, times=2)
        assert body.zoomed is pane(pilot, "gpus")
        await pilot.click(GpuPanel, times=2)
        assert body.zoomed is None
        await pilot.click("KnobRows", offset=(4, 3), times=2)
        assert body.zoomed is None, "it edits"


def test_the_line_says_what_there_is_room_for() -> None:
    assert arrange_words("trainer", 120).plain == (
        " Arrange trainer  h j k l move  + - height  < > width  x hide  c charts  a all  0 reset  tab next"
        "  esc ends"
    )
    assert arrange_words("trainer", 60).plain == " Arrange trainer  h j k l move  + - height  esc ends"
