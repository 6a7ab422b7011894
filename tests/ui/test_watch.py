"""A run that somebody else started: panes for its log files, and no key that would change anything."""

from __future__ import annotations

from tests.fakes.experiment import FakeExperiment, component, gpu_report, running_status
from tests.ui.conftest import Opener, forget, press, said, settle
from tests.ui.watch_cases import LOG_IDS, log, watched, watching
from textual.pilot import Pilot

from rltui.core.config.report import KnobTable
from rltui.ui.requests import OBSERVED_TEXT
from rltui.ui.screens.overview import Overview
from rltui.ui.widgets.panes import LogFilePane


def overview(pilot: Pilot[None]) -> Overview:
    assert isinstance(pilot.app.screen, Overview)
    return pilot.app.screen


async def test_panes_follow_log_files(open_app: Opener) -> None:
    experiment = watching()
    async with open_app(experiment, component_ids=(), log_ids=LOG_IDS) as pilot:
        body = overview(pilot).panels.body
        assert experiment.opened == ["/run/inference.log", "/run/orchestrator.log", "/run/trainer.log"]
        assert [pane.reader_id for pane in body.readers if pane.region.height == 1] == ["envs"]
        await press(pilot, "t")
        assert overview(pilot).panels.selected == "trainer"
        await press(pilot, "j", "j")
        assert overview(pilot).panels.selected == "inference"
        experiment.push(watched(step=1))
        await settle(pilot)
        assert len(experiment.opened) == 3


async def test_panes_appear_with_the_first_status(open_app: Opener) -> None:
    async with open_app(watching(), component_ids=()) as pilot:
        assert [pane.reader_id for pane in overview(pilot).panels.body.readers] == list(LOG_IDS)


async def test_a_log_that_grows_is_selected_rather_than_one_that_is_missing(open_app: Opener) -> None:
    status = watched().replace(logs=(log("inference", None), log("trainer", 1)))
    experiment = watching(status, gpu_report(), KnobTable())
    async with open_app(experiment, component_ids=(), log_ids=("inference", "trainer")) as pilot:
        assert overview(pilot).panels.selected == "trainer"


async def test_a_file_that_appears_is_opened(open_app: Opener) -> None:
    none_yet = watched().replace(logs=(log("trainer", None),))
    experiment = watching(none_yet, gpu_report(), KnobTable())
    async with open_app(experiment, component_ids=(), log_ids=("trainer",)) as pilot:
        assert experiment.opened == []
        experiment.push(none_yet.replace(logs=(log("trainer", 1),)))
        await settle(pilot)
        assert experiment.opened == ["/run/trainer.log"]
        assert not pilot.app.screen.query_one(LogFilePane).has_class("-empty")


async def test_keys_say_that_there_is_nothing_to_start(open_app: Opener) -> None:
    experiment = watching()
    async with open_app(experiment, component_ids=(), log_ids=LOG_IDS) as pilot:
        for key in ("s", "S", "r", "D", "K"):
            await press(pilot, key)
            assert said(pilot) == [OBSERVED_TEXT]
            forget(pilot)
        assert experiment.planned == []


async def test_beside_one_component_its_keys_work_from_the_log_panes(open_app: Opener) -> None:
    status = running_status(
        components=(component("rl", log="/run/inference.log"),), logs=(log("trainer", 1),)
    )
    experiment = FakeExperiment(status, gpu_report(), KnobTable())
    async with open_app(experiment, component_ids=("rl",), log_ids=("trainer",)) as pilot:
        await press(pilot, "t", "r")
        assert experiment.planned[0].components == ("rl",)
