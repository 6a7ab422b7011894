"""The tour: seen once, beside what it speaks of, in nobody's way."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment, gpu_report, knob_table, running_status, stopped_status
from tests.fakes.runs import FakeRuns
from tests.ui.conftest import Opener, press, settle, until
from textual.geometry import Offset, Region, Size
from textual.pilot import Pilot

from rltui.ui.actions import remap
from rltui.ui.dialogs.base import PlanDialog
from rltui.ui.dialogs.help import HelpScreen
from rltui.ui.dialogs.knob_editor import KnobEditor
from rltui.ui.screens.overview import Overview
from rltui.ui.screens.tour import STEPS, TourBox, place_beside
from rltui.ui.widgets.gpu_panel import GpuPanel
from rltui.ui.widgets.knob_table import KnobPanel


def tour(pilot: Pilot[None]) -> TourBox | None:
    overview = pilot.app.screen_stack[0]
    assert isinstance(overview, Overview)
    return overview.tour.box


def step(pilot: Pilot[None]) -> int:
    shown = tour(pilot)
    assert shown is not None
    return shown.index


async def test_it_is_shown_once_and_never_again(experiment: FakeExperiment, open_app: Opener) -> None:
    runs = FakeRuns()
    runs.saved_values["app"] = {"theme": "nord"}
    async with open_app(experiment, runs=runs, tour=True) as pilot:
        for at in range(len(STEPS)):
            assert step(pilot) == at
            await press(pilot, "enter" if at % 2 else "right")
        assert tour(pilot) is None
        await until(pilot, lambda: "tour" in runs.saved_values["app"])
        assert runs.saved_values["app"]["theme"] == "nord"
    async with open_app(experiment, runs=runs, tour=True) as pilot:
        assert tour(pilot) is None


async def test_it_waits_for_room_and_escape_dismisses_it_for_ever(
    experiment: FakeExperiment, open_app: Opener
) -> None:
    runs = FakeRuns()
    async with open_app(experiment, runs=runs, size=(40, 10), tour=True) as pilot:
        assert tour(pilot) is None
        await pilot.resize_terminal(100, 30)
        await settle(pilot)
        await press(pilot, "enter", "left", "left")
        assert step(pilot) == 0
        await press(pilot, "escape")
        assert tour(pilot) is None
        await until(pilot, lambda: "tour" in runs.saved_values.get("app", {}))


@pytest.mark.slow
async def test_it_is_not_shown_unless_it_is_asked_for(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment) as pilot:
        assert tour(pilot) is None
        await press(pilot, "4", "colon", *"tour", "enter")
        assert isinstance(pilot.app.screen, Overview)
        assert step(pilot) == 0
        await press(pilot, "right", "colon", *"tour", "enter")
        assert step(pilot) == 0, "from its beginning"


@pytest.mark.slow
async def test_other_keys_do_what_they_always_do(open_app: Opener) -> None:
    experiment = FakeExperiment(running_status(), gpu_report(), knob_table())
    async with open_app(experiment, tour=True) as pilot:
        await press(pilot, "t")
        screen = pilot.app.screen
        assert isinstance(screen, Overview)
        assert screen.panels.selected == "trainer"
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        await press(pilot, "escape", "ctrl+k", "enter")
        assert step(pilot) == 1, "enter is its own while it is shown"
        await press(pilot, "escape", "enter")
        assert isinstance(pilot.app.screen, KnobEditor), "and the knob's afterwards"


async def test_a_dialog_has_its_own_keys_meanwhile(open_app: Opener) -> None:
    experiment = FakeExperiment(stopped_status(), gpu_report(), knob_table())
    async with open_app(experiment, tour=True, ask_to_start=True) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, PlanDialog))
        await settle(pilot)
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, PlanDialog), "the key was the dialog's"
        assert step(pilot) == 0


def test_every_step_is_short_and_names_real_actions() -> None:
    assert len(STEPS) == 5
    for each in STEPS:
        assert "{" in each.text
        assert "{" not in each.words
        lines = each.words.splitlines()
        assert len(lines) == 3
        assert max(map(len, lines)) <= 54, each.title
    remap({"pane.next": "f12"})
    try:
        assert "f12 next pane" in STEPS[0].words
    finally:
        remap({})


@pytest.mark.parametrize("size", [(130, 40), (62, 14)])
async def test_each_step_is_on_the_screen_beside_what_it_speaks_of(
    size: tuple[int, int], open_app: Opener
) -> None:
    experiment = FakeExperiment(running_status(), gpu_report(), knob_table())
    async with open_app(experiment, size=size, tour=True) as pilot:
        for at in range(len(STEPS)):
            shown = tour(pilot)
            assert shown is not None
            assert shown.index == at
            assert Region(0, 1, size[0], size[1] - 2).contains_region(shown.region)
            if at in (1, 2) and size[0] >= 130:
                panel = pilot.app.screen.query_one((KnobPanel, GpuPanel)[at - 1])
                assert not shown.region.overlaps(panel.region)
            await press(pilot, "enter")


def test_place_beside_covers_nothing_where_it_can() -> None:
    screen, box = Size(130, 40), Size(58, 5)
    assert place_beside(Region(86, 1, 44, 20), box, screen) == Offset(28, 2)
    assert place_beside(Region(0, 1, 60, 20), box, screen) == Offset(60, 2)
    assert place_beside(Region(0, 39, 130, 1), box, screen) == Offset(2, 34)
    assert place_beside(Region(0, 1, 130, 10), box, screen) == Offset(2, 11)
    inside = place_beside(Region(0, 1, 130, 38), box, screen)
    assert Region(0, 1, 130, 38).contains_region(Region.from_offset(inside, box))
