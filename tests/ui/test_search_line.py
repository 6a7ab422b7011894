"""The search line, one on all screens: it searches as it is typed, counts, keeps or goes back."""

from __future__ import annotations

import pytest
from tests.fakes.experiment import FakeExperiment
from tests.fakes.runs import FakeRuns
from tests.ui.checkpoint_cases import REPORT as CHECKPOINTS
from tests.ui.config_cases import config_experiment
from tests.ui.conftest import Opener, press, screen_lines, until
from tests.ui.run_cases import RUNS
from textual.pilot import Pilot

from rltui.ui.base_screen import BaseScreen
from rltui.ui.dialogs.search_line import SearchLine
from rltui.ui.logs.view import LogView
from rltui.ui.widgets.row_list import RowList


def rows(pilot: Pilot[None]) -> int:
    below = next(s for s in reversed(pilot.app.screen_stack) if isinstance(s, BaseScreen))
    return len(below.query(RowList).first().keys)


def status(pilot: Pilot[None]) -> str:
    line = pilot.app.screen
    assert isinstance(line, SearchLine)
    line._show_status()
    return str(line._status.render())


CASES: list[tuple[str, str, str, str]] = [
    # key of the screen, text that some match, count beside it, text that none matches
    ("6", "optim", "keys", "zqzq"),
    ("7", "base", "run", "zqzq"),
    ("9", "420", "1 row", "zqzq"),
]


@pytest.mark.parametrize(("screen", "text", "count", "none"), CASES)
async def test_lists_are_narrowed_while_it_is_typed(
    screen: str, text: str, count: str, none: str, open_app: Opener
) -> None:
    experiment = config_experiment()
    experiment.checkpoint_report = CHECKPOINTS
    async with open_app(experiment, runs=FakeRuns(*RUNS), size=(100, 30)) as pilot:
        await press(pilot, screen)
        shown = pilot.app.screen
        await until(pilot, lambda: rows(pilot) > 2)
        everything = rows(pilot)
        await press(pilot, "down", "down")
        key = shown.query(RowList).first().key
        await press(pilot, "slash", *text)
        await until(pilot, lambda: 0 < rows(pilot) < everything)
        found = rows(pilot)
        assert count in status(pilot)
        assert screen_lines(pilot)[-1].startswith(f" / {text}")
        await press(pilot, "escape")
        assert pilot.app.screen is shown
        await until(pilot, lambda: rows(pilot) == everything)
        assert shown.query(RowList).first().key == key, "esc goes back to where one was"
        await press(pilot, "slash", *text, "enter")
        assert pilot.app.screen is shown
        await until(pilot, lambda: rows(pilot) == found)
        await press(pilot, "slash", *none)
        await until(pilot, lambda: rows(pilot) == 0)
        await press(pilot, "escape")
        await until(pilot, lambda: rows(pilot) == found)
        await press(pilot, "escape")
        await until(pilot, lambda: rows(pilot) == everything)
        assert pilot.app.screen is shown, "the first esc ends the search"


async def test_a_log_goes_to_what_is_typed_and_back(experiment: FakeExperiment, open_app: Opener) -> None:
    async with open_app(experiment, size=(100, 30)) as pilot:
        await press(pilot, "o")
        pane = pilot.app.focused
        assert isinstance(pane, LogView)
        assert pane.window.follow
        await press(pilot, "slash", *"Step")
        await until(pilot, lambda: pane.model.search is not None and pane.model.search.offsets)
        assert "“Step”" in status(pilot)
        before = pane.model.current
        await press(pilot, "up")
        assert pane.model.current != before, "arrows go from match to match"
        assert pane.region.bottom < pilot.app.size.height, "the line hides nothing of the log"
        await press(pilot, "escape")
        assert pane.window.follow
        assert pane.model.search is None
        await press(pilot, "slash", *"Step", "enter")
        await until(pilot, lambda: pane.model.search is not None and pane.model.search.offsets)
        await press(pilot, "slash", *"zqzq")
        await until(pilot, lambda: pane.model.search is not None and not pane.model.search.is_running)
        await press(pilot, "escape")
        assert pane.window.query is not None
        assert pane.window.query.text == "Step", "what was searched before"
