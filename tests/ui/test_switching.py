"""From one experiment to another, without leaving."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import NOW, FakeExperiment, stopped_status
from tests.fakes.runs import FakeRuns, run_row, running_row
from tests.ui.conftest import Opener, press, said, settle, until
from textual.pilot import Pilot

from rltui.core.experiment.states import Reason
from rltui.errors import RltuiError
from rltui.ui.app import RltuiApp
from rltui.ui.dialogs.base import LeaveDialog, MessageDialog
from rltui.ui.requests import READONLY_TEXT, finished_text
from rltui.ui.screens.logs import LogScreen
from rltui.ui.screens.overview import Overview
from rltui.ui.screens.runs import RunsScreen


def shown(pilot: Pilot[None]) -> str:
    """The experiment of the overview."""
    screen = pilot.app.screen
    assert isinstance(screen, Overview)
    return screen.experiment.name


def events_workers(pilot: Pilot[None]) -> int:
    return sum(worker.group == "events" and not worker.is_finished for worker in pilot.app.workers)


async def test_without_an_experiment_all_runs_are_shown_and_one_is_opened(open_app: Opener) -> None:
    runs = FakeRuns(running_row("a"), run_row("b"))
    async with open_app(None, runs=runs) as pilot:
        assert isinstance(pilot.app.screen, RunsScreen)
        await press(pilot, "escape", "1", "2", "4", "7")
        assert isinstance(pilot.app.screen, RunsScreen), "nothing is open that these keys could show"
        await press(pilot, "enter")
        assert shown(pilot) == "a"
        await press(pilot, "7", "escape")
        assert shown(pilot) == "a"


async def test_another_takes_the_place_of_the_one_that_is_open(open_app: Opener) -> None:
    runs = FakeRuns(running_row("a", started_at=NOW), running_row("b"))
    experiment = FakeExperiment()
    experiment.name = "a"
    async with open_app(experiment, runs=runs) as pilot:
        await press(pilot, "2")
        logs = pilot.app.screen
        assert isinstance(logs, LogScreen)
        for there in ("b", "a"):
            await press(pilot, "7", "j" if there == "b" else "k", "enter")
            assert shown(pilot) == there
            assert len(pilot.app.screen_stack) == 1
            assert events_workers(pilot) == 1
        await until(pilot, lambda: not logs.is_running)
        await press(pilot, "2")
        assert isinstance(pilot.app.screen, LogScreen)
        assert pilot.app.screen.experiment.name == "a"
        await press(pilot, "7", "1")
        assert shown(pilot) == "a"
        assert sum(isinstance(each, Overview) for each in pilot.app._registry) == 1, "the others are gone"


@pytest.mark.slow
async def test_edits_that_are_not_written_are_asked_about(open_app: Opener) -> None:
    runs = FakeRuns(running_row("reverse-text"), running_row("b"))
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, Overview)
        screen.state.collect({"trainer.optim.lr": 1e-4}, {})
        await press(pilot, "7", "j", "enter")
        assert isinstance(pilot.app.screen, LeaveDialog)
        await press(pilot, "n")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert runs.opened == []
        await press(pilot, "enter", "y")
        assert shown(pilot) == "b"


async def test_a_run_that_cannot_be_opened_leaves_the_other_one(open_app: Opener) -> None:
    runs = FakeRuns(running_row("reverse-text"), run_row("b", state="lost", reason=Reason("folder_gone")))
    async with open_app(FakeExperiment(), runs=runs) as pilot:
        await press(pilot, "7", "j")
        runs.error = RltuiError("/runs/b is gone")
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, MessageDialog)
        await press(pilot, "escape", "escape")
        assert shown(pilot) == "reverse-text"
        assert events_workers(pilot) == 1


async def test_results_of_an_evaluator_open_with_their_rollouts(open_app: Opener) -> None:
    from rltui.ui.screens.rollouts import RolloutScreen

    runs = FakeRuns(run_row("vf", kind="evaluation"))
    async with open_app(None, runs=runs) as pilot:
        await press(pilot, "enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RolloutScreen)
        await press(pilot, "escape")
        assert shown(pilot) == "vf"


async def test_leaving_from_the_list_ends_the_app(open_app: Opener) -> None:
    async with open_app(None, runs=FakeRuns()) as pilot:
        assert isinstance(pilot.app, RltuiApp)
        await press(pilot, "q")
        assert pilot.app._exit


async def test_a_finished_run_says_what_cannot_be_done_and_opens_with_a_supervisor(
    open_app: Opener,
) -> None:
    finished = FakeExperiment(stopped_status())
    finished.finished = finished.readonly = True
    runs = FakeRuns(run_row("reverse-text"))
    async with open_app(finished, runs=runs) as pilot:
        await press(pilot, "x")
        assert said(pilot) == [finished_text()]
        await press(pilot, "S")
        assert runs.opened == ["id-reverse-text again"]
        assert shown(pilot) == "reverse-text"
        assert len(said(pilot)) == 1, "S is no key that does nothing"


async def test_of_a_finished_run_a_client_that_may_only_look_starts_nothing(open_app: Opener) -> None:
    finished = FakeExperiment(stopped_status())
    finished.finished = finished.readonly = True
    runs = FakeRuns(run_row("reverse-text"), readonly=True)
    async with open_app(finished, runs=runs) as pilot:
        await press(pilot, "S")
        assert runs.opened == []
        assert said(pilot) == [READONLY_TEXT]
